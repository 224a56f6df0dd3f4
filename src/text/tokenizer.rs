//! The tokenizer of a checkpoint.

use std::rc::Rc;

use tokenizers::{Model as _, NormalizedString, Normalizer as _, OffsetType, PreTokenizer as _, Token};

use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};

use super::guard::{Guard, Guarded, Normalize};
use super::pieces::Pieces;
use super::template_source::TemplateSource;
use super::words::Words;
use super::{StreamDecoder, eos, gguf, hf};

/// The texts of the tokens that chat templates refer to, e.g. `bos_token` → `<s>`.
pub type SpecialTokens = indexmap::IndexMap<String, String>;

/// Encodes text as token ids and decodes them, as the model was trained to read them.
///
/// Text that looks like a special token (`<|im_end|>`) becomes that token, as in transformers and llama.cpp, but for
/// what messages hold ([`Tokenizer::encode_guarded`]).
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// Ids put before and after a text that is encoded with special tokens; where tokenizer.json has a
    /// post-processor, that adds them and these are empty.
    prefix: Vec<u32>,
    suffix: Vec<u32>,
    bos: Option<u32>,
    eos: Vec<u32>,
    suppressed: Vec<u32>,
    special: SpecialTokens,
    pieces: Rc<Pieces>,
    /// Tokens of words, where texts are cut at white space.
    words: Option<Words>,
    /// Ids that the model has rows for, where there are fewer than tokens.
    rows: Option<usize>,
    warnings: Vec<String>,
}

/// A text that every vocabulary has.
const SAMPLE: &str = "a";

/// What stands around two texts that are read together.
#[derive(Debug, Clone, Default)]
pub struct Pair {
    /// Before the first.
    pub before: Vec<u32>,
    /// Between them.
    pub between: Vec<u32>,
    /// Behind the second.
    pub behind: Vec<u32>,
    /// Whether tokens of the second are of another kind.
    pub typed: bool,
}

/// What a source knows, before the parts common to all are derived from it.
pub(super) struct Parts {
    pub inner: tokenizers::Tokenizer,
    pub prefix: Vec<u32>,
    pub suffix: Vec<u32>,
    pub bos: Option<u32>,
    /// Ids that the checkpoint itself says end a text.
    pub eos: Vec<u32>,
    /// Ids that the checkpoint says are never to be written.
    pub suppressed: Vec<u32>,
    pub special: SpecialTokens,
    /// What of the checkpoint's own words is not followed.
    pub warnings: Vec<String>,
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
        // It tells which tokens end a turn.
        let template = TemplateSource::of(checkpoint)?;
        Self::assemble(parts, template.as_ref().map(TemplateSource::text))
    }

    fn assemble(parts: Parts, template: Option<&str>) -> Result<Self> {
        let Parts { inner, prefix, suffix, bos, eos, mut suppressed, special, warnings } = parts;
        let pieces = Rc::new(Pieces::new(&inner)?);
        // A head has rows for all ids.
        suppressed.extend(pieces.gaps());
        let eos = eos::with_turn_ends(eos, &inner, template);
        let words = Words::of(&inner);
        Ok(Self { inner, prefix, suffix, bos, eos, suppressed, special, pieces, words, rows: None, warnings })
    }

    /// The tokens that were added behind the rows of a model's embeddings. `BAD_MODEL` where the vocabulary itself is
    /// larger than these.
    pub fn behind(&self, rows: usize) -> Result<Vec<u32>> {
        let tokens = self.pieces.len();
        let behind: Vec<u32> = (rows as u32..tokens as u32).filter(|id| self.pieces.contains(*id)).collect();
        if !behind.is_empty() {
            let added = self.inner.get_added_tokens_decoder();
            if behind.iter().any(|id| !added.contains_key(id)) {
                return Err(Error::bad_model(format!(
                    "the tokenizer has {tokens} tokens, the model's vocabulary only {rows}"
                )));
            }
        }
        Ok(behind)
    }

    /// Fits the tokens to the rows of a model's embeddings. Tokens that were added behind them cannot be read or written:
    /// a warning. Errors are those of [`Tokenizer::behind`].
    pub fn fit(&mut self, rows: usize) -> Result<()> {
        let behind = self.behind(rows)?;
        if behind.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = behind.iter().filter_map(|id| self.token(*id)).take(3).collect();
        let more = if behind.len() > names.len() { ", …" } else { "" };
        self.warnings.push(format!(
            "the model's embeddings have {rows} rows, but its tokenizer has {} added tokens behind them: {}{more}; prompts \
             cannot have them, and answers do not",
            behind.len(),
            names.join(", ")
        ));
        self.rows = Some(rows);
        self.eos.retain(|id| (*id as usize) < rows);
        Ok(())
    }

    /// An error where another vocabulary, of a draft model, has other tokens by the same ids. Control tokens may have other
    /// names, and up to a hundredth of the ids may be of one vocabulary alone.
    pub fn must_share(&self, draft: &Self) -> Result<()> {
        let (all, drafts) = (self.pieces.len(), draft.pieces.len());
        if all.abs_diff(drafts) > all.max(drafts) / 100 {
            return Err(Error::bad_option(format!(
                "draft: the draft model has a vocabulary of {drafts} tokens, the model one of {all}: both have to be the same"
            )));
        }
        let differs = |id: &u32| {
            let control = self.pieces.is_special(*id) && draft.pieces.is_special(*id);
            !control && self.pieces.get(*id) != draft.pieces.get(*id)
        };
        let Some(id) = (0..all.min(drafts) as u32).find(differs) else { return Ok(()) };
        let name = |of: &Self| of.token(id).map_or_else(|| "no token".into(), |token| format!("{token:?}"));
        Err(Error::bad_option(format!(
            "draft: the draft model has another vocabulary: token {id} is {}, the model's is {}",
            name(draft),
            name(self)
        )))
    }

    /// Refuses a prompt with a token that the model has no row for.
    fn in_rows(&self, ids: Vec<u32>) -> Result<Vec<u32>> {
        match ids.iter().find(|id| self.rows.is_some_and(|rows| **id as usize >= rows)) {
            None => Ok(ids),
            Some(id) => Err(Error::tokenizer(format!(
                "the text has token {id} '{}' in it, but the model's embeddings end before it",
                self.token(*id).unwrap_or_default()
            ))),
        }
    }

    /// Token ids of `text`; with `add_special`, also what the model wants around a text (usually the beginning-of-text
    /// token). Pass false for a rendered chat template, which holds its own.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>> {
        let by_library = |text: &str, special| match self.inner.encode_fast(text, special) {
            Ok(encoding) => Ok(encoding.get_ids().to_vec()),
            Err(e) => Err(Error::tokenizer(format!("the text cannot be encoded: {e}"))),
        };
        let ids = match &self.words {
            Some(words) => words.encode(text, add_special, |word| by_library(word, false))?,
            None => by_library(text, add_special)?,
        };
        self.in_rows(if add_special { [&self.prefix[..], &ids, &self.suffix].concat() } else { ids })
    }

    /// Token ids of a prompt in which control tokens that messages spell have marks: these stay text.
    pub fn encode_guarded(&self, prompt: &Guarded) -> Result<Vec<u32>> {
        let (text, mark) = prompt.marked();
        let Some(mark) = mark else { return self.encode(text, false) };
        let inner = &self.inner;
        let encode = || {
            let mut parts = inner.get_added_vocabulary().extract_and_normalize(inner.get_normalizer(), text);
            // Special tokens are found: what follows sees the text as it was.
            parts.normalize(|part| {
                part.filter(|c| c != mark);
                Ok(())
            })?;
            if let Some(cut) = inner.get_pre_tokenizer() {
                cut.pre_tokenize(&mut parts)?;
            }
            parts.tokenize(|part| self.pieces_of_text(part.get()))?;
            parts.into_encoding(None, 0, OffsetType::None)
        };
        let encoding = encode().map_err(|e| Error::tokenizer(format!("the text cannot be encoded: {e}")))?;
        self.in_rows(encoding.get_ids().to_vec())
    }

    /// The tokens of a text without control tokens: a model of pieces may have these among them.
    fn pieces_of_text(&self, text: &str) -> tokenizers::Result<Vec<Token>> {
        let mut tokens = Vec::new();
        for token in self.inner.get_model().tokenize(text)? {
            let (from, to) = token.offsets;
            let first = text[from..to].chars().next().map_or(0, char::len_utf8);
            if !self.pieces.is_special(token.id) || from + first == to {
                tokens.push(token);
                continue;
            }
            for (from, to) in [(from, from + first), (from + first, to)] {
                let moved = |token: Token| Token { offsets: (token.offsets.0 + from, token.offsets.1 + from), ..token };
                tokens.extend(self.pieces_of_text(&text[from..to])?.into_iter().map(moved));
            }
        }
        Ok(tokens)
    }

    /// What keeps messages from spelling control tokens: special ones, and others that the template writes.
    pub(super) fn guard(&self, template: &str) -> Guard {
        let controls: Vec<_> = self
            .inner
            .get_added_tokens_decoder()
            .into_values()
            .filter(|token| token.content.chars().nth(1).is_some() && !token.content.trim().is_empty())
            .filter(|token| token.special || template.contains(&token.content))
            .collect();
        let normalizer = self.inner.get_normalizer().filter(|_| controls.iter().any(|token| token.normalized)).cloned();
        let normalize = normalizer.map(|normalizer| {
            let normalize = move |text: &str| {
                let mut text = NormalizedString::from(text);
                // A text that cannot be normalized cannot be encoded either.
                let _ = normalizer.normalize(&mut text);
                text.get().to_owned()
            };
            Box::new(normalize) as Normalize
        });
        Guard::new(controls.into_iter().map(|token| token.content).collect(), normalize)
    }

    /// How many tokens [`Tokenizer::encode`] puts behind a text.
    pub fn tokens_behind(&self) -> Result<usize> {
        let (nothing, text) = (self.encode("", true)?, self.encode(SAMPLE, true)?);
        let before = nothing.iter().zip(&text).take_while(|(a, b)| a == b).count();
        Ok(nothing.len() - before)
    }

    /// What stands around two texts that are read together. `TOKENIZER` where tokenizer.json does not say it.
    pub fn pair(&self) -> Result<Pair> {
        if !(self.prefix.is_empty() && self.suffix.is_empty()) {
            // BERT's texts share an end, RoBERTa's have one each and one more between them.
            let typed = matches!(self.inner.get_model(), tokenizers::ModelWrapper::WordPiece(_));
            let between = if typed { self.suffix.clone() } else { self.suffix.repeat(2) };
            return Ok(Pair { before: self.prefix.clone(), between, behind: self.suffix.clone(), typed });
        }
        let failed = |e: tokenizers::Error| Error::tokenizer(format!("a pair of texts cannot be encoded: {e}"));
        let (both, one) =
            (self.inner.encode_fast((SAMPLE, SAMPLE), true).map_err(failed)?, self.encode(SAMPLE, false)?);
        let ids = both.get_ids();
        let at: Vec<usize> =
            ids.windows(one.len().max(1)).enumerate().filter(|(_, ids)| *ids == one).map(|(at, _)| at).collect();
        let [first, second] = at[..] else {
            return Err(Error::tokenizer("tokenizer.json does not say what stands around a pair of texts"));
        };
        Ok(Pair {
            before: ids[..first].to_vec(),
            between: ids[first + one.len()..second].to_vec(),
            behind: ids[second + one.len()..].to_vec(),
            typed: both.get_type_ids()[second] != both.get_type_ids()[first],
        })
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

    /// One more than the largest id that the model has a row for. The model's V may be larger: heads are padded.
    pub fn vocab_size(&self) -> usize {
        self.rows.unwrap_or(self.pieces.len())
    }

    /// The tokens at which generation ends, each once. Empty if the checkpoint names none.
    pub fn eos_ids(&self) -> &[u32] {
        &self.eos
    }

    /// The ids that are never to be written: what the checkpoint names, and ids that no token has.
    pub fn suppressed_ids(&self) -> &[u32] {
        &self.suppressed
    }

    /// What the checkpoint says of its tokens that is not followed.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
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
        Err(Error::tokenizer(format!(
            "token {id} is not in the vocabulary, whose ids end at {}",
            self.pieces.len().saturating_sub(1)
        )))
    }
}
