//! Text as tokens arrive.

use std::rc::Rc;

use super::pieces::Pieces;
use crate::error::{Error, Result};

/// Turns tokens into text one at a time, with constant work a token: at most three bytes of a character wait for the
/// rest.
///
/// The pieces add up to what decoding all tokens at once gives. One exception, for text that is broken anyway: with
/// byte-fallback vocabularies, a run of byte tokens that is UTF-8 up to some point and then is not keeps its good part
/// here, where decoding it at once replaces every byte of the run.
pub struct StreamDecoder {
    pieces: Rc<Pieces>,
    skip_special: bool,
    /// The first bytes of an incomplete character.
    pending: Vec<u8>,
    /// How many more leading characters may be stripped.
    strip: usize,
    /// Whether a token has contributed already.
    started: bool,
}

impl StreamDecoder {
    pub(super) fn new(pieces: Rc<Pieces>, skip_special: bool) -> Self {
        let strip = pieces.rules().strip.map_or(0, |(_, count)| count);
        Self { pieces, skip_special, pending: Vec::new(), strip, started: false }
    }

    /// The text that `id` completes; empty while a character is incomplete. `TOKENIZER` names an id that is not in the
    /// vocabulary.
    pub fn push(&mut self, id: u32) -> Result<String> {
        let piece = self.pieces.get(id).ok_or_else(|| {
            Error::tokenizer(format!(
                "token {id} is not in the vocabulary, whose ids end at {}",
                self.pieces.len().saturating_sub(1)
            ))
        })?;
        if self.skip_special && self.pieces.is_special(id) {
            return Ok(String::new());
        }
        let rules = self.pieces.rules();
        let first = !std::mem::replace(&mut self.started, true);
        if let (true, Some(words)) = (first, &rules.word_pieces) {
            if self.pieces.continues(id) {
                self.pending.extend_from_slice(words.prefix.as_bytes());
            }
            self.pending.extend_from_slice(piece.strip_prefix(b" ").unwrap_or(piece));
        } else if first && rules.first_without_spaces {
            self.pending.extend(piece.iter().filter(|&&b| b != b' '));
        } else {
            if rules.join_with_space && !first {
                self.pending.push(b' ');
            }
            self.pending.extend_from_slice(piece);
        }
        let mut text = String::with_capacity(self.pending.len());
        let rest = decode(&self.pending, rules.replaces_each_byte(), &mut text);
        self.pending.drain(..rest);
        Ok(self.stripped(text))
    }

    /// The rest at the end: a character that was never completed becomes U+FFFD. The decoder can then be reused.
    pub fn finish(&mut self) -> Result<String> {
        let count = match (self.pending.len(), self.pieces.rules().replaces_each_byte()) {
            (0, _) => 0,
            (n, true) => n,
            (_, false) => 1,
        };
        let text = self.stripped(char::REPLACEMENT_CHARACTER.to_string().repeat(count));
        *self = Self::new(self.pieces.clone(), self.skip_special);
        Ok(text)
    }

    /// Removes what the tokenizer strips from the beginning of a text.
    fn stripped(&mut self, mut text: String) -> String {
        let Some((content, _)) = self.pieces.rules().strip else { return text };
        while self.strip > 0 && !text.is_empty() {
            match text.strip_prefix(content) {
                Some(rest) => {
                    text = rest.to_owned();
                    self.strip -= 1;
                }
                None => self.strip = 0,
            }
        }
        text
    }
}

/// Appends what of `bytes` is complete and returns how many bytes that was; what is left may still become a character.
fn decode(bytes: &[u8], each_byte: bool, out: &mut String) -> usize {
    let mut done = 0;
    loop {
        match std::str::from_utf8(&bytes[done..]) {
            Ok(text) => {
                out.push_str(text);
                return bytes.len();
            }
            Err(error) => {
                let good = done + error.valid_up_to();
                out.push_str(&String::from_utf8_lossy(&bytes[done..good]));
                let Some(bad) = error.error_len() else { return good };
                for _ in 0..if each_byte { bad } else { 1 } {
                    out.push(char::REPLACEMENT_CHARACTER);
                }
                done = good + bad;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_only_what_may_still_become_a_character() {
        let run = |bytes: &[u8], each| {
            let mut out = String::new();
            let used = decode(bytes, each, &mut out);
            (used, out)
        };
        assert_eq!(run("aé".as_bytes(), false), (3, "aé".into()));
        assert_eq!(run(&[b'a', 0xE5, 0x8F], false), (1, "a".into()));
        assert_eq!(run(&[0xE5, 0x8F, b'a'], false), (3, "\u{FFFD}a".into()));
        assert_eq!(run(&[0xE5, 0x8F, b'a'], true), (3, "\u{FFFD}\u{FFFD}a".into()));
        assert_eq!(run(&[0x80, 0xF0, 0x9F], false), (1, "\u{FFFD}".into()));
        assert_eq!(run(&[0xF0, 0x9F, 0x98, 0x80], true), (4, "😀".into()));
    }
}
