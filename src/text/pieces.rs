//! The bytes that each token stands for, worked out once, so that a stream appends instead of decoding again.

use serde::Deserialize;
use tokenizers::Tokenizer;
use tokenizers::decoders::wordpiece;

use crate::error::{Error, Result};

/// Larger ids do not occur; a file that has one would make the table as large as it pleases.
pub(super) const MAX_ID: u32 = 1 << 22;

/// The text of an id that no token has, where a model's vocabulary is a list without gaps: no text has it in it.
pub(super) fn filler(id: u32) -> String {
    format!("\u{FFFF}{id}")
}

/// What each token contributes to the text, and how the beginning is treated.
pub(super) struct Pieces {
    bytes: Vec<u8>,
    /// Where each token's bytes end.
    ends: Vec<u32>,
    kinds: Vec<Kind>,
    rules: Rules,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// No token has this id.
    Absent,
    Text,
    Special,
    /// A piece that continues a word, marked by a prefix that only the first token of a text keeps.
    Continuing,
}

/// How pieces become text.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Rules {
    encoding: Encoding,
    /// Replacements within a token, before anything else.
    replace: Vec<(String, String)>,
    /// Tokens spelled `<0x0A>` are bytes.
    byte_fallback: bool,
    /// The character that is removed from the beginning of the text, and how many times at most.
    pub strip: Option<(char, usize)>,
    /// The first token loses all its spaces.
    pub first_without_spaces: bool,
    /// A space stands between tokens.
    pub join_with_space: bool,
    /// Words have a space before them but for the first; pieces that continue a word have a prefix instead.
    pub word_pieces: Option<WordPieces>,
}

/// How WordPiece's tokens become text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WordPieces {
    pub prefix: String,
    /// Spaces before punctuation are removed.
    cleanup: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
enum Encoding {
    /// Tokens are text.
    #[default]
    Text,
    /// Tokens are bytes, each written as a printable character of its own.
    ByteLevel,
}

impl Pieces {
    /// `UNSUPPORTED_MODEL` for decoders whose text is not made of pieces, `TOKENIZER` for ids that cannot be.
    pub fn new(tokenizer: &Tokenizer) -> Result<Self> {
        let rules = Rules::of(tokenizer)?;
        let vocab = tokenizer.get_vocab(true);
        let Some(&last) = vocab.values().max() else { return Err(Error::tokenizer("the vocabulary is empty")) };
        if last > MAX_ID {
            return Err(Error::tokenizer(format!(
                "the vocabulary holds token id {last}; ids up to {MAX_ID} are allowed"
            )));
        }
        drop(vocab);
        let added = tokenizer.get_added_tokens_decoder();
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(last as usize + 1);
        let mut kinds = Vec::with_capacity(last as usize + 1);
        for id in 0..=last {
            kinds.push(match tokenizer.id_to_token(id).filter(|token| *token != filler(id)) {
                Some(token) => {
                    rules.append(&token, &mut bytes);
                    match &rules.word_pieces {
                        _ if added.get(&id).is_some_and(|t| t.special) => Kind::Special,
                        Some(words) if token.starts_with(&words.prefix) => Kind::Continuing,
                        _ => Kind::Text,
                    }
                }
                None => Kind::Absent,
            });
            ends.push(
                u32::try_from(bytes.len())
                    .map_err(|_| Error::tokenizer("the vocabulary holds more than 4 GiB of text"))?,
            );
        }
        Ok(Self { bytes, ends, kinds, rules })
    }

    /// The ids below the largest that no token has.
    pub fn gaps(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.kinds).filter(|(_, kind)| **kind == Kind::Absent).map(|(id, _)| id)
    }

    /// One more than the largest id.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn contains(&self, id: u32) -> bool {
        self.kinds.get(id as usize).is_some_and(|&k| k != Kind::Absent)
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.kinds.get(id as usize) == Some(&Kind::Special)
    }

    /// The bytes of a token; none if there is no such token.
    pub fn get(&self, id: u32) -> Option<&[u8]> {
        let index = id as usize;
        if !self.contains(id) {
            return None;
        }
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        self.bytes.get(start..self.ends[index] as usize)
    }

    pub fn continues(&self, id: u32) -> bool {
        self.kinds.get(id as usize) == Some(&Kind::Continuing)
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }
}

/// The decoders of tokenizer.json, as far as a stream can follow them.
#[derive(Deserialize)]
#[serde(tag = "type")]
enum Decoder {
    Sequence { decoders: Vec<serde_json::Value> },
    ByteLevel,
    ByteFallback,
    Fuse,
    Replace { pattern: Pattern, content: String },
    Strip { content: char, start: usize, stop: usize },
    Metaspace { replacement: char, prepend_scheme: String },
    WordPiece { prefix: String, cleanup: bool },
}

#[derive(Deserialize)]
enum Pattern {
    String(String),
    #[allow(dead_code)] // read only to be refused
    Regex(String),
}

impl Rules {
    fn of(tokenizer: &Tokenizer) -> Result<Self> {
        match tokenizer.get_decoder() {
            None => Ok(Self { join_with_space: true, ..Self::default() }),
            Some(decoder) => {
                let value = serde_json::to_value(decoder).map_err(|e| Error::tokenizer(format!("the decoder: {e}")))?;
                let mut rules = Self::default();
                let mut fused = false;
                rules.add(&value, &mut fused)?;
                Ok(rules)
            }
        }
    }

    /// Adds a decoder that comes after those already added. `fused`: the tokens have become one text.
    fn add(&mut self, value: &serde_json::Value, fused: &mut bool) -> Result<()> {
        let unsupported = || {
            Error::unsupported(format!(
                "the tokenizer's decoder {value} cannot be streamed; ByteLevel, Metaspace, WordPiece, and sequences of Replace, ByteFallback, Fuse and Strip can"
            ))
        };
        match Decoder::deserialize(value).map_err(|_| unsupported())? {
            Decoder::Sequence { decoders } => decoders.iter().try_for_each(|d| self.add(d, fused))?,
            Decoder::ByteLevel if *self == Self::default() => {
                self.encoding = Encoding::ByteLevel;
                *fused = true;
            }
            Decoder::ByteFallback if !*fused => self.byte_fallback = true,
            Decoder::Fuse => *fused = true,
            // After ByteFallback a pattern could match what bytes make, across tokens.
            Decoder::Replace { pattern: Pattern::String(pattern), content }
                if !*fused && !self.byte_fallback && !pattern.is_empty() =>
            {
                self.replace.push((pattern, content));
            }
            Decoder::Strip { content, start, stop: 0 } if *fused && self.strip.is_none() => {
                self.strip = Some((content, start))
            }
            Decoder::Metaspace { replacement, prepend_scheme } if *self == Self::default() => {
                self.replace.push((replacement.to_string(), " ".into()));
                self.first_without_spaces = prepend_scheme != "never";
            }
            Decoder::WordPiece { prefix, cleanup } if *self == Self::default() && !prefix.is_empty() => {
                self.word_pieces = Some(WordPieces { prefix, cleanup });
            }
            _ => return Err(unsupported()),
        }
        Ok(())
    }

    /// Whether each byte of a malformed sequence becomes a replacement character, rather than the sequence as a whole.
    pub fn replaces_each_byte(&self) -> bool {
        self.byte_fallback
    }

    fn append(&self, token: &str, out: &mut Vec<u8>) {
        if self.encoding == Encoding::ByteLevel {
            let start = out.len();
            for c in token.chars() {
                match byte_of(c) {
                    Some(byte) => out.push(byte),
                    // An added token that is not written in the byte alphabet stands for itself.
                    None => {
                        out.truncate(start);
                        out.extend_from_slice(token.as_bytes());
                        return;
                    }
                }
            }
            return;
        }
        if let Some(WordPieces { prefix, cleanup }) = &self.word_pieces {
            let text = token.strip_prefix(prefix.as_str()).map_or_else(|| format!(" {token}"), str::to_owned);
            out.extend_from_slice(if *cleanup { wordpiece::cleanup(&text) } else { text }.as_bytes());
            return;
        }
        let mut text = token.to_owned();
        for (from, to) in &self.replace {
            text = text.replace(from.as_str(), to);
        }
        match byte_token(&text).filter(|_| self.byte_fallback) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(text.as_bytes()),
        }
    }
}

/// `0x0A` for `<0x0A>`.
fn byte_token(token: &str) -> Option<u8> {
    let hex = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (hex.len() == 2 && hex.bytes().all(|b| b.is_ascii_hexdigit())).then(|| u8::from_str_radix(hex, 16).ok()).flatten()
}

/// The byte that a character of GPT-2's byte alphabet stands for. Printable bytes of Latin-1 stand for themselves; the
/// others, in order, are U+0100 onwards: 0..=32 are 256..=288, 127..=160 are 289..=322, 173 is 323.
fn byte_of(c: char) -> Option<u8> {
    match c as u32 {
        b @ (33..=126 | 161..=172 | 174..=255) => u8::try_from(b).ok(),
        b @ 256..=288 => u8::try_from(b - 256).ok(),
        b @ 289..=322 => u8::try_from(b - 289 + 127).ok(),
        323 => Some(173),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_alphabet_is_the_crates() {
        use tokenizers::Decoder as _;
        let alphabet = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
        assert_eq!(alphabet.len(), 256);
        let mut seen = [false; 256];
        for c in alphabet {
            let byte = byte_of(c).expect("every character of the alphabet is a byte");
            assert!(!std::mem::replace(&mut seen[byte as usize], true));
            let text = tokenizers::decoders::byte_level::ByteLevel::default()
                .decode_chain(vec![c.to_string()])
                .unwrap()
                .concat();
            assert_eq!(text, String::from_utf8_lossy(&[byte]));
        }
        assert_eq!(byte_of(' '), None);
        assert_eq!(byte_of('\u{144}'), None);
    }

    #[test]
    fn byte_tokens_are_two_hex_digits() {
        assert_eq!(byte_token("<0x0A>"), Some(10));
        assert_eq!(byte_token("<0xfF>"), Some(255));
        for no in ["<0x0A", "<0xA>", "<0x+A>", "0x0A", "<0x00A>", "<0xé>"] {
            assert_eq!(byte_token(no), None, "{no}");
        }
    }
}
