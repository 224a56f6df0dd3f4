//! The date for chat templates: several models get today's date in their system message.

use crate::base::local_seconds;
use crate::error::{Error, Result};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
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

    /// As Python's `strftime` in the C locale on Linux, with glibc's flags: `%-d` without padding, `%_d` with spaces,
    /// `%0e` with zeros, `%^a` and `%#p` in the other case. `TEMPLATE` names a directive that is not known.
    pub(super) fn format(&self, format: &str) -> Result<String> {
        let mut out = String::new();
        let mut chars = format.chars().peekable();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut flags = String::new();
            while let Some(flag) = chars.next_if(|c| "-_0^#".contains(*c)) {
                flags.push(flag);
            }
            // Other ways of writing, which the C locale does not have.
            chars.next_if(|c| matches!(c, 'E' | 'O'));
            let directive = chars.next().ok_or_else(|| Error::template("strftime_now: the format ends with %"))?;
            let (text, width, fill) = self.directive(directive)?;
            let fill = flags
                .chars()
                .rev()
                .find_map(|flag| match flag {
                    '-' => Some(None),
                    '_' => Some(Some(' ')),
                    '0' => Some(Some('0')),
                    _ => None,
                })
                .unwrap_or(Some(fill));
            out.extend(std::iter::repeat_n(
                fill.unwrap_or(' '),
                if fill.is_some() { width.saturating_sub(text.len()) } else { 0 },
            ));
            out.push_str(&match flags.contains('^') || flags.contains('#') {
                true if directive == 'p' && flags.contains('#') => text.to_lowercase(),
                true => text.to_uppercase(),
                false => text,
            });
        }
        Ok(out)
    }

    /// What a letter stands for, the least width, and what that is filled with.
    fn directive(&self, letter: char) -> Result<(String, usize, char)> {
        let weekday = self.weekday();
        let hour12 = (self.hour + 11) % 12 + 1;
        let number = |value: u32, width: usize, fill: char| Ok((value.to_string(), width, fill));
        // Days since 1 January, and weeks that begin with a day of the week.
        let day = self.day_of_year() as usize - 1;
        let week = |first: usize| ((day + 7 - (weekday + 7 - first) % 7) / 7) as u32;
        let (iso_year, iso_week) = self.iso_week();
        match letter {
            'd' => number(self.day, 2, '0'),
            'e' => number(self.day, 2, ' '),
            'm' => number(self.month, 2, '0'),
            'H' => number(self.hour, 2, '0'),
            'k' => number(self.hour, 2, ' '),
            'I' => number(hour12, 2, '0'),
            'l' => number(hour12, 2, ' '),
            'M' => number(self.minute, 2, '0'),
            'S' => number(self.second, 2, '0'),
            'f' => number(0, 6, '0'),
            'j' => number(self.day_of_year(), 3, '0'),
            'y' => number(self.year.rem_euclid(100) as u32, 2, '0'),
            'C' => number(self.year.div_euclid(100) as u32, 2, '0'),
            'g' => number(iso_year.rem_euclid(100) as u32, 2, '0'),
            'G' => Ok((iso_year.to_string(), 4, '0')),
            'V' => number(iso_week, 2, '0'),
            'U' => number(week(0), 2, '0'),
            'W' => number(week(1), 2, '0'),
            'w' => number(weekday as u32, 1, '0'),
            'u' => number(if weekday == 0 { 7 } else { weekday as u32 }, 1, '0'),
            'Y' => Ok((self.year.to_string(), 4, '0')),
            _ => self.text(letter, weekday).map(|text| (text, 0, ' ')),
        }
    }

    /// What a letter stands for that is no number.
    fn text(&self, letter: char, weekday: usize) -> Result<String> {
        let half = if self.hour < 12 { "AM" } else { "PM" };
        Ok(match letter {
            'B' => MONTHS[self.month_index()].to_owned(),
            'b' | 'h' => MONTHS[self.month_index()][..3].to_owned(),
            'A' => DAYS[weekday].to_owned(),
            'a' => DAYS[weekday][..3].to_owned(),
            'p' => half.to_owned(),
            'P' => half.to_lowercase(),
            'F' => self.format("%Y-%m-%d")?,
            'T' | 'X' => self.format("%H:%M:%S")?,
            'R' => self.format("%H:%M")?,
            'r' => self.format("%I:%M:%S %p")?,
            'D' | 'x' => self.format("%m/%d/%y")?,
            'c' => self.format("%a %b %e %H:%M:%S %Y")?,
            's' => (days(self.year, self.month, self.day) * 86_400
                + i64::from(self.hour * 3600 + self.minute * 60 + self.second))
            .to_string(),
            'n' => "\n".to_owned(),
            't' => "\t".to_owned(),
            '%' => "%".to_owned(),
            // Python's datetime.now() carries no zone.
            'Z' | 'z' => String::new(),
            other => return Err(Error::template(format!("strftime_now: the directive %{other} is not known"))),
        })
    }

    /// The year and the week that ISO 8601 counts: of the week's Thursday.
    fn iso_week(&self) -> (i64, u32) {
        let today = days(self.year, self.month, self.day);
        let thursday = today + 3 - (today + 3).rem_euclid(7);
        let (year, ..) = civil(thursday);
        (year, ((thursday - days(year, 1, 1)) / 7 + 1) as u32)
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
        assert!(
            (1..=12).contains(&now.month)
                && (1..=31).contains(&now.day)
                && now.hour < 24
                && now.minute < 60
                && now.second < 61,
            "{now:?}"
        );
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
            ("%C %g %G %V %U %W %u %w %P %r %s", "20 26 2026 27 26 26 6 6 am 09:05:03 AM 1783155903"),
            ("%_d %0e %-e %^a %#p %^B %Ey %Om %_H %-I", " 4 04 4 SAT am JULY 26 07  9 9"),
        ];
        for (format, expected) in cases {
            assert_eq!(date.format(format).unwrap(), expected, "{format}");
        }
        for bad in ["%Q", "50%", "%-"] {
            assert_eq!(date.format(bad).unwrap_err().code(), "TEMPLATE", "{bad}");
        }
        assert_eq!(DateTime::from_unix(0).format("%A").unwrap(), "Thursday");
        // Weeks at the turn of years, as Python has them.
        for (day, expected) in [
            (18_627, "2020 53 52 52"),
            (18_628, "2020 53 00 00"),
            (18_631, "2021 01 01 01"),
            (20_817, "2026 53 52 52"),
            (21_549, "2028 52 53 52"),
        ] {
            assert_eq!(DateTime::from_unix(day * 86_400).format("%G %V %U %W").unwrap(), expected, "day {day}");
        }
    }
}
