//! The tokenizer of a GGUF file, from its `tokenizer.ggml.*` metadata.

use std::collections::HashSet;

use tokenizers::models::bpe::{BPE, BpeBuilder};
use tokenizers::normalizers::prepend::Prepend;
use tokenizers::normalizers::replace::Replace;
use tokenizers::{AddedToken, Tokenizer};

use super::charsmap;
use super::pieces::filler;
use super::pre::pre;
use super::spm::{Piece, merges};
use super::tokenizer::{Parts, SpecialTokens};
use crate::error::{Error, Result};
use crate::format::gguf::{Array, Metadata, StringArray};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";
const ADD_SPACE: &str = "tokenizer.ggml.add_space_prefix";
const EXTRA_SPACES: &str = "tokenizer.ggml.remove_extra_whitespaces";
const SUPPRESSED: &str = "tokenizer.ggml.suppress_tokens";
const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";

/// SentencePiece's visible space.
const SPACE: &str = "▁";

/// What a token is for, as GGUF numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

struct Vocabulary<'a> {
    tokens: &'a StringArray,
    types: Option<&'a Array>,
    /// Ids whose text is empty or another's before it: they are no tokens.
    gaps: HashSet<u32>,
}

impl<'a> Vocabulary<'a> {
    fn of(metadata: &'a Metadata) -> Result<Self> {
        let tokens = metadata.strings(TOKENS)?;
        if tokens.is_empty() {
            return Err(Error::bad_model(format!("metadata key '{TOKENS}' is empty")));
        }
        let types = metadata.opt::<&Array>(TYPES)?;
        if let Some(types) = types {
            check_len(TYPES, types.len(), tokens)?;
        }
        let mut seen = HashSet::new();
        let gaps = (0..).zip(tokens.iter()).filter(|(_, text)| text.is_empty() || !seen.insert(*text));
        let gaps = gaps.map(|(id, _)| id).collect();
        Ok(Self { tokens, types, gaps })
    }

    fn iter(&self) -> impl Iterator<Item = (u32, &'a str)> {
        (0u32..).zip(self.tokens.iter()).filter(|(id, _)| !self.gaps.contains(id))
    }

    /// Files from before token types have only normal tokens.
    fn kind(&self, id: u32) -> Result<Kind> {
        let Some(types) = self.types else { return Ok(Kind::Normal) };
        match types.int(id as usize) {
            Some(1) => Ok(Kind::Normal),
            Some(2) => Ok(Kind::Unknown),
            Some(3) => Ok(Kind::Control),
            Some(4) => Ok(Kind::UserDefined),
            // 0 is "undefined": neither llama.cpp nor its converters give it a meaning of its own.
            Some(0 | 5) => Ok(Kind::Unused),
            Some(6) => Ok(Kind::Byte),
            other => Err(Error::bad_model(format!(
                "metadata key '{TYPES}': the type of token {id} is {other:?}; 0 to 6 are known"
            ))),
        }
    }

    /// The text of an id that metadata names; none where the vocabulary has no such token, which is a warning of
    /// [`Vocabulary::strays`].
    fn special(&self, metadata: &Metadata, name: &str) -> Result<Option<(u32, &'a str)>> {
        let id = special_id(metadata, name)?.and_then(|id| u32::try_from(id).ok());
        Ok(id.and_then(|id| Some((id, self.tokens.get(id as usize)?))))
    }

    /// Ids of special tokens that the vocabulary does not have: nothing uses them unless a setting does.
    fn strays(&self, metadata: &Metadata) -> Result<Vec<String>> {
        let mut strays = Vec::new();
        if let Some(first) = self.gaps.iter().min() {
            strays.push(format!(
                "metadata key '{TOKENS}': {} tokens are empty or repeat another, the first of them token {first}: they are \
                 not used",
                self.gaps.len()
            ));
        }
        for name in SPECIAL {
            let Some(id) = special_id(metadata, name)? else { continue };
            // What some converters write for "none".
            let none = id == -1 || id == i64::from(u32::MAX);
            if !none && usize::try_from(id).map_or(true, |id| id >= self.tokens.len()) {
                strays.push(format!(
                    "metadata key 'tokenizer.ggml.{name}_token_id' is {id}, but there are {} tokens: it is not used",
                    self.tokens.len()
                ));
            }
        }
        Ok(strays)
    }
}

/// Tokens that metadata names by `tokenizer.ggml.NAME_token_id`.
const SPECIAL: [&str; 9] = ["bos", "eos", "eot", "eom", "unknown", "padding", "seperator", "cls", "mask"];

fn special_id(metadata: &Metadata, name: &str) -> Result<Option<i64>> {
    metadata.opt::<i64>(&format!("tokenizer.ggml.{name}_token_id"))
}

/// `UNSUPPORTED_MODEL` for a tokenizer model or pre-tokenizer that is not known; `BAD_MODEL` or `TOKENIZER` naming the
/// key for metadata that does not fit together.
///
/// `json`: a tokenizer.json that replaces the metadata's own rules, for a file with unknown rules. It also decides what
/// surrounds a text. `TOKENIZER` where it is of another model.
pub(super) fn parts(metadata: &Metadata, json: Option<&[u8]>) -> Result<Parts> {
    let vocabulary = Vocabulary::of(metadata)?;
    let given = json.map(|json| beside(&vocabulary, json, metadata.str(MODEL)? == "bert")).transpose()?;
    // BERT's texts stand between [CLS] and [SEP], RoBERTa's likewise.
    let mut framed = metadata.str(MODEL)? == "bert";
    let is_given = given.is_some();
    let (mut inner, add_bos, sentence_piece) = match metadata.str(MODEL)? {
        model if is_given => (None, false, model == "llama"),
        "gpt2" => {
            let (tokenizer, add_bos, add_sep) = byte_level(metadata, &vocabulary)?;
            framed = add_sep;
            (Some(tokenizer), add_bos, false)
        }
        "llama" => (Some(sentence_piece_bpe(metadata, &vocabulary)?), true, true),
        "gemma4" => (
            Some(visible_spaces(
                build(fallback(metadata, &vocabulary)?, &vocabulary, listed_merges(metadata)?, MERGES)?,
                false,
            )?),
            true,
            false,
        ),
        "t5" => (Some(unigram(metadata, &vocabulary)?), false, false),
        "bert" => (Some(word_piece(metadata, &vocabulary)?), true, false),
        other => {
            return Err(Error::unsupported(format!(
                "metadata key '{MODEL}' is '{other}'; known are 'gpt2' (byte-level BPE), 'llama' (SentencePiece BPE), 'gemma4' (BPE of \
                 characters), 't5' (Unigram) and 'bert' (WordPiece)"
            )));
        }
    };
    if let Some(inner) = &mut inner {
        inner.add_tokens(added_tokens(&vocabulary)?).map_err(|e| Error::tokenizer(format!("{TOKENS}: {e}")))?;
    }
    let inner = given.or(inner).ok_or_else(|| Error::internal("no tokenizer was made"))?;

    let mut special = SpecialTokens::new();
    let mut id_of = |name: &str, as_name: &str| -> Result<Option<u32>> {
        let found = vocabulary.special(metadata, name)?;
        if let Some((_, text)) = found {
            special.insert(as_name.to_owned(), text.to_owned());
        }
        Ok(found.map(|(id, _)| id))
    };
    let mut bos = id_of("bos", "bos_token")?;
    let mut eos: Vec<u32> = id_of("eos", "eos_token")?.into_iter().collect();
    for (name, as_name) in [
        ("unknown", "unk_token"),
        ("padding", "pad_token"),
        ("seperator", "sep_token"),
        ("cls", "cls_token"),
        ("mask", "mask_token"),
    ] {
        id_of(name, as_name)?;
    }
    if sentence_piece {
        // Every SentencePiece model of the Llama family has these; early converters left the keys out.
        for (id, name) in [(1, "bos_token"), (2, "eos_token")] {
            if let (false, Some(text), Kind::Control) =
                (special.contains_key(name), vocabulary.tokens.get(id as usize), vocabulary.kind(id)?)
            {
                special.insert(name.to_owned(), text.to_owned());
                if id == 1 { bos = Some(id) } else { eos.push(id) }
            }
        }
    }
    let id = |name: &str| Ok::<_, Error>(vocabulary.special(metadata, name)?.map(|(id, _)| id));
    let (first, last) = if framed {
        (id("cls")?.or(bos), id("seperator")?.or(eos.first().copied()))
    } else {
        (bos, eos.first().copied())
    };
    let (mut prefix, mut suffix) = (Vec::new(), Vec::new());
    if !is_given {
        suffix = around(metadata, ADD_EOS, framed, last, "eos")?;
        prefix = around(metadata, ADD_BOS, add_bos, first, "bos")?;
    }
    if framed {
        // The key of the first token of a text, which llama.cpp writes [CLS] under, makes it none that begins a text to
        // be continued.
        bos = None;
    }
    for name in ["eot", "eom"] {
        eos.extend(vocabulary.special(metadata, name)?.map(|(id, _)| id));
    }
    let suppressed = metadata.opt::<&Array>(SUPPRESSED)?;
    let suppressed = suppressed.map_or(Vec::new(), |ids| {
        (0..ids.len()).filter_map(|at| ids.int(at)).filter_map(|id| u32::try_from(id).ok()).collect()
    });
    let warnings = vocabulary.strays(metadata)?;
    Ok(Parts { inner, prefix, suffix, bos, eos, suppressed, special, warnings })
}

/// The tokenizer of a tokenizer.json beside the file; its tokens must be the file's.
fn beside(vocabulary: &Vocabulary<'_>, json: &[u8], marked_otherwise: bool) -> Result<Tokenizer> {
    let inner = super::hf::tokenizer(json)?;
    let other =
        |what: String| Error::tokenizer(format!("tokenizer.json is of another model than the GGUF file: {what}"));
    let known = inner.get_vocab_size(true);
    if known > vocabulary.tokens.len() {
        return Err(other(format!("it has {known} tokens, '{TOKENS}' has {}", vocabulary.tokens.len())));
    }
    for (id, text) in vocabulary.iter() {
        // What llama.cpp writes of BERT's words are not the words. A model may have more tokens than its tokenizer, by
        // their numbers.
        if let Some(token) = inner.id_to_token(id).filter(|token| token != text && !marked_otherwise) {
            return Err(other(format!("token {id} is '{token}' there and '{text}' in '{TOKENS}'")));
        }
    }
    Ok(inner)
}

/// The token to put before or after a text, if the key or else the default says so.
fn around(metadata: &Metadata, key: &str, default: bool, id: Option<u32>, name: &str) -> Result<Vec<u32>> {
    match (metadata.opt::<bool>(key)?, id) {
        (Some(true), None) => Err(Error::bad_model(format!(
            "metadata key '{key}' is true, but 'tokenizer.ggml.{name}_token_id' is missing"
        ))),
        (said, id) => Ok(id.filter(|_| said.unwrap_or(default)).into_iter().collect()),
    }
}

fn check_len(key: &str, len: usize, tokens: &StringArray) -> Result<()> {
    if len == tokens.len() {
        return Ok(());
    }
    Err(Error::bad_model(format!("metadata key '{key}' has {len} items, but '{TOKENS}' has {}", tokens.len())))
}

/// Tokens that are found in a text before it is cut.
fn added_tokens(vocabulary: &Vocabulary<'_>) -> Result<Vec<AddedToken>> {
    let mut added = Vec::new();
    for (id, text) in vocabulary.iter() {
        match vocabulary.kind(id)? {
            Kind::Control | Kind::Unknown => added.push(AddedToken::from(text, true)),
            Kind::UserDefined => added.push(AddedToken::from(text, false).normalized(false)),
            Kind::Normal | Kind::Unused | Kind::Byte => {}
        }
    }
    Ok(added)
}

/// Fills in the vocabulary and builds; merges are checked first, for the crate panics on those longer than any token.
fn build(
    builder: BpeBuilder,
    vocabulary: &Vocabulary<'_>,
    merges: Vec<(String, String)>,
    merges_key: &str,
) -> Result<BPE> {
    let mut ids = tokenizers::models::bpe::Vocab::default();
    let mut longest = 0;
    for (id, text) in vocabulary.iter() {
        ids.insert(text.to_owned(), id);
        longest = longest.max(text.len());
    }
    if let Some((left, right)) = merges.iter().find(|(left, right)| left.len() + right.len() > longest) {
        return Err(Error::bad_model(format!(
            "metadata key '{merges_key}': '{left} {right}' makes a token that is not in '{TOKENS}'"
        )));
    }
    // The crate keeps its cache for as long as the thread lives, also when the tokenizer is gone; it saves a tenth of
    // the time.
    builder
        .cache_capacity(0)
        .vocab_and_merges(ids, merges)
        .build()
        .map_err(|e| Error::bad_model(format!("metadata key '{merges_key}': {e}")))
}

/// Byte-level BPE, and whether its family begins texts with the beginning-of-text token and ends them with the
/// separator.
fn byte_level(metadata: &Metadata, vocabulary: &Vocabulary<'_>) -> Result<(Tokenizer, bool, bool)> {
    // Files from before the key existed are of models that were cut as GPT-2 cuts.
    let pre = pre(metadata.opt::<&str>(PRE)?.unwrap_or("gpt-2"))?;
    let bpe = build(BPE::builder().ignore_merges(pre.ignore_merges), vocabulary, listed_merges(metadata)?, MERGES)?;
    let mut tokenizer = Tokenizer::new(bpe);
    tokenizer.with_normalizer(pre.normalizer).map_err(|e| Error::internal(format!("normalizer: {e}")))?;
    tokenizer.with_pre_tokenizer(Some(pre.pre_tokenizer));
    tokenizer.with_decoder(Some(tokenizers::decoders::byte_level::ByteLevel::default()));
    Ok((tokenizer, pre.add_bos, pre.add_sep))
}

/// The merges that a file lists, in their order.
fn listed_merges(metadata: &Metadata) -> Result<Vec<(String, String)>> {
    let mut list = Vec::new();
    for (rank, merge) in metadata.strings(MERGES)?.iter().enumerate() {
        // The sides hold no space, but a side may be one: the separator is never the first character.
        let at = merge.char_indices().skip(1).find(|&(_, c)| c == ' ').map(|(at, _)| at);
        let (left, right) = at.map(|at| (&merge[..at], &merge[at + 1..])).ok_or_else(|| {
            Error::bad_model(format!(
                "metadata key '{MERGES}': merge {rank} is '{merge}', not two tokens with a space between"
            ))
        })?;
        list.push((left.to_owned(), right.to_owned()));
    }
    Ok(list)
}

/// SentencePiece BPE: no cutting at all, spaces made visible, bytes for what the vocabulary lacks.
fn sentence_piece_bpe(metadata: &Metadata, vocabulary: &Vocabulary<'_>) -> Result<Tokenizer> {
    let scores = metadata.req::<&[f32]>(SCORES)?;
    check_len(SCORES, scores.len(), vocabulary.tokens)?;
    let mut pieces = Vec::with_capacity(scores.len());
    for (id, text) in vocabulary.iter() {
        if vocabulary.kind(id)? == Kind::Normal {
            pieces.push(Piece { id, text, score: scores[id as usize] });
        }
    }
    let bpe = build(fallback(metadata, vocabulary)?, vocabulary, merges(&pieces)?, SCORES)?;
    visible_spaces(bpe, metadata.opt::<bool>(ADD_SPACE)?.unwrap_or(true))
}

/// BPE of characters, with bytes for what the vocabulary lacks.
fn fallback(metadata: &Metadata, vocabulary: &Vocabulary<'_>) -> Result<BpeBuilder> {
    let mut unknown = None;
    for (id, text) in vocabulary.iter() {
        if vocabulary.kind(id)? == Kind::Unknown {
            unknown = unknown.or(Some(text));
        }
    }
    if let Some((_, text)) = vocabulary.special(metadata, "unknown")? {
        unknown = Some(text);
    }
    let mut builder = BPE::builder().byte_fallback(true).fuse_unk(true);
    if let Some(unknown) = unknown {
        builder = builder.unk_token(unknown.to_owned());
    }
    Ok(builder)
}

/// Spaces made visible, with `prefix` one before the text.
fn visible_spaces(bpe: BPE, prefix: bool) -> Result<Tokenizer> {
    use tokenizers::decoders::{
        DecoderWrapper, byte_fallback::ByteFallback, fuse::Fuse, sequence::Sequence, strip::Strip,
    };
    use tokenizers::normalizers::{NormalizerWrapper, utils::Sequence as Normalizers};

    let mut tokenizer = Tokenizer::new(bpe);
    let crate_error = |e: tokenizers::Error| Error::internal(format!("SentencePiece's rules: {e}"));
    let mut normalizers: Vec<NormalizerWrapper> = Vec::new();
    let mut decoders: Vec<DecoderWrapper> =
        vec![Replace::new(SPACE, " ").map_err(crate_error)?.into(), ByteFallback::new().into(), Fuse::new().into()];
    if prefix {
        normalizers.push(Prepend::new(SPACE.to_owned()).into());
        decoders.push(Strip::new(' ', 1, 0).into());
    }
    normalizers.push(Replace::new(" ", SPACE).map_err(crate_error)?.into());
    tokenizer.with_normalizer(Some(Normalizers::new(normalizers))).map_err(crate_error)?;
    tokenizer.with_decoder(Some(Sequence::new(decoders)));
    Ok(tokenizer)
}

/// Unigram: of all ways to cut a text the likeliest, spaces made visible.
fn unigram(metadata: &Metadata, vocabulary: &Vocabulary<'_>) -> Result<Tokenizer> {
    use tokenizers::models::unigram::Unigram;
    use tokenizers::normalizers::{NormalizerWrapper, strip::Strip, utils::Sequence as Normalizers};
    use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};

    let scores = metadata.req::<&[f32]>(SCORES)?;
    check_len(SCORES, scores.len(), vocabulary.tokens)?;
    if let Some(id) = scores.iter().position(|score| score.is_nan()) {
        return Err(Error::tokenizer(format!("metadata key '{SCORES}': the score of token {id} is not a number")));
    }
    let unknown = match vocabulary.special(metadata, "unknown")? {
        Some((id, _)) => Some(id as usize),
        None => vocabulary
            .iter()
            .map(|(id, _)| Ok((id, vocabulary.kind(id)?)))
            .collect::<Result<Vec<_>>>()?
            .iter()
            .find(|(_, kind)| *kind == Kind::Unknown)
            .map(|(id, _)| *id as usize),
    };
    let pieces = (0..)
        .zip(vocabulary.tokens.iter().zip(scores))
        .map(|(id, (text, score))| {
            (if vocabulary.gaps.contains(&id) { filler(id) } else { text.to_owned() }, f64::from(*score))
        })
        .collect();
    let model =
        Unigram::from(pieces, unknown, false).map_err(|e| Error::bad_model(format!("metadata key '{SCORES}': {e}")))?;
    let mut tokenizer = Tokenizer::new(model);
    let prefix =
        if metadata.opt::<bool>(ADD_SPACE)?.unwrap_or(true) { PrependScheme::Always } else { PrependScheme::Never };
    let mut normalizers: Vec<NormalizerWrapper> = Vec::new();
    if let Some(table) = metadata.opt::<&Array>(CHARSMAP)? {
        let bytes: Vec<u8> = (0..table.len()).map_while(|at| table.int(at)).map(|byte| byte as u8).collect();
        normalizers.push(charsmap::open(&bytes).map_err(|e| e.at(CHARSMAP))?.into());
    }
    if metadata.opt::<bool>(EXTRA_SPACES)?.unwrap_or(false) {
        // As transformers has it; a visible space at the beginning is not put there twice.
        let runs = Replace::new(tokenizers::normalizers::replace::ReplacePattern::Regex(" {2,}".into()), SPACE);
        normalizers.push(Strip::new(false, true).into());
        normalizers.push(runs.map_err(|e| Error::internal(format!("runs of spaces: {e}")))?.into());
    }
    if !normalizers.is_empty() {
        tokenizer
            .with_normalizer(Some(Normalizers::new(normalizers)))
            .map_err(|e| Error::internal(format!("normalizer: {e}")))?;
    }
    tokenizer.with_pre_tokenizer(Some(Metaspace::new('▁', prefix, true)));
    tokenizer.with_decoder(Some(Metaspace::new('▁', prefix, true)));
    Ok(tokenizer)
}

/// WordPiece: words cut greedily from the left. llama.cpp marks words' beginnings, where BERT marks what continues
/// them.
fn word_piece(metadata: &Metadata, vocabulary: &Vocabulary<'_>) -> Result<Tokenizer> {
    use tokenizers::decoders::wordpiece::WordPiece as Decoder;
    use tokenizers::models::wordpiece::WordPiece;
    use tokenizers::normalizers::BertNormalizer;
    use tokenizers::pre_tokenizers::bert::BertPreTokenizer;

    let mut ids = tokenizers::models::bpe::Vocab::default();
    for (id, text) in vocabulary.iter() {
        let token = match (vocabulary.kind(id)?, text.strip_prefix(SPACE)) {
            (Kind::Control | Kind::Unknown, _) => text.to_owned(),
            (_, Some(word)) => word.to_owned(),
            (_, None) => format!("##{text}"),
        };
        if let Some(first) = ids.insert(token, id) {
            return Err(Error::bad_model(format!("metadata key '{TOKENS}': tokens {first} and {id} are the same")));
        }
    }
    let unknown = vocabulary.special(metadata, "unknown")?.map_or("[UNK]", |(_, text)| text);
    if !ids.contains_key(unknown) {
        return Err(Error::bad_model(format!("metadata key '{TOKENS}' has no token '{unknown}' for what is unknown")));
    }
    let model = WordPiece::builder()
        .vocab(ids)
        .unk_token(unknown.to_owned())
        .build()
        .map_err(|e| Error::bad_model(format!("metadata key '{TOKENS}': {e}")))?;
    let mut tokenizer = Tokenizer::new(model);
    tokenizer
        .with_normalizer(Some(BertNormalizer::default()))
        .map_err(|e| Error::internal(format!("normalizer: {e}")))?;
    tokenizer.with_pre_tokenizer(Some(BertPreTokenizer));
    tokenizer.with_decoder(Some(Decoder::default()));
    Ok(tokenizer)
}
