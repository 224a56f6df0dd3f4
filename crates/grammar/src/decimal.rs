//! Decimal numbers as text, and the languages of numbers: within bounds, multiples, integers. A number's text is
//! compared with a bound digit by digit, so nothing is rounded.

use std::cmp::Ordering;

use serde_json::Number;

use crate::budget::Budget;
use crate::dfa::{Arc, Dfa};
use crate::error::{Error, ErrorKind, Result};

/// Digits before and behind the point, without zeros that say nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Decimal {
    pub negative: bool,
    pub int: Vec<u8>,
    pub frac: Vec<u8>,
}

impl Decimal {
    pub fn of(number: &Number) -> Self {
        Self::read(&number.to_string())
    }

    /// A number as JSON writes it. Its exponent becomes digits.
    pub fn read(text: &str) -> Self {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |t| (true, t));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i64 = exponent.parse().unwrap_or(0);
        let (int, frac) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: Vec<u8> = int.bytes().chain(frac.bytes()).map(|b| b - b'0').collect();
        let point = int.len() as i64 + exponent;
        let digit = |i: i64| usize::try_from(i).ok().and_then(|i| digits.get(i)).copied().unwrap_or(0);
        let mut int: Vec<u8> = (0..point.max(0)).map(digit).skip_while(|&d| d == 0).collect();
        let mut frac: Vec<u8> = (point..digits.len() as i64).map(digit).collect();
        while frac.last() == Some(&0) {
            frac.pop();
        }
        if int.is_empty() {
            int.push(0);
        }
        let negative = negative && (int != [0] || !frac.is_empty());
        Self { negative, int, frac }
    }

    /// An integer's text: a sign or none, and digits.
    pub fn integer(text: &str) -> Self {
        let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (digits != "0", digits));
        Self { negative, int: digits.bytes().map(|b| b - b'0').collect(), frac: Vec::new() }
    }

    #[cfg(test)]
    pub fn compare(&self, other: &Self) -> Ordering {
        let size = |d: &Self| (d.int.len(), d.int.clone(), d.frac.clone());
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => size(self).cmp(&size(other)),
            (true, true) => size(other).cmp(&size(self)),
        }
    }

    pub fn text(&self) -> String {
        let digits = |list: &[u8]| list.iter().map(|d| char::from(b'0' + d)).collect::<String>();
        let sign = if self.negative { "-" } else { "" };
        let frac = if self.frac.is_empty() { String::new() } else { format!(".{}", digits(&self.frac)) };
        format!("{sign}{}{frac}", digits(&self.int))
    }
}

/// A condition on numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Rule {
    Integer(bool),
    /// The orderings of number to bound that are allowed: less, equal, greater.
    Compare(Decimal, [bool; 3]),
    /// Multiples, or everything else.
    Multiple(Decimal, bool),
}

impl Rule {
    /// The opposite.
    pub fn negated(&self) -> Self {
        match self {
            Self::Integer(yes) => Self::Integer(!yes),
            Self::Compare(bound, ok) => Self::Compare(bound.clone(), ok.map(|ok| !ok)),
            Self::Multiple(of, yes) => Self::Multiple(of.clone(), !yes),
        }
    }

    /// The texts of the numbers that it allows. Numbers with an exponent are left out.
    pub fn language(&self, budget: &Budget) -> Result<Dfa> {
        match self {
            Self::Integer(true) => crate::regex::whole("-?(0|[1-9][0-9]*)", budget),
            // Fractions that are not zero.
            Self::Integer(false) => crate::regex::whole("-?(0|[1-9][0-9]*)\\.[0-9]*[1-9][0-9]*", budget),
            Self::Compare(bound, ok) => compared(bound, |o| ok[(o as i8 + 1) as usize], budget),
            Self::Multiple(of, yes) => multiples(of, *yes, budget),
        }
    }
}

/// Any number, or any that the rules allow.
pub(crate) fn language(rules: &[Rule], budget: &Budget) -> Result<Dfa> {
    if rules.is_empty() {
        // Exponents of three digits are where parsers of doubles begin to refuse.
        return crate::regex::whole("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]{1,2})?", budget);
    }
    let parts = rules.iter().map(|rule| rule.language(budget)).collect::<Result<Vec<_>>>()?;
    Dfa::intersection(&parts.iter().collect::<Vec<_>>(), budget)
}

/// A table of states that is filled by digits; state 0 is the start.
struct Table {
    arcs: Vec<Vec<(u8, u32)>>,
    tags: Vec<u32>,
}

impl Table {
    fn new() -> Self {
        Self { arcs: vec![Vec::new()], tags: vec![0] }
    }

    fn state(&mut self, accepted: bool) -> u32 {
        self.arcs.push(Vec::new());
        self.tags.push(u32::from(accepted));
        self.arcs.len() as u32 - 1
    }

    fn arc(&mut self, from: u32, byte: u8, to: u32) {
        self.arcs[from as usize].push((byte, to));
    }

    fn finish(self, budget: &Budget) -> Result<Dfa> {
        budget.check_states(self.arcs.len())?;
        budget.spend(self.arcs.iter().map(|a| a.len() + 1).sum())?;
        let arcs = self.arcs.into_iter().map(|mut row| {
            row.sort_unstable();
            row.into_iter().map(|(b, to)| Arc { lo: b.into(), hi: b.into(), to }).collect()
        });
        Dfa { arcs: arcs.collect(), tags: self.tags }.minimised(budget)
    }
}

/// Numbers `-?int(.frac)?` whose ordering to `bound` is `ok`.
fn compared(bound: &Decimal, ok: impl Fn(Ordering) -> bool, budget: &Budget) -> Result<Dfa> {
    let mut table = Table::new();
    let minus = table.state(false);
    table.arc(0, b'-', minus);
    let zero = bound.int == [0] && bound.frac.is_empty();
    for (from, negative) in [(0, false), (minus, true)] {
        if negative == bound.negative || zero {
            // Of one sign, or compared with 0: the magnitudes decide; -0 equals 0.
            magnitudes(&mut table, from, bound, |o| ok(if negative { o.reverse() } else { o }));
        } else {
            // Of two signs: these decide. -0 is not below a negative bound: that is of one sign.
            let all = if negative { Ordering::Less } else { Ordering::Greater };
            magnitudes(&mut table, from, &Decimal { negative: false, int: vec![0], frac: Vec::new() }, |_| ok(all));
        }
    }
    table.finish(budget)
}

/// Unsigned numbers behind `from`, accepted by the ordering of their magnitude to that of `bound`.
fn magnitudes(table: &mut Table, from: u32, bound: &Decimal, ok: impl Fn(Ordering) -> bool) {
    use Ordering::{Equal, Greater, Less};
    let (int, frac) = (&bound.int, &bound.frac);
    let rest = if frac.is_empty() { Equal } else { Less };
    // Behind the point: what all further digits leave as it is, and what is still equal to the bound's first j digits.
    let settled = |table: &mut Table, ordering: Ordering| {
        let (point, digits) = (table.state(false), table.state(ok(ordering)));
        for d in b'0'..=b'9' {
            table.arc(point, d, digits);
            table.arc(digits, d, digits);
        }
        (point, digits)
    };
    let (less, greater) = (settled(table, Less), settled(table, Greater));
    let equal: Vec<u32> =
        (0..=frac.len()).map(|j| table.state(j > 0 && ok(if j < frac.len() { Less } else { Equal }))).collect();
    let zeros = table.state(ok(Equal));
    for (j, &state) in equal.iter().enumerate().chain([(frac.len(), &zeros)]) {
        for d in 0..=9u8 {
            let to = match frac.get(j) {
                Some(&b) if d == b => equal[j + 1],
                Some(&b) if d < b => less.1,
                None if d == 0 => zeros,
                _ => greater.1,
            };
            table.arc(state, b'0' + d, to);
        }
    }
    // Before the point: i digits read, and how they compare with as many of the bound's; fewer digits are less, more
    // are greater.
    let verdict = |i: usize, o: Ordering| match i.cmp(&int.len()) {
        Equal if o == Equal => rest,
        Equal => o,
        other => other,
    };
    let mut known: std::collections::HashMap<(usize, Ordering), u32> = std::collections::HashMap::new();
    let mut queue = Vec::new();
    let mut get = |table: &mut Table, queue: &mut Vec<(usize, Ordering)>, i: usize, o: Ordering| {
        let key = if i > int.len() { (int.len() + 1, Greater) } else { (i, o) };
        *known.entry(key).or_insert_with(|| {
            queue.push(key);
            table.state(ok(verdict(key.0, key.1)))
        })
    };
    for d in 0..=9u8 {
        let to = get(table, &mut queue, 1, d.cmp(&int[0]));
        table.arc(from, b'0' + d, to);
    }
    let mut lone_zero = None;
    while let Some((i, o)) = queue.pop() {
        let state = get(table, &mut queue, i, o);
        let order = match i.cmp(&int.len()) {
            Equal => o,
            other => other,
        };
        let point = match order {
            Less => less.0,
            Greater => greater.0,
            Equal => equal[0],
        };
        table.arc(state, b'.', point);
        for d in 0..=9u8 {
            let to =
                get(table, &mut queue, i + 1, if o == Equal { int.get(i).map_or(Greater, |b| d.cmp(b)) } else { o });
            table.arc(state, b'0' + d, to);
        }
        if i == 1 && o == 0.cmp(&int[0]) && lone_zero.is_none() {
            // A zero in front is the whole integer.
            let zero = table.state(ok(verdict(1, o)));
            table.arc(zero, b'.', point);
            lone_zero = Some(zero);
        }
    }
    if let Some(zero) = lone_zero {
        for (byte, to) in &mut table.arcs[from as usize] {
            if *byte == b'0' {
                *to = zero;
            }
        }
    }
}

/// Multiples of `of`, or all other numbers, without exponents.
fn multiples(of: &Decimal, yes: bool, budget: &Budget) -> Result<Dfa> {
    let places = of.frac.len();
    let scaled = of.int.iter().chain(&of.frac).fold(0u64, |n, &d| n.saturating_mul(10).saturating_add(d.into()));
    let too_large = || Error::new(ErrorKind::Unsupported, "a multiple of so large or so long a number");
    if scaled == 0 {
        return Err(Error::new(ErrorKind::InvalidSchema, "it has to be greater than 0"));
    }
    let Some(size) = usize::try_from(scaled).ok().filter(|&m| m.saturating_mul(places + 2) <= 20_000) else {
        return Err(too_large());
    };
    budget.spend(size * (places + 2) * 10)?;
    // The remainder of the digits so far, where p of those behind the point are read; those that lack count as zeros.
    let power = |p: usize| (0..places - p).fold(1 % size, |x, _| x * 10 % size);
    let fits = |r: usize, p: usize| (r * power(p)).is_multiple_of(size) == yes;
    let mut table = Table::new();
    let minus = table.state(false);
    table.arc(0, b'-', minus);
    let int: Vec<u32> = (0..size).map(|r| table.state(fits(r, 0))).collect();
    let behind: Vec<Vec<u32>> =
        (0..=places).map(|p| (0..size).map(|r| table.state(p > 0 && fits(r, p))).collect()).collect();
    // Digits beyond the last place: zeros keep what there is, any other makes it no multiple.
    let zeros: Vec<u32> = (0..size).map(|r| table.state(fits(r, places))).collect();
    let never = table.state(!yes);
    let zero = table.state(fits(0, 0));
    for d in b'0'..=b'9' {
        table.arc(never, d, never);
        for from in [0, minus] {
            table.arc(from, d, if d == b'0' { zero } else { int[usize::from(d - b'0') % size] });
        }
    }
    table.arc(zero, b'.', behind[0][0]);
    for r in 0..size {
        table.arc(int[r], b'.', behind[0][r]);
        for d in 0..=9usize {
            let next = (r * 10 + d) % size;
            table.arc(int[r], b'0' + d as u8, int[next]);
            for p in 0..places {
                table.arc(behind[p][r], b'0' + d as u8, behind[p + 1][next]);
            }
            let beyond = if d == 0 { zeros[r] } else { never };
            table.arc(behind[places][r], b'0' + d as u8, beyond);
            table.arc(zeros[r], b'0' + d as u8, beyond);
        }
    }
    table.finish(budget)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn decimal(text: &str) -> Decimal {
        Decimal::of(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn comparisons_agree_with_arithmetic() {
        let budget = Budget::new(Limits { work: u64::MAX, ..Limits::default() });
        let bounds =
            ["0", "1", "-1", "10", "99", "100", "-100", "0.5", "-0.5", "3.14", "-3.14", "0.05", "1e3", "1.25e-3", "7"];
        let texts = [
            "0", "-0", "0.0", "1", "1.0", "-1", "9", "10", "11", "98.99", "99", "99.01", "100", "-99.9", "-100",
            "-101", "0.5", "0.50", "0.49", "0.51",
        ];
        let more = [
            "-0.5", "-0.49", "-0.51", "3.14", "3.1400", "3.139", "3.15", "-3.14", "-3.141", "0.05", "0.06", "0.04",
            "1000", "0.00125", "7", "70", "6.9",
        ];
        for bound in bounds.map(decimal) {
            for (i, ordering) in [Ordering::Less, Ordering::Equal, Ordering::Greater].into_iter().enumerate() {
                let mut ok = [false; 3];
                ok[i] = true;
                let dfa = Rule::Compare(bound.clone(), ok).language(&budget).unwrap();
                for text in texts.iter().chain(&more) {
                    let got = decimal(text).compare(&bound);
                    assert_eq!(dfa.accepts(text), got == ordering, "{text} is {got:?} to {}", bound.text());
                    let value: f64 = text.parse().unwrap();
                    assert_eq!(got, value.partial_cmp(&bound.text().parse().unwrap()).unwrap());
                }
                for wrong in ["", "-", "01", "1.", ".5", "00", "-01", "1e3", "+1"] {
                    assert!(!dfa.accepts(wrong), "{wrong} is no number");
                }
            }
        }
    }

    #[test]
    fn multiples_agree_with_arithmetic() {
        let budget = Budget::new(Limits { work: u64::MAX, ..Limits::default() });
        for (of, unit, places) in
            [("1", 1, 0), ("7", 7, 0), ("0.01", 1, 2), ("2.5", 25, 1), ("12", 12, 0), ("0.75", 75, 2)]
        {
            let (yes, no) = (
                Rule::Multiple(decimal(of), true).language(&budget).unwrap(),
                Rule::Multiple(decimal(of), false).language(&budget).unwrap(),
            );
            for n in -2000i64..2000 {
                let text = decimal(&format!("{n}e-3")).text();
                let multiple = n * 10i64.pow(places) % (unit * 1000) == 0;
                assert_eq!((yes.accepts(&text), no.accepts(&text)), (multiple, !multiple), "{text} and {of}");
            }
        }
    }
}
