//! What has to be checked in tokenizer.json before the `tokenizers` crate reads it, in one pass that keeps no
//! vocabulary.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::charsmap;
use crate::error::{Error, Result};

/// A token of `added_tokens`.
#[derive(Deserialize)]
pub(super) struct Added {
    pub id: u32,
    pub content: String,
}

/// The parts that are checked.
#[derive(Deserialize)]
pub(super) struct Outline {
    #[serde(rename = "added_tokens", default)]
    pub added: Vec<Added>,
    model: Model,
    normalizer: Option<Value>,
    /// These two are only read to see that they can be: the crate panics on a decoder that is no JSON.
    #[allow(dead_code)]
    decoder: Option<Value>,
    #[allow(dead_code)]
    post_processor: Option<Value>,
}

#[derive(Deserialize)]
struct Model {
    #[serde(default)]
    vocab: Vocab,
    #[serde(default)]
    merges: Merges,
    continuing_subword_prefix: Option<String>,
}

/// The longest key of a BPE vocabulary, in bytes; 0 for the lists that other models have.
#[derive(Default)]
struct Vocab {
    longest: usize,
}

/// The longest merged token in bytes, and the shortest right side, which must hold the prefix of continuing subwords.
#[derive(Default)]
struct Merges {
    longest: usize,
    shortest_right: Option<usize>,
}

/// Reads the outline. The crate's BPE copies each merge into a buffer of the longest token's size, unchecked; a merge
/// that makes a longer one would panic.
pub(super) fn read(json: &[u8]) -> Result<Outline> {
    let outline: Outline = serde_json::from_slice(json).map_err(|e| Error::tokenizer(e.to_string()))?;
    if let Some(normalizer) = &outline.normalizer {
        check_tables(normalizer)?;
    }
    let Model { vocab, merges, continuing_subword_prefix } = &outline.model;
    let prefix = continuing_subword_prefix.as_deref().map_or(0, str::len);
    if merges.shortest_right.is_some_and(|right| right < prefix) {
        return Err(Error::tokenizer("model.merges holds a right side shorter than continuing_subword_prefix"));
    }
    if merges.longest.saturating_sub(prefix) > vocab.longest {
        return Err(Error::tokenizer("model.merges makes a token that is longer than any in model.vocab"));
    }
    Ok(outline)
}

/// Checks SentencePiece's tables of normalization in the description of a normalizer, at any depth.
fn check_tables(component: &Value) -> Result<()> {
    match component {
        Value::Object(map) => {
            if let Some(text) = map.get("precompiled_charsmap").and_then(Value::as_str) {
                charsmap::check(
                    &base64::decode(text).map_err(|e| Error::tokenizer(format!("precompiled_charsmap: {e}")))?,
                )?;
            }
            map.values().try_for_each(check_tables)
        }
        Value::Array(list) => list.iter().try_for_each(check_tables),
        _ => Ok(()),
    }
}

/// Reads a string and keeps only its length in bytes.
struct Length;

impl<'de> DeserializeSeed<'de> for Length {
    type Value = usize;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Length {
    type Value = usize;
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a string")
    }
    fn visit_str<E>(self, s: &str) -> Result<usize, E> {
        Ok(s.len())
    }
}

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct VocabVisitor;
        impl<'de> Visitor<'de> for VocabVisitor {
            type Value = Vocab;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a vocabulary")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocab, A::Error> {
                let mut longest = 0;
                while let Some(length) = map.next_key_seed(Length)? {
                    map.next_value::<IgnoredAny>()?;
                    longest = longest.max(length);
                }
                Ok(Vocab { longest })
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vocab, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Vocab::default())
            }
        }
        deserializer.deserialize_any(VocabVisitor)
    }
}

impl<'de> Deserialize<'de> for Merges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MergesVisitor;
        impl<'de> Visitor<'de> for MergesVisitor {
            type Value = Merges;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a list of merges")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Merges, A::Error> {
                let mut merges = Merges::default();
                while let Some(Merge { left, right }) = seq.next_element()? {
                    if left + right == 0 {
                        continue;
                    }
                    merges.longest = merges.longest.max(left + right);
                    merges.shortest_right = Some(merges.shortest_right.map_or(right, |r| r.min(right)));
                }
                Ok(merges)
            }
        }
        deserializer.deserialize_seq(MergesVisitor)
    }
}

/// The lengths of the two sides of a merge, written as `"a b"` or as `["a", "b"]`.
struct Merge {
    left: usize,
    right: usize,
}

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MergeVisitor;
        impl<'de> Visitor<'de> for MergeVisitor {
            type Value = Merge;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a merge, \"a b\" or [\"a\", \"b\"]")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Merge, E> {
                // The crate skips a version line that old files begin their merges with.
                if text.starts_with("#version") {
                    return Ok(Merge { left: 0, right: 0 });
                }
                let (left, right) =
                    text.split_once(' ').ok_or_else(|| E::custom(format!("merge '{text}' has no space")))?;
                Ok(Merge { left: left.len(), right: right.len() })
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Merge, A::Error> {
                let mut side =
                    || seq.next_element_seed(Length)?.ok_or_else(|| A::Error::custom("a merge needs two sides"));
                let merge = Merge { left: side()?, right: side()? };
                match seq.next_element::<IgnoredAny>()? {
                    Some(_) => Err(A::Error::custom("a merge has more than two sides")),
                    None => Ok(merge),
                }
            }
        }
        deserializer.deserialize_any(MergeVisitor)
    }
}
