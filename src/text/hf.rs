//! The tokenizer of a Hugging Face folder.
//!
//! tokenizer.json decides which special tokens surround a text. `add_bos_token` in tokenizer_config.json is what
//! transformers wrote it from and, as in transformers 5, is not applied a second time.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use tokenizers::Tokenizer;

use super::hf_outline::{self, Added};
use super::pieces::{MAX_ID, filler};
use super::tokenizer::{Parts, SpecialTokens};
use crate::error::{Error, Result};
use crate::format::{HfMetadata, TokenizerFiles};

const FILE: &str = "tokenizer.json";

/// Names in tokenizer_config.json of special tokens that a chat template may refer to.
pub(super) const SPECIAL: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The tokenizer that a tokenizer.json describes.
pub(super) fn tokenizer(json: &[u8]) -> Result<Tokenizer> {
    let outline = hf_outline::read(json).map_err(|e| e.at(FILE))?;
    let read = |json: &[u8]| Tokenizer::from_bytes(json).map_err(|e| Error::tokenizer(format!("{FILE}: {e}")));
    // The crate numbers added tokens itself and only logs where that differs from the file, say after a gap.
    let strays = |inner: &Tokenizer| {
        let is = |token: &&Added| inner.token_to_id(&token.content) != Some(token.id);
        outline.added.iter().find(is).map(|token| (token.id, token.content.clone(), inner.token_to_id(&token.content)))
    };
    let mut inner: Tokenizer = read(json)?;
    if strays(&inner).is_some() {
        inner = read(&with_added(json, &outline.added)?)?;
    }
    if let Some((id, content, other)) = strays(&inner) {
        return Err(Error::tokenizer(format!("{FILE}: added token '{content}' has id {id}, but loads as {other:?}")));
    }
    // Truncation and padding of the saved file; transformers resets them on every call too.
    inner.with_truncation(None).map_err(|e| Error::tokenizer(format!("{FILE}: truncation: {e}")))?;
    inner.with_padding(None);
    Ok(inner)
}

/// The file with added tokens among the model's own, which keep their ids. A list is filled up where ids have gaps, with
/// pieces as unlikely as its least likely one, which leaves the score of what is unknown as it is.
fn with_added(json: &[u8], added: &[Added]) -> Result<Vec<u8>> {
    let failed = |e: serde_json::Error| Error::tokenizer(format!("{FILE}: {e}"));
    let mut file: Value = serde_json::from_slice(json).map_err(failed)?;
    match &mut file["model"]["vocab"] {
        Value::Object(vocab) => {
            let mut taken: HashSet<u64> = vocab.values().filter_map(Value::as_u64).collect();
            for token in added {
                if !vocab.contains_key(&token.content) {
                    if !taken.insert(token.id.into()) {
                        let Added { id, content } = token;
                        let what = format!("{FILE}: added token '{content}' has id {id}, which another token has");
                        return Err(Error::tokenizer(what));
                    }
                    vocab.insert(token.content.clone(), token.id.into());
                }
            }
        }
        Value::Array(list) => {
            let mut added: Vec<&Added> = added.iter().filter(|token| token.id as usize >= list.len()).collect();
            added.sort_by_key(|token| token.id);
            let least = list.iter().filter_map(|piece| piece[1].as_f64()).fold(0.0, f64::min);
            for token in added.into_iter().filter(|token| token.id <= MAX_ID) {
                for id in list.len() as u32..=token.id {
                    list.push(json!([if id == token.id { token.content.clone() } else { filler(id) }, least]));
                }
            }
        }
        _ => (),
    }
    serde_json::to_vec(&file).map_err(failed)
}

pub(super) fn parts(metadata: &HfMetadata, files: &TokenizerFiles) -> Result<Parts> {
    let inner = tokenizer(&files.json)?;
    let special = special_tokens(metadata.tokenizer_config.as_ref());
    let id_of = |name: &str| special.get(name).and_then(|text| inner.token_to_id(text));
    let bos = id_of("bos_token").or_else(|| first_id(&metadata.config, "bos_token_id"));
    let mut eos = Vec::new();
    for (file, object) in
        [("generation_config.json", metadata.generation_config.as_ref()), ("config.json", Some(&metadata.config))]
    {
        if let Some(value) = object.and_then(|o| o.get("eos_token_id")) {
            eos.extend(ids(file, "eos_token_id", value)?);
        }
    }
    eos.extend(id_of("eos_token"));
    let suppressed = metadata.generation_config.as_ref().and_then(|o| o.get("suppress_tokens"));
    let suppressed =
        suppressed.map_or(Ok(Vec::new()), |value| ids("generation_config.json", "suppress_tokens", value))?;
    let known = |id: &u32| inner.id_to_token(*id).is_some();
    let stray = |id: &u32| format!("eos_token_id names token {id}, which tokenizer.json does not have: it is not used");
    let warnings = eos.iter().filter(|id| !known(id)).map(stray).collect();
    eos.retain(known);
    let bos = bos.filter(known);
    Ok(Parts { inner, prefix: Vec::new(), suffix: Vec::new(), bos, eos, suppressed, special, warnings })
}

/// A token id, a list of them, or null; -1 is none.
fn ids(file: &str, key: &str, value: &Value) -> Result<Vec<u32>> {
    let one = |v: &Value| {
        v.as_u64()
            .and_then(|n| u32::try_from(n).ok())
            .ok_or_else(|| Error::bad_model(format!("{file}: '{key}' should be a token id or a list of them, not {v}")))
    };
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => list.iter().filter(|id| !is_none(id)).map(one).collect(),
        id if is_none(id) => Ok(Vec::new()),
        other => Ok(vec![one(other)?]),
    }
}

fn is_none(id: &Value) -> bool {
    id.is_null() || id.as_i64() == Some(-1)
}

fn first_id(object: &Map<String, Value>, key: &str) -> Option<u32> {
    object.get(key)?.as_u64().and_then(|n| u32::try_from(n).ok())
}

/// The special tokens of tokenizer_config.json, each a string or an object with `content`.
pub(super) fn special_tokens(config: Option<&Map<String, Value>>) -> SpecialTokens {
    let mut tokens = SpecialTokens::new();
    for name in SPECIAL {
        let value = config.and_then(|c| c.get(name));
        let text = value.and_then(|v| v.as_str().or_else(|| v.get("content").and_then(Value::as_str)));
        if let Some(text) = text {
            tokens.insert(name.to_owned(), text.to_owned());
        }
    }
    tokens
}
