//! The shortcut for tokens that only loop: which kinds of characters lead from a state back to itself, and which kinds
//! a token is made of. Where a token has no other kinds than its state loops on, it is allowed, up to the counter's
//! bound, and nothing has to be walked.

use crate::automaton::{Automaton, entry};

/// Kinds of characters; each is a bit. A byte that is in none is walked.
pub const CATEGORIES: [&[(u8, u8)]; 15] = [
    &[(b'0', b'0')],
    &[(b'1', b'9')],
    &[(b'A', b'F')],
    &[(b'G', b'Z')],
    &[(b'a', b'f')],
    &[(b'g', b'z')],
    &[(b' ', b' ')],
    &[(b'_', b'_')],
    &[(b'-', b'-')],
    &[(b'.', b'.')],
    &[(b'/', b'/'), (b':', b':')],
    &[(b'\'', b')'), (b',', b','), (b'!', b'!'), (b'?', b'?'), (b';', b';')],
    &[(b'#', b'&'), (b'*', b'+'), (b'<', b'>'), (b'@', b'@'), (b'^', b'^'), (b'`', b'`'), (b'|', b'|'), (b'~', b'~')],
    &[(b'[', b'['), (b']', b']'), (b'{', b'{'), (b'}', b'}')],
    &[(b'\t', b'\t'), (b'\n', b'\n'), (b'\r', b'\r')],
];
/// The bit of whole characters of two to four bytes.
pub const WIDE: u32 = 1 << 15;
/// The bit of a token that has a byte of no category, or part of a character: no state has it.
pub const OTHER: u32 = 1 << 16;
/// The bit of a state whose loops count characters.
pub const COUNTS: u32 = 1 << 16;

/// Well-formed UTF-8 of more than one byte (Unicode 15, table 3-7).
const WIDE_FORMS: [&[(u8, u8)]; 8] = [
    &[(0xc2, 0xdf), (0x80, 0xbf)],
    &[(0xe0, 0xe0), (0xa0, 0xbf), (0x80, 0xbf)],
    &[(0xe1, 0xec), (0x80, 0xbf), (0x80, 0xbf)],
    &[(0xed, 0xed), (0x80, 0x9f), (0x80, 0xbf)],
    &[(0xee, 0xef), (0x80, 0xbf), (0x80, 0xbf)],
    &[(0xf0, 0xf0), (0x90, 0xbf), (0x80, 0xbf), (0x80, 0xbf)],
    &[(0xf1, 0xf3), (0x80, 0xbf), (0x80, 0xbf), (0x80, 0xbf)],
    &[(0xf4, 0xf4), (0x80, 0x8f), (0x80, 0xbf), (0x80, 0xbf)],
];

/// The categories of a token in bits 0 to 16, and the number of its characters from bit 17 on.
pub fn token_categories(token: &[u8]) -> u32 {
    let Ok(text) = std::str::from_utf8(token) else { return OTHER };
    let mut bits = 0;
    let mut count = 0;
    for c in text.chars() {
        count += 1;
        bits |= match u8::try_from(c).ok().filter(u8::is_ascii) {
            None => WIDE,
            Some(b) => CATEGORIES.iter().position(|ranges| holds(ranges, b)).map_or(OTHER, |i| 1 << i),
        };
    }
    bits | count << 17
}

fn holds(ranges: &[(u8, u8)], b: u8) -> bool {
    ranges.iter().any(|r| (r.0..=r.1).contains(&b))
}

/// The categories that lead from a state back to it, and whether they count ([`COUNTS`]).
pub fn state_categories(automaton: &Automaton, state: u32) -> u32 {
    let mut bits = 0;
    // Whether characters count has to be one thing for all categories of a state.
    let mut counted: Option<bool> = None;
    let mut take = |bit: u32, loops: Option<bool>| {
        if let Some(counts) = loops
            && *counted.get_or_insert(counts) == counts
        {
            bits |= bit;
        }
    };
    for (i, ranges) in CATEGORIES.iter().enumerate() {
        let mut all: Option<bool> = None;
        let same = ranges.iter().flat_map(|r| r.0..=r.1).all(|b| match step(automaton, state, b) {
            Some((to, counts)) => to == state && *all.get_or_insert(counts) == counts,
            None => false,
        });
        take(1 << i, all.filter(|_| same));
    }
    let first = step(automaton, state, 0xc3);
    if let Some((_, counts)) = first {
        let same = WIDE_FORMS.iter().all(|form| wide_loops(automaton, state, form, counts));
        take(WIDE, Some(counts).filter(|_| same));
    }
    bits | if counted == Some(true) { COUNTS } else { 0 }
}

/// Where a byte leads that neither pushes, pops nor is padding, and whether it counts.
fn step(automaton: &Automaton, state: u32, byte: u8) -> Option<(u32, bool)> {
    let e = automaton.entry(state, byte);
    (e != 0 && e >> 30 == entry::PLAIN).then_some((e & 0xffff, e & entry::COUNT != 0))
}

/// Whether all characters of a form lead back, counted once, with their first byte, or not at all.
fn wide_loops(automaton: &Automaton, state: u32, form: &[(u8, u8)], counts: bool) -> bool {
    let mut states = vec![state];
    for (i, &(lo, hi)) in form.iter().enumerate() {
        let mut next = Vec::new();
        for &from in &states {
            let mut last_class = u32::MAX;
            for b in lo..=hi {
                let class = automaton.class(b);
                if std::mem::replace(&mut last_class, class) == class {
                    continue;
                }
                match step(automaton, from, b) {
                    Some((to, counted)) if counted == (counts && i == 0) => {
                        if !next.contains(&to) {
                            next.push(to);
                        }
                    }
                    _ => return false,
                }
            }
        }
        states = next;
    }
    states == [state]
}
