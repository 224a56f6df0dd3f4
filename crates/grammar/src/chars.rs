//! Sets of code points, and how their members are written as bytes: UTF-8, and JSON's escapes.

/// The last code point.
pub(crate) const MAX_CHAR: u32 = 0x10_ffff;

/// Sorted ranges of code points that neither overlap nor touch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct CharSet(pub Vec<(u32, u32)>);

impl CharSet {
    pub fn new(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut out: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (lo, hi) in ranges {
            match out.last_mut() {
                Some(last) if lo <= last.1.saturating_add(1) => last.1 = last.1.max(hi),
                _ => out.push((lo, hi)),
            }
        }
        Self(out)
    }

    pub fn any() -> Self {
        Self(vec![(0, MAX_CHAR)])
    }

    pub fn one(c: u32) -> Self {
        Self(vec![(c, c)])
    }

    #[must_use]
    pub fn negated(&self) -> Self {
        let mut out = Vec::with_capacity(self.0.len() + 1);
        let mut at = 0;
        for &(lo, hi) in &self.0 {
            if lo > at {
                out.push((at, lo - 1));
            }
            at = hi + 1;
        }
        if at <= MAX_CHAR {
            out.push((at, MAX_CHAR));
        }
        Self(out)
    }
}

/// The ranges of code points whose UTF-8 has one length, surrogates left out: first, last, length in bytes.
const LENGTHS: [(u32, u32, usize); 5] =
    [(0, 0x7f, 1), (0x80, 0x7ff, 2), (0x800, 0xd7ff, 3), (0xe000, 0xffff, 3), (0x1_0000, MAX_CHAR, 4)];

/// A sequence of byte ranges, of which the first `len` count.
pub(crate) type Utf8 = ([(u8, u8); 4], usize);

/// Calls back with sequences of byte ranges which together are the UTF-8 of the code points from `lo` to `hi`.
pub(crate) fn utf8(lo: u32, hi: u32, f: &mut impl FnMut(Utf8)) {
    for (first, last, len) in LENGTHS {
        let (a, b) = (lo.max(first), hi.min(last));
        if a <= b {
            split(a, b, len, f);
        }
    }
}

/// Splits a range until each byte but the first that varies runs over all continuation bytes.
fn split(lo: u32, hi: u32, len: usize, f: &mut impl FnMut(Utf8)) {
    for i in (1..len).rev() {
        let mask = (1u32 << (6 * i)) - 1;
        if lo & !mask != hi & !mask {
            if lo & mask != 0 {
                split(lo, lo | mask, len, f);
                return split((lo | mask) + 1, hi, len, f);
            }
            if hi & mask != mask {
                split(lo, (hi & !mask) - 1, len, f);
                return split(hi & !mask, hi, len, f);
            }
        }
    }
    let mut bytes = [(0, 0); 4];
    for (i, byte) in bytes.iter_mut().enumerate().take(len) {
        let shift = 6 * (len - 1 - i);
        let (prefix, keep) = if i > 0 { (0x80, 0x3f) } else { ([0, 0, 0xc0, 0xe0, 0xf0][len], 0xff) };
        *byte = ((prefix | (lo >> shift & keep)) as u8, (prefix | (hi >> shift & keep)) as u8);
    }
    f((bytes, len));
}

/// The letter behind the backslash where JSON has a short escape for a code point.
pub(crate) fn short_escape(c: u32) -> Option<u8> {
    Some(match c {
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0c => b'f',
        0x0d => b'r',
        0x22 => b'"',
        0x5c => b'\\',
        _ => return None,
    })
}

/// The code points that stand in a JSON string as they are.
pub(crate) const PLAIN: [(u32, u32); 3] = [(0x20, 0x21), (0x23, 0x5b), (0x5d, MAX_CHAR)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf8_ranges_are_the_encoding_of_each_code_point() {
        for (lo, hi) in [(0, MAX_CHAR), (0x7f, 0x80), (0x7fe, 0x1_0001), (0x20ac, 0x20ac), (0x3ff, 0x1_2345)] {
            let mut sequences = Vec::new();
            utf8(lo, hi, &mut |s| sequences.push(s));
            for c in (lo..=hi).step_by(7).chain([lo, hi]) {
                let Some(c) = char::from_u32(c) else { continue };
                let mut buffer = [0; 4];
                let bytes = c.encode_utf8(&mut buffer).as_bytes();
                let fits =
                    |s: &&Utf8| s.1 == bytes.len() && s.0.iter().zip(bytes).all(|(r, b)| (r.0..=r.1).contains(b));
                assert_eq!(sequences.iter().filter(fits).count(), 1, "{c:?} in {lo:x}..{hi:x}");
            }
        }
    }
}
