//! Free text that looks for triggers. It is well-formed UTF-8, and a special token that is no trigger has no place in
//! it.

use crate::error::{Error, ErrorKind, Result};
use crate::hash::Map;
use crate::nfa::{Effect, Nfa, StateId};
use crate::vocabulary::{SPECIAL_BEGIN, SPECIAL_END};

/// States of the automaton that looks for triggers.
const MAX_STATES: usize = 4096;

/// Where free text begins, and all places where it may end: a character is complete and no trigger is.
pub(crate) struct Free {
    pub start: StateId,
    pub ends: Vec<StateId>,
}

/// Whether bytes are text and whole special tokens.
pub(crate) fn is_text(mut bytes: &[u8]) -> bool {
    loop {
        let text = bytes.iter().position(|&b| b == SPECIAL_BEGIN).unwrap_or(bytes.len());
        if std::str::from_utf8(&bytes[..text]).is_err() {
            return false;
        }
        let Some(special) = bytes.get(text + 1..) else { return true };
        let Some(end) = special.iter().position(|&b| b == SPECIAL_END) else { return false };
        if std::str::from_utf8(&special[..end]).is_err() {
            return false;
        }
        bytes = &special[end + 1..];
    }
}

fn wrong(reason: &str) -> Error {
    Error::new(ErrorKind::InvalidSchema, reason)
}

/// A tree of words. Where a byte has no child, 0.
struct Tree {
    to: Vec<[u32; 256]>,
    /// The word that ends in a node.
    word: Vec<Option<usize>>,
}

impl Tree {
    fn new() -> Self {
        Self { to: vec![[0; 256]], word: vec![None] }
    }

    fn add(&mut self, bytes: &[u8], word: usize) -> Result<()> {
        let mut at = 0;
        for &b in bytes {
            let next = self.to[at][usize::from(b)];
            at = if next != 0 {
                next as usize
            } else {
                if self.to.len() >= MAX_STATES {
                    return Err(Error::new(ErrorKind::TooLarge, format!("triggers of more than {MAX_STATES} bytes")));
                }
                let fresh = self.to.len();
                self.to[at][usize::from(b)] = fresh as u32;
                self.to.push([0; 256]);
                self.word.push(None);
                fresh
            };
        }
        match self.word[at].replace(word) {
            Some(_) => Err(Error::new(ErrorKind::Ambiguous, "two equal triggers")),
            None => Ok(()),
        }
    }

    /// Leads each byte without a child to the node of the longest proper suffix instead (Aho and Corasick, "Efficient
    /// string matching", 1975).
    fn link(&mut self) {
        let mut suffix = vec![0usize; self.to.len()];
        let mut queue: Vec<usize> = self.to[0].iter().filter(|&&c| c != 0).map(|&c| c as usize).collect();
        let mut next = 0;
        while next < queue.len() {
            let node = queue[next];
            next += 1;
            let other = suffix[node];
            self.word[node] = self.word[node].or(self.word[other]);
            for b in 0..256 {
                let child = self.to[node][b] as usize;
                let instead = self.to[other][b];
                if child == 0 {
                    self.to[node][b] = instead;
                } else {
                    suffix[child] = instead as usize;
                    queue.push(child);
                }
            }
        }
    }
}

/// Where a byte of well-formed UTF-8 leads, from the beginning of a character (0) or inside of one (Unicode 15, table
/// 3-7).
fn utf8_step(at: u8, byte: u8) -> Option<u8> {
    Some(match (at, byte) {
        (0, 0..=0x7f) | (1, 0x80..=0xbf) => 0,
        (0, 0xc2..=0xdf) | (2, 0x80..=0xbf) | (4, 0xa0..=0xbf) | (5, 0x80..=0x9f) => 1,
        (0, 0xe1..=0xec | 0xee | 0xef) | (3, 0x80..=0xbf) | (6, 0x90..=0xbf) | (7, 0x80..=0x8f) => 2,
        (0, 0xf1..=0xf3) => 3,
        (0, 0xe0) => 4,
        (0, 0xed) => 5,
        (0, 0xf0) => 6,
        (0, 0xf4) => 7,
        _ => return None,
    })
}

/// States that read text and go to `exits[i]` behind the first `words[i]`. A word is text or one special token.
pub(crate) fn free(nfa: &mut Nfa, words: &[&[u8]], exits: &[StateId]) -> Result<Free> {
    let (mut texts, mut specials) = (Tree::new(), Tree::new());
    for (i, word) in words.iter().enumerate() {
        if word.is_empty() {
            return Err(wrong("an empty trigger"));
        }
        let special = word[0] == SPECIAL_BEGIN;
        if !is_text(word)
            || word[usize::from(special)..].contains(&SPECIAL_BEGIN)
            || word[..word.len() - usize::from(special)].contains(&SPECIAL_END)
        {
            return Err(wrong("a trigger that is neither text nor one special token"));
        }
        if special { specials.add(&word[1..], i)? } else { texts.add(word, i)? }
    }
    texts.link();
    // Behind the byte that begins a special token: only the texts of special tokens that are triggers.
    let tokens = specials.to.iter().map(|_| nfa.state()).collect::<Result<Vec<_>>>()?;
    for (node, to) in specials.to.iter().enumerate() {
        for (b, &to) in to.iter().enumerate().filter(|t| *t.1 != 0) {
            let target = specials.word[to as usize].map_or(tokens[to as usize], |word| exits[word]);
            nfa.edge(tokens[node], b as u8, b as u8, Effect::None, target);
        }
    }
    // A state for a node of the tree and a place in a character: within a trigger, the trigger says which.
    let mut ids: Map<(u32, u8), StateId> = Map::default();
    let start = nfa.state()?;
    ids.insert((0, 0), start);
    let mut queue = vec![(0u32, 0u8, start)];
    let mut ends = Vec::new();
    let mut next = 0;
    while next < queue.len() {
        let (node, place, from) = queue[next];
        next += 1;
        if place == 0 {
            ends.push(from);
            if specials.to.len() > 1 {
                nfa.edge(from, SPECIAL_BEGIN, SPECIAL_BEGIN, Effect::None, tokens[0]);
            }
        }
        let mut last: Option<(u8, u8, StateId)> = None;
        for b in 0..=u8::MAX {
            let Some(then) = utf8_step(place, b) else { continue };
            let to = texts.to[node as usize][usize::from(b)];
            let target = match texts.word[to as usize] {
                Some(word) => exits[word],
                None => match ids.get(&(to, then)) {
                    Some(&known) => known,
                    None => {
                        let state = nfa.state()?;
                        ids.insert((to, then), state);
                        queue.push((to, then, state));
                        state
                    }
                },
            };
            match &mut last {
                Some(l) if l.1 + 1 == b && l.2 == target => l.1 = b,
                _ => {
                    if let Some((lo, hi, target)) = last.replace((b, b, target)) {
                        nfa.edge(from, lo, hi, Effect::None, target);
                    }
                }
            }
        }
        if let Some((lo, hi, target)) = last {
            nfa.edge(from, lo, hi, Effect::None, target);
        }
    }
    Ok(Free { start, ends })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf8_is_what_the_standard_library_takes() {
        for c in (0..=0x10_ffffu32).step_by(3).filter_map(char::from_u32) {
            let mut buffer = [0; 4];
            assert_eq!(c.encode_utf8(&mut buffer).bytes().try_fold(0, utf8_step), Some(0), "{c:?}");
        }
        for bytes in (0..=0xff_ffffu32).step_by(5).map(u32::to_be_bytes) {
            let bytes = &bytes[1..];
            assert_eq!(
                bytes.iter().copied().try_fold(0, utf8_step) == Some(0),
                std::str::from_utf8(bytes).is_ok(),
                "{bytes:x?}"
            );
        }
    }
}
