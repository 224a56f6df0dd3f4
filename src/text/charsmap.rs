//! SentencePiece's table of normalization: a trie in a double array, whose leaves say where in a text the replacement
//! stands. The `tokenizers` crate follows it unchecked, so all that can be reached in it is looked at here first.

use tokenizers::normalizers::precompiled::Precompiled;

use crate::error::{Error, Result};

/// The table, as metadata and tokenizer.json (there in base64) have it: the trie's bytes, the trie, the replacements.
pub(super) fn open(bytes: &[u8]) -> Result<Precompiled> {
    check(bytes)?;
    Precompiled::from(bytes).map_err(|_| Error::tokenizer("the table of normalization cannot be read"))
}

/// A unit of the trie, as the crate reads it.
#[derive(Clone, Copy)]
struct Unit(u32);

impl Unit {
    fn has_leaf(self) -> bool {
        self.0 >> 8 & 1 == 1
    }

    fn value(self) -> usize {
        (self.0 & 0x7FFF_FFFF) as usize
    }

    /// Its byte; no byte for a leaf.
    fn label(self) -> u32 {
        self.0 & (1 << 31 | 0xFF)
    }

    fn offset(self) -> usize {
        (self.0 as usize >> 10) << ((self.0 & 1 << 9) >> 6)
    }
}

/// `TOKENIZER` for a table that leads outside of itself.
pub(super) fn check(bytes: &[u8]) -> Result<()> {
    let bad = |what: &str| Error::tokenizer(format!("the table of normalization {what}"));
    let (size, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| bad("is too short"))?;
    let size = u32::from_le_bytes(*size) as usize;
    let (trie, texts) = rest.split_at_checked(size).ok_or_else(|| bad("is shorter than it says"))?;
    let (units, over) = trie.as_chunks::<4>();
    let texts = std::str::from_utf8(texts).map_err(|_| bad("has replacements that are no UTF-8"))?;
    if units.is_empty() || !over.is_empty() {
        return Err(bad("has no whole units"));
    }
    let unit = |at: usize| units.get(at).map(|bytes| Unit(u32::from_le_bytes(*bytes)));
    let outside = || bad("leads outside of itself");

    let mut seen = vec![false; units.len()];
    // Where the children of a node are: at this place, with the child's byte added by exclusive or.
    let mut waiting = vec![unit(0).ok_or_else(outside)?.offset()];
    while let Some(base) = waiting.pop() {
        match seen.get_mut(base) {
            Some(seen) if *seen => continue,
            Some(seen) => *seen = true,
            // The first child is at another place than this, but a leaf is here.
            None => return Err(outside()),
        }
        for byte in 1..=255 {
            let at = base ^ byte as usize;
            let child = unit(at).ok_or_else(outside)?;
            if child.label() != byte {
                continue;
            }
            let base = at ^ child.offset();
            if child.has_leaf() && !unit(base).is_some_and(|leaf| texts.is_char_boundary(leaf.value())) {
                return Err(outside());
            }
            waiting.push(base);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table whose trie has `units`, with the replacements `texts`.
    fn table(units: &[u32], texts: &str) -> Vec<u8> {
        let trie: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        [&(trie.len() as u32).to_le_bytes(), &trie[..], texts.as_bytes()].concat()
    }

    /// `a` becomes what stands at `value`; where the leaf is, and the last unit, are chosen.
    fn one_rule(value: u32, leaf: u32) -> Vec<u32> {
        let mut units = vec![0; 512];
        units[0] = 256 << 10;
        units[256 ^ 97] = ((256 ^ 97) ^ leaf) << 10 | 1 << 8 | 97;
        units[511.min(leaf as usize)] = 1 << 31 | value;
        units
    }

    #[test]
    fn a_rule_is_followed() {
        let normalizer = open(&table(&one_rule(2, 300), "x\0éé\0")).unwrap();
        assert_eq!(normalizer.normalize_string("banana"), "béénéénéé");
    }

    #[test]
    fn what_leads_outside_is_refused() {
        let good = table(&one_rule(0, 300), "é");
        assert!(check(&good).is_ok());
        for (what, bytes) in [
            ("nothing", vec![]),
            ("no trie", table(&[], "é")),
            ("half a unit", [&3u32.to_le_bytes()[..], &[0; 3]].concat()),
            ("a length beyond the end", [&u32::MAX.to_le_bytes()[..], &[0; 8]].concat()),
            ("children outside", table(&[256 << 10], "é")),
            ("a leaf outside", table(&one_rule(0, 5000), "é")),
            ("a text outside", table(&one_rule(9, 300), "é")),
            ("a text that begins within a character", table(&one_rule(1, 300), "é")),
            ("texts that are no UTF-8", [&good[..good.len() - 1]].concat()),
        ] {
            assert_eq!(check(&bytes).map_err(|e| e.code()), Err("TOKENIZER"), "{what}");
        }
        // Whatever the bytes, what passes is followed without a panic.
        let mut state = 7u32;
        for _ in 0..2000 {
            let mut units = one_rule(0, 300);
            for _ in 0..3 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = state as usize >> 8 & 511;
                units[at] = state.rotate_left(7);
            }
            if let Ok(normalizer) = open(&table(&units, "é\0")) {
                for byte in 1..=255u8 {
                    let _ = normalizer.normalize_string(&format!("a{}aa", char::from(byte)));
                }
            }
        }
    }
}
