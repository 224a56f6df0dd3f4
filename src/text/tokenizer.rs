//! The tokenizer of a checkpoint.

use std::rc::Rc;

use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};

use super::pieces::Pieces;
use super::{StreamDecoder, eos, gguf, hf};

/// The texts of the tokens that chat templates refer to, e.g. `bos_token` → `<s>`.
pub type SpecialTokens = indexmap::IndexMap<String, String>;

/// Encodes text as token ids and decodes them, as the model was trained to read them.
///
/// Text that looks like a special token (`<|im_end|>`) becomes that token, as in transformers and llama.cpp:
/// quote or strip what users type if that must not happen.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// Ids put before and after a text that is encoded with special tokens; where tokenizer.json has a
    /// post-processor, that adds them and these are empty.
    prefix: Vec<u32>,
    suffix: Vec<u32>,
    bos: Option<u32>,
    eos: Vec<u32>,
    special: SpecialTokens,
    pieces: Rc<Pieces>,
}

/// What a source knows, before the parts common to all are derived from it.
pub(super) struct Parts {
    pub inner: tokenizers::Tokenizer,
    pub prefix: Vec<u32>,
    pub suffix: Vec<u32>,
    pub bos: Option<u32>,
    /// Ids that the checkpoint itself says end a text.
    pub eos: Vec<u32>,
    pub special: SpecialTokens,
    /// The chat template's text, if there is one: it tells which tokens end a turn.
    pub template: Option<String>,
}

impl Tokenizer {
    /// Builds the tokenizer of `checkpoint`.
    ///
    /// `TOKENIZER` where it does not fit together (naming the file or key), `UNSUPPORTED_MODEL` where it is of a kind
    /// that is not known here, `BAD_MODEL` where GGUF metadata is missing or of the wrong type.
    pub fn open(checkpoint: &Checkpoint) -> Result<Self> {
        let parts = match (&checkpoint.metadata, &checkpoint.tokenizer_files) {
            (Metadata::Gguf(metadata), files) => gguf::parts(metadata, files.as_ref().map(|files| &files.json[..]))?,
            (Metadata::Hf(metadata), Some(files)) => hf::parts(metadata, files)?,
            (Metadata::Hf(_), None) => return Err(Error::not_found("tokenizer.json is missing")),
        };
        Self::assemble(parts)
    }

    fn assemble(parts: Parts) -> Result<Self> {
        let Parts { inner, prefix, suffix, bos, eos, special, template } = parts;
        let pieces = Rc::new(Pieces::new(&inner)?);
        let eos = eos::with_turn_ends(eos, &inner, template.as_deref());
        Ok(Self { inner, prefix, suffix, bos, eos, special, pieces })
    }

    /// Token ids of `text`; with `add_special`, also what the model wants around a text (usually the beginning-of-text
    /// token). Pass false for a rendered chat template, which holds its own.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>> {
        let encoding = self.inner.encode_fast(text, add_special).map_err(|e| Error::tokenizer(format!("the text cannot be encoded: {e}")))?;
        let ids = encoding.get_ids();
        if !add_special {
            return Ok(ids.to_vec());
        }
        Ok([&self.prefix, ids, &self.suffix].concat())
    }

    /// The text of `ids`; with `skip_special`, without special tokens. Bytes that are not UTF-8 become U+FFFD.
    /// `TOKENIZER` names an id that is not in the vocabulary.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        ids.iter().try_for_each(|&id| self.check_id(id))?;
        self.inner.decode(ids, skip_special).map_err(|e| Error::tokenizer(format!("the tokens cannot be decoded: {e}")))
    }

    /// The text of one token as the vocabulary spells it, e.g. `▁the`.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// What a token adds to a text, in bytes: of a special token its name; nothing where there is no such token.
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.pieces.get(id).unwrap_or_default()
    }

    /// The id of a token as the vocabulary spells it.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// One more than the largest id. The model's V may be larger: heads are padded.
    pub fn vocab_size(&self) -> usize {
        self.pieces.len()
    }

    /// The tokens at which generation ends, each once. Empty if the checkpoint names none.
    pub fn eos_ids(&self) -> &[u32] {
        &self.eos
    }

    /// The beginning-of-text token, if the model has one.
    pub fn bos_id(&self) -> Option<u32> {
        self.bos
    }

    /// What chat templates call `bos_token`, `eos_token` and the like.
    pub fn special_tokens(&self) -> &SpecialTokens {
        &self.special
    }

    /// The name of a special token; `None` for one that is part of the text.
    pub fn special_name(&self, id: u32) -> Option<&str> {
        if !self.pieces.is_special(id) {
            return None;
        }
        std::str::from_utf8(self.pieces.get(id)?).ok()
    }

    /// The names of all special tokens.
    pub fn special_names(&self) -> impl Iterator<Item = &str> + Clone {
        (0..self.pieces.len() as u32).filter_map(|id| self.special_name(id))
    }

    /// Decodes tokens as they arrive, without special tokens.
    pub fn stream(&self) -> StreamDecoder {
        StreamDecoder::new(self.pieces.clone(), true)
    }

    /// As [`Tokenizer::stream`], but special tokens appear as text too.
    pub fn stream_with_special(&self) -> StreamDecoder {
        StreamDecoder::new(self.pieces.clone(), false)
    }

    pub(crate) fn check_id(&self, id: u32) -> Result<()> {
        if self.pieces.contains(id) {
            return Ok(());
        }
        Err(Error::tokenizer(format!("token {id} is not in the vocabulary, whose ids end at {}", self.pieces.len().saturating_sub(1))))
    }
}
