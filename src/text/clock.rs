//! The date for chat templates: several models are told today's in their system message.

use std::fmt::Write;

use crate::base::local_seconds;
use crate::error::{Error, Result};

const MONTHS: [&str; 12] = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A date and time without a zone, as `strftime_now` formats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateTime {
    year: i64,
    /// 1 to 12.
    month: u32,
    /// 1 to 31.
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

impl DateTime {
    /// The present: local time in a browser, UTC natively.
    pub fn now() -> Self {
        Self::from_unix(local_seconds())
    }

    /// UTC, from seconds since 1970.
    pub fn from_unix(seconds: i64) -> Self {
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400) as u32);
        let (year, month, day) = civil(days);
        Self { year, month, day, hour: rest / 3600, minute: rest / 60 % 60, second: rest % 60 }
    }

    /// As Python's `strftime` in the C locale, with glibc's `%-d` for "no padding". `TEMPLATE` names a directive that is not known.
    pub(super) fn format(&self, format: &str) -> Result<String> {
        let mut out = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut directive = chars.next();
            let padded = directive != Some('-');
            if !padded {
                directive = chars.next();
            }
            self.directive(directive, padded, &mut out)?;
        }
        Ok(out)
    }

    fn directive(&self, directive: Option<char>, padded: bool, out: &mut String) -> Result<()> {
        let weekday = self.weekday();
        let mut number = |value: u32, width: usize, fill: char| {
            // Writing to a String does not fail.
            let _ = match (padded, fill) {
                (false, _) => write!(out, "{value}"),
                (true, ' ') => write!(out, "{value:>width$}"),
                (true, _) => write!(out, "{value:0>width$}"),
            };
        };
        let hour12 = (self.hour + 11) % 12 + 1;
        match directive {
            Some('d') => number(self.day, 2, '0'),
            Some('e') => number(self.day, 2, ' '),
            Some('m') => number(self.month, 2, '0'),
            Some('H') => number(self.hour, 2, '0'),
            Some('k') => number(self.hour, 2, ' '),
            Some('I') => number(hour12, 2, '0'),
            Some('l') => number(hour12, 2, ' '),
            Some('M') => number(self.minute, 2, '0'),
            Some('S') => number(self.second, 2, '0'),
            Some('f') => number(0, 6, '0'),
            Some('j') => number(self.day_of_year(), 3, '0'),
            Some('y') => number(self.year.rem_euclid(100) as u32, 2, '0'),
            Some('w') => number(weekday as u32, 1, '0'),
            Some('u') => number(if weekday == 0 { 7 } else { weekday as u32 }, 1, '0'),
            Some('Y') => out.push_str(&self.year.to_string()),
            Some('B') => out.push_str(MONTHS[self.month_index()]),
            Some('b' | 'h') => out.push_str(&MONTHS[self.month_index()][..3]),
            Some('A') => out.push_str(DAYS[weekday]),
            Some('a') => out.push_str(&DAYS[weekday][..3]),
            Some('p') => out.push_str(if self.hour < 12 { "AM" } else { "PM" }),
            Some('F') => out.push_str(&self.format("%Y-%m-%d")?),
            Some('T' | 'X') => out.push_str(&self.format("%H:%M:%S")?),
            Some('R') => out.push_str(&self.format("%H:%M")?),
            Some('D' | 'x') => out.push_str(&self.format("%m/%d/%y")?),
            Some('c') => out.push_str(&self.format("%a %b %e %H:%M:%S %Y")?),
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('%') => out.push('%'),
            // Python's datetime.now() carries no zone.
            Some('Z' | 'z') => {}
            Some(other) => return Err(Error::template(format!("strftime_now: the directive %{other} is not known"))),
            None => return Err(Error::template("strftime_now: the format ends with %")),
        }
        Ok(())
    }

    fn month_index(&self) -> usize {
        (self.month as usize + 11) % 12
    }

    /// 0 is Sunday.
    fn weekday(&self) -> usize {
        // 1970-01-01 was a Thursday.
        (days(self.year, self.month, self.day) + 4).rem_euclid(7) as usize
    }

    fn day_of_year(&self) -> u32 {
        (days(self.year, self.month, self.day) - days(self.year, 1, 1) + 1) as u32
    }
}

/// Days since 1970 of a date of the Gregorian calendar. Years begin in March here, so that the leap day comes last:
/// the months from March on then begin on day (153 m + 2) / 5.
fn days(year: i64, month: u32, day: u32) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = i64::from((153 * ((month + 9) % 12) + 2) / 5 + day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The inverse of [`days`].
fn civil(day: i64) -> (i64, u32, u32) {
    // A year that is not too late: before 1970 short years reach further back.
    let mut year = 1970 + day.div_euclid(if day < 0 { 365 } else { 366 });
    while days(year + 1, 1, 1) <= day {
        year += 1;
    }
    let month = (1..=12).rev().find(|&m| days(year, m, 1) <= day).unwrap_or(1);
    (year, month, (day - days(year, month, 1) + 1) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock is another one in a browser.
    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn now_is_after_this_was_written() {
        let now = DateTime::now();
        assert!((2026..2200).contains(&now.year), "{now:?}");
        assert!((1..=12).contains(&now.month) && (1..=31).contains(&now.day) && now.hour < 24 && now.minute < 60 && now.second < 61, "{now:?}");
    }

    #[test]
    fn every_day_of_two_centuries_converts_both_ways() {
        let mut expected = (1899, 12, 31);
        for day in days(1900, 1, 1)..days(2101, 1, 1) {
            let (year, month, last) = expected;
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 if leap => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected = if last < length {
                (year, month, last + 1)
            } else if month < 12 {
                (year, month + 1, 1)
            } else {
                (year + 1, 1, 1)
            };
            assert_eq!(civil(day), expected);
            assert_eq!(days(expected.0, expected.1, expected.2), day);
        }
    }

    #[test]
    fn formats_as_python_does() {
        let date = DateTime::from_unix(1_783_155_903); // 2026-07-04T09:05:03
        let cases = [
            ("%d %b %Y", "04 Jul 2026"),
            ("%Y-%m-%d %H:%M:%S", "2026-07-04 09:05:03"),
            ("%A, %B %e", "Saturday, July  4"),
            ("%-d/%-m %I:%M %p %j %y %%", "4/7 09:05 AM 185 26 %"),
            ("%c|%F|%T|%x", "Sat Jul  4 09:05:03 2026|2026-07-04|09:05:03|07/04/26"),
        ];
        for (format, expected) in cases {
            assert_eq!(date.format(format).unwrap(), expected, "{format}");
        }
        for bad in ["%Q", "50%", "%-"] {
            assert_eq!(date.format(bad).unwrap_err().code(), "TEMPLATE", "{bad}");
        }
        assert_eq!(DateTime::from_unix(0).format("%A").unwrap(), "Thursday");
    }
}
