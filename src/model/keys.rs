//! A checkpoint's configuration, read strictly from GGUF metadata or config.json: a key that no reader asks for is an
//! error that names it, since it may change what the model computes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata, gguf};

/// Upper bound on any size in a configuration: larger ones are errors, and products of two of them fit into 64 bits.
pub const MOST: u64 = 1 << 24;

/// Keys of config.json that change nothing in what is computed here: training, bookkeeping, the tokenizer's (read
/// elsewhere).
const IGNORED: &[&str] = &[
    "_name_or_path",
    "architectures",
    "model_type",
    "attention_dropout",
    "attn_pdrop",
    "embd_pdrop",
    "resid_pdrop",
    "hidden_dropout",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "unk_token_id",
    "initializer_range",
    "pretraining_tp",
    "dtype",
    "torch_dtype",
    "transformers_version",
    "use_cache",
    "cache_implementation",
    "return_dict",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "router_aux_loss_coef",
    "is_llama_config",
    "rope_interleaved",
    "transformers.js_config",
    "quantization_config",
    "auto_map",
    "unsloth_fixed",
    "id2label",
    "label2id",
    "problem_type",
    "chunk_size_feed_forward",
    "is_encoder_decoder",
    "task_specific_params",
    "_attn_implementation_autoset",
    // What older versions of transformers wrote into every configuration: of generating, which is asked for otherwise
    // here, and of other tasks.
    "max_length",
    "min_length",
    "do_sample",
    "early_stopping",
    "num_beams",
    "num_beam_groups",
    "diversity_penalty",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "repetition_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "bad_words_ids",
    "num_return_sequences",
    "output_scores",
    "return_dict_in_generate",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "remove_invalid_values",
    "exponential_decay_length_penalty",
    "suppress_tokens",
    "begin_suppress_tokens",
    "decoder_start_token_id",
    "sep_token_id",
    "prefix",
    "finetuning_task",
    "tokenizer_class",
    "tie_encoder_decoder",
    "torchscript",
    "use_bfloat16",
    "tf_legacy_loss",
    "use_return_dict",
    "classifier_dropout",
    "cross_attention_hidden_size",
    "is_decoder",
    "loss_type",
    "num_labels",
    "_num_labels",
    "output_past",
    "penalty_alpha",
    "xla_device",
    "keys_to_ignore_at_inference",
    "_experts_implementation",
    "_output_attentions",
    // Of training, and of the tools that saved the file.
    "hf_device_map",
    "device_map",
    "low_cpu_mem_usage",
    "trust_remote_code",
    "is_matryoshka",
    "matryoshka_dimensions",
    "max_sequence_length",
    "max_seq_length",
    "n_special",
    "predict_special_tokens",
    "_attn_implementation",
    "_attn_implementation_internal",
    "attn_implementation",
    "_commit_hash",
    "_flash_attn_2_enabled",
    "use_flash_attn",
    "use_flash_attention",
    "use_flash_attention_2",
    "_from_model_config",
    "gradient_checkpointing",
    "neftune_noise_alpha",
    "residual_dropout",
    "embedding_dropout",
    "attention_probs_dropout_prob",
    "hidden_dropout_prob",
    "ffn_dropout",
    "layerdrop",
    "model_max_length",
    "tokenizer_model_max_length",
    "tokenizer_padding_side",
    "padding_side",
    "transformers_weights",
    "base_model_name_or_path",
    "model_name",
    "revision",
    "kv_cache_scheme",
    "ep_size",
    "z_loss_coefficient",
    "aux_loss_alpha",
    "seq_aux",
];

/// Switches that change nothing where they are in this position and the architecture does not read them. Empty lists
/// and objects, and what is null, change nothing either.
const IDLE: &[(&str, bool)] = &[
    ("add_cross_attention", false),
    ("alibi", false),
    ("attention_bias", false),
    ("is_causal", true),
    ("lm_head_bias", false),
    ("mlp_bias", false),
    ("parallel_attn", false),
    ("qk_layernorm", false),
    ("qkv_bias", false),
    ("use_alibi", false),
    ("use_bias", false),
    ("use_dynamic_ntk", false),
    ("use_logn_attn", false),
    ("use_mrope", false),
    ("use_parallel_residual", false),
    ("use_sliding_window", false),
];

/// Beginnings of keys that tools leave behind.
const IGNORED_BEGINNINGS: &[&str] = &["unsloth", "axolotl", "mergekit", "trl_", "wandb", "lora_", "freeze_", "tune_"];

enum Source<'a> {
    Gguf(&'a gguf::Metadata),
    Hf(&'a Map<String, Value>),
}

/// The keys of one architecture. Each has two names: GGUF's, without the architecture before it, and Hugging Face's; ""
/// where one format has no such key.
pub struct Keys<'a> {
    checkpoint: &'a Checkpoint,
    /// GGUF's name of the architecture.
    name: &'static str,
    source: Source<'a>,
    used: RefCell<BTreeSet<String>>,
    /// Numbers that stand for keys that config.json does not have.
    defaults: Cell<&'static [(&'static str, f64)]>,
    /// (the usual key of config.json, another word for it), which counts where both are there.
    renamed: Cell<&'static [(&'static str, &'static str)]>,
    /// Whether a list with an entry for each layer may have zeros: layers that have no such thing.
    gaps: Cell<bool>,
    /// Whether its entries may differ; reading one value for all layers then gives the first entry.
    differ: Cell<bool>,
}

impl<'a> Keys<'a> {
    /// The keys of `checkpoint`, whose architecture GGUF calls `name`.
    pub fn of(checkpoint: &'a Checkpoint, name: &'static str) -> Result<Self> {
        let source = match &checkpoint.metadata {
            Metadata::Gguf(metadata) => Source::Gguf(metadata),
            // Models that read more than text have the language model's configuration within their own.
            Metadata::Hf(metadata) => Source::Hf(match metadata.config.get("text_config") {
                None => &metadata.config,
                Some(Value::Object(text)) => text,
                Some(_) => return Err(Error::bad_model("config.json: text_config is no object")),
            }),
        };
        Ok(Self::new(checkpoint, name, source))
    }

    /// The keys of a part of a model: in GGUF those under `name`, in config.json those of its object `part`.
    pub fn of_part(checkpoint: &'a Checkpoint, name: &'static str, part: &str) -> Result<Self> {
        let source = match &checkpoint.metadata {
            Metadata::Gguf(metadata) => Source::Gguf(metadata),
            Metadata::Hf(metadata) => match metadata.config.get(part) {
                Some(Value::Object(part)) => Source::Hf(part),
                _ => return Err(Error::bad_model(format!("config.json: {part} is missing or no object"))),
            },
        };
        Ok(Self::new(checkpoint, name, source))
    }

    fn new(checkpoint: &'a Checkpoint, name: &'static str, source: Source<'a>) -> Self {
        Self {
            checkpoint,
            name,
            source,
            used: RefCell::default(),
            defaults: Cell::new(&[]),
            renamed: Cell::new(&[]),
            gaps: Cell::new(false),
            differ: Cell::new(false),
        }
    }

    /// Whether the checkpoint is a GGUF file.
    pub fn is_gguf(&self) -> bool {
        matches!(self.source, Source::Gguf(_))
    }

    /// Whether GGUF calls the architecture so.
    pub fn is(&self, gguf: &str) -> bool {
        self.name == gguf
    }

    /// Whether there is a tensor of that name.
    pub fn has_tensor(&self, name: &str) -> bool {
        self.checkpoint.tensors.contains_key(name)
    }

    /// Whether the name of any tensor has this in it.
    pub fn any_tensor(&self, part: &str) -> bool {
        self.checkpoint.tensors.keys().any(|name| name.contains(part))
    }

    /// The rows of a matrix, where the key that tells them is missing from many files.
    pub fn rows_of(&self, tensor: &str) -> Result<usize> {
        match self.checkpoint.tensors.get(tensor).map(|t| t.shape.as_slice()) {
            Some([rows, _]) => sized(*rows, &format!("rows of {tensor}")),
            _ => Err(Error::bad_model(format!("tensor {tensor} is missing or is no matrix"))),
        }
    }

    /// What messages call a key.
    pub fn name(&self, gguf: &str, hf: &str) -> String {
        if self.is_gguf() { format!("{}.{gguf}", self.name) } else { format!("config.json: {hf}") }
    }

    /// A value by its key, or by another word for it.
    fn hf(&self, key: &str) -> Option<&'a Value> {
        let Source::Hf(config) = self.source else { return None };
        let words = self.renamed.get().iter().filter(|(usual, _)| *usual == key).map(|(_, word)| *word).chain([key]);
        let found: Vec<_> =
            words.map(|word| (self.used.borrow_mut().insert(word.to_owned()), config.get(word)).1).collect();
        found.into_iter().flatten().find(|value| !value.is_null())
    }

    fn gguf(&self, key: &str) -> Option<(&'a gguf::Metadata, String)> {
        let Source::Gguf(metadata) = self.source else { return None };
        let key = format!("{}.{key}", self.name);
        self.used.borrow_mut().insert(key.clone());
        Some((metadata, key))
    }

    /// A size: a whole number from 1 on.
    pub fn size(&self, gguf: &str, hf: &str) -> Result<Option<usize>> {
        let n = match self.gguf(gguf) {
            Some((m, key)) => m.opt::<u64>(&key)?,
            None => match self.hf(hf) {
                Some(v) => {
                    Some(whole(v).ok_or_else(|| Error::bad_model(format!("config.json: {hf} is no whole number")))?)
                }
                None => self.default(hf).map(|n| n as u64),
            },
        };
        n.map(|n| sized(n, &self.name(gguf, hf))).transpose()
    }

    /// A size that GGUF may have as a list with an entry for each layer: all must be the same.
    pub fn same_size(&self, gguf: &str, hf: &str) -> Result<Option<usize>> {
        let Some((metadata, key)) = self.gguf(gguf) else { return self.size(gguf, hf) };
        let Some(gguf::Value::Array(list)) = metadata.get(&key) else { return self.size(gguf, hf) };
        let of = |i| list.int(i).and_then(|n| u64::try_from(n).ok());
        let gaps = self.gaps.get();
        if list.is_empty() {
            return Err(Error::bad_model(format!("{key} is an empty list")));
        }
        match (0..list.len()).map(of).filter(|n| !gaps || *n != Some(0)).collect::<Option<Vec<_>>>() {
            Some(sizes) if self.differ.get() || sizes.windows(2).all(|pair| pair[0] == pair[1]) => {
                sizes.first().map(|n| sized(*n, &key)).transpose()
            }
            Some(_) => Err(Error::unsupported(format!(
                "{key} differs from layer to layer, which this version does not run for {}",
                self.name
            ))),
            None => Err(Error::bad_model(format!("{key} is no list of sizes"))),
        }
    }

    /// Layers may have none of what a list of GGUF has an entry for.
    pub fn allow_gaps(&self) {
        self.gaps.set(true);
    }

    /// Layers may differ in what a list of GGUF has an entry for: see [`Keys::sizes`].
    pub fn allow_differences(&self) {
        self.differ.set(true);
    }

    /// A size for each layer, from a list in GGUF.
    pub fn sizes(&self, gguf: &str, layers: usize) -> Result<Option<Vec<usize>>> {
        let Some((metadata, key)) = self.gguf(gguf) else { return Ok(None) };
        let Some(gguf::Value::Array(list)) = metadata.get(&key) else { return Ok(None) };
        if list.len() != layers {
            return Err(Error::bad_model(format!("{key} has {} entries for {layers} layers", list.len())));
        }
        (0..layers)
            .map(|i| sized(list.int(i).and_then(|n| u64::try_from(n).ok()).unwrap_or(0), &key))
            .collect::<Result<_>>()
            .map(Some)
    }

    /// A list of whole numbers of GGUF that may be 0.
    pub fn counts_of_gguf(&self, gguf: &str) -> Result<Option<Vec<u64>>> {
        let Some((metadata, key)) = self.gguf(gguf) else { return Ok(None) };
        let wrong = || Error::bad_model(format!("{key} is no list of whole numbers"));
        match metadata.get(&key) {
            None => Ok(None),
            Some(gguf::Value::Array(list)) => (0..list.len())
                .map(|i| list.int(i).and_then(|n| u64::try_from(n).ok()).ok_or_else(wrong))
                .collect::<Result<_>>()
                .map(Some),
            Some(_) => Err(wrong()),
        }
    }

    /// Whether each layer's entry in a list of GGUF is above 0; `None` where there is no list.
    pub fn present(&self, gguf: &str) -> Option<Vec<bool>> {
        let (metadata, key) = self.gguf(gguf)?;
        let gguf::Value::Array(list) = metadata.get(&key)? else { return None };
        Some((0..list.len()).map(|i| list.int(i).is_some_and(|n| n > 0)).collect())
    }

    /// A flag for each layer, from a list in GGUF; a single number n there means that every n-th layer is a no, and 0
    /// that none is.
    pub fn flags(&self, gguf: &str, layers: usize) -> Result<Option<Vec<bool>>> {
        let Some((metadata, key)) = self.gguf(gguf) else { return Ok(None) };
        let list = match metadata.get(&key) {
            None => return Ok(None),
            Some(gguf::Value::Array(list)) => list,
            Some(_) => {
                let period = self.size_or_none(gguf, "")?;
                return Ok(Some((0..layers).map(|i| period == 0 || (i + 1) % period != 0).collect()));
            }
        };
        if list.len() != layers {
            return Err(Error::bad_model(format!("{key} has {} entries for {layers} layers", list.len())));
        }
        let flag = |i| list.bool(i).or_else(|| list.int(i).map(|n| n != 0));
        let flags: Option<Vec<bool>> = (0..layers).map(flag).collect();
        flags.map(Some).ok_or_else(|| Error::bad_model(format!("{key} is no list of yes and no")))
    }

    /// A size that must be there.
    pub fn need(&self, gguf: &str, hf: &str) -> Result<usize> {
        self.size(gguf, hf)?.ok_or_else(|| Error::bad_model(format!("{} is missing", self.name(gguf, hf))))
    }

    /// A whole number that may be 0, and is where the key is missing.
    pub fn size_or_none(&self, gguf: &str, hf: &str) -> Result<usize> {
        match self.gguf(gguf) {
            Some((m, key)) => m.opt::<u64>(&key)?.filter(|n| *n > 0).map_or(Ok(0), |n| sized(n, &key)),
            None => Ok(self.count(hf)?.unwrap_or(0)),
        }
    }

    /// A size, where the key is there and not 0.
    pub fn size_above_0(&self, gguf: &str, hf: &str) -> Result<Option<usize>> {
        let n = Some(self.size_or_none(gguf, hf)?).filter(|n| *n > 0);
        n.map(|n| sized(n as u64, &self.name(gguf, hf))).transpose()
    }

    /// A key of GGUF says no more than others where its value is `n`.
    pub fn ignore_gguf_if(&self, key: &str, n: usize) {
        let Source::Gguf(metadata) = self.source else { return };
        let key = format!("{}.{key}", self.name);
        if metadata.get(&key).and_then(gguf::Value::as_int) == i64::try_from(n).ok() {
            self.used.borrow_mut().insert(key);
        }
    }

    /// A finite number.
    pub fn number(&self, gguf: &str, hf: &str) -> Result<Option<f64>> {
        let n = match self.gguf(gguf) {
            Some((m, key)) => m.opt::<f32>(&key)?.map(f64::from),
            None => match self.hf(hf) {
                Some(v) => Some(v.as_f64().ok_or_else(|| Error::bad_model(format!("config.json: {hf} is no number")))?),
                None => self.default(hf),
            },
        };
        match n {
            Some(n) if !n.is_finite() => Err(Error::bad_model(format!("{} is {n}", self.name(gguf, hf)))),
            n => Ok(n),
        }
    }

    /// A positive number.
    pub fn positive(&self, gguf: &str, hf: &str) -> Result<Option<f64>> {
        self.number(gguf, hf)?.map(|n| positive(n, &self.name(gguf, hf))).transpose()
    }

    /// A positive number, where the key is there and not 0.
    pub fn positive_unless_0(&self, gguf: &str, hf: &str) -> Result<Option<f64>> {
        self.number(gguf, hf)?.filter(|n| *n != 0.0).map(|n| positive(n, &self.name(gguf, hf))).transpose()
    }

    /// A yes or no.
    pub fn flag(&self, gguf: &str, hf: &str) -> Result<Option<bool>> {
        match self.gguf(gguf) {
            Some((m, key)) => m.opt::<bool>(&key),
            None => self
                .hf(hf)
                .map(|v| {
                    v.as_bool().ok_or_else(|| Error::bad_model(format!("config.json: {hf} is neither true nor false")))
                })
                .transpose(),
        }
    }

    /// What config.json has beside a language model's configuration, for models that read more than text.
    pub fn outer(&self, hf: &str) -> Option<&'a Value> {
        match &self.checkpoint.metadata {
            Metadata::Hf(metadata) => metadata.config.get(hf),
            Metadata::Gguf(_) => None,
        }
    }

    /// A yes or no of that.
    pub fn outer_flag(&self, hf: &str) -> Option<bool> {
        self.outer(hf)?.as_bool()
    }

    /// A whole number of GGUF that may be 0.
    pub fn count_of_gguf(&self, gguf: &str) -> Result<Option<usize>> {
        let Some((metadata, key)) = self.gguf(gguf) else { return Ok(None) };
        let Some(value) = metadata.get(&key) else { return Ok(None) };
        let n = value.as_int().and_then(|n| usize::try_from(n).ok());
        n.map(Some).ok_or_else(|| Error::bad_model(format!("{key} is no whole number")))
    }

    /// The id of the token that fills texts up.
    pub fn padding_token(&self) -> Result<Option<u32>> {
        let id = match self.source {
            Source::Gguf(metadata) => metadata.opt::<u64>("tokenizer.ggml.padding_token_id")?,
            Source::Hf(_) => self.count("pad_token_id")?.map(|id| id as u64),
        };
        id.map(|id| u32::try_from(id).map_err(|_| Error::bad_model(format!("the padding token's id is {id}"))))
            .transpose()
    }

    /// A whole number of config.json that may be 0.
    pub fn count(&self, hf: &str) -> Result<Option<usize>> {
        let wrong = || Error::bad_model(format!("config.json: {hf} is no whole number"));
        let value =
            self.hf(hf).map(|v| whole(v).and_then(|n| usize::try_from(n).ok()).ok_or_else(wrong)).transpose()?;
        Ok(value.or_else(|| self.default(hf).map(|n| n as usize)))
    }

    /// What stands for a key that config.json does not have.
    fn default(&self, hf: &str) -> Option<f64> {
        self.defaults.get().iter().find(|(key, _)| *key == hf && !self.is_null(hf)).map(|(_, n)| *n)
    }

    /// How many layers there are: config.json may only list them.
    pub fn layers(&self) -> Result<usize> {
        if !self.is_gguf()
            && !self.has("num_hidden_layers")
            && let Some(list) = self.list("layers_block_type")?
        {
            return sized(list.len() as u64, "config.json: layers_block_type's length");
        }
        self.need("block_count", "num_hidden_layers")
    }

    /// Whether config.json has a key that is not null.
    pub fn has(&self, hf: &str) -> bool {
        self.hf(hf).is_some()
    }

    /// Whether config.json has a key that is null.
    pub fn is_null(&self, hf: &str) -> bool {
        matches!(self.source, Source::Hf(config) if config.get(hf).is_some_and(Value::is_null))
    }

    /// The class that config.json names: that of its part where that has one.
    pub fn hf_class(&self) -> &'a str {
        let (Source::Hf(part), Metadata::Hf(whole)) = (&self.source, &self.checkpoint.metadata) else { return "" };
        let named =
            |config: &'a Map<String, Value>| config.get("architectures").and_then(|a| a.get(0)).and_then(Value::as_str);
        named(part).or_else(|| named(&whole.config)).unwrap_or_default()
    }

    /// Whether config.json names that class.
    pub fn is_hf_class(&self, class: &str) -> bool {
        self.hf_class() == class
    }

    /// Keys of config.json for which this architecture has other words: (the usual one, the other), which counts where
    /// both are there.
    pub fn renamed(&self, words: &'static [(&'static str, &'static str)]) {
        self.renamed.set(words);
    }

    /// Numbers that stand for keys that config.json does not have.
    pub fn defaults(&self, defaults: &'static [(&'static str, f64)]) {
        self.defaults.set(defaults);
    }

    /// A text.
    pub fn text(&self, gguf: &str, hf: &str) -> Result<Option<&'a str>> {
        match self.gguf(gguf) {
            Some((m, key)) => m.opt::<&str>(&key),
            None => self
                .hf(hf)
                .map(|v| v.as_str().ok_or_else(|| Error::bad_model(format!("config.json: {hf} is no text"))))
                .transpose(),
        }
    }

    /// Three numbers of GGUF, one for each channel.
    pub fn channels(&self, gguf: &str) -> Result<[f32; 3]> {
        let name = self.name(gguf, "");
        let Some((metadata, key)) = self.gguf(gguf) else {
            return Err(Error::internal(format!("{name} of config.json")));
        };
        let numbers: &[f32] = metadata.opt(&key)?.ok_or_else(|| Error::bad_model(format!("{name} is missing")))?;
        <[f32; 3]>::try_from(numbers)
            .ok()
            .filter(|n| n.iter().all(|x| x.is_finite()))
            .ok_or_else(|| Error::bad_model(format!("{name} is not three numbers")))
    }

    /// An object of config.json.
    pub fn object(&self, hf: &str) -> Result<Option<&'a Map<String, Value>>> {
        self.hf(hf)
            .map(|v| v.as_object().ok_or_else(|| Error::bad_model(format!("config.json: {hf} is no object"))))
            .transpose()
    }

    /// A list of config.json, whatever is in it.
    pub fn list(&self, hf: &str) -> Result<Option<&'a [Value]>> {
        self.hf(hf)
            .map(|v| {
                v.as_array().map(Vec::as_slice).ok_or_else(|| Error::bad_model(format!("config.json: {hf} is no list")))
            })
            .transpose()
    }

    /// A list of texts of config.json.
    pub fn texts(&self, hf: &str) -> Result<Option<Vec<&'a str>>> {
        let wrong = || Error::bad_model(format!("config.json: {hf} is no list of texts"));
        let Some(list) = self.hf(hf) else { return Ok(None) };
        list.as_array().ok_or_else(wrong)?.iter().map(|v| v.as_str().ok_or_else(wrong)).collect::<Result<_>>().map(Some)
    }

    /// A word for each of `n` layers, from a list of config.json, as what `known` says of it.
    pub fn kinds<T: Copy>(&self, hf: &str, n: usize, known: &[(&str, T)]) -> Result<Option<Vec<T>>> {
        let Some(words) = self.texts(hf)? else { return Ok(None) };
        if words.len() != n {
            return Err(Error::bad_model(format!("config.json: {hf} has {} entries for {n} layers", words.len())));
        }
        let list = || known.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        let unknown =
            |word| Error::unsupported(format!("config.json: {hf}: layer type {word:?}; this version knows {}", list()));
        let kind =
            |word| known.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind).ok_or_else(|| unknown(word));
        words.into_iter().map(kind).collect::<Result<_>>().map(Some)
    }

    /// A list of numbers of config.json, of that length.
    pub fn numbers<const N: usize>(&self, hf: &str) -> Result<Option<[f64; N]>> {
        let wrong = || Error::bad_model(format!("config.json: {hf} is no list of {N} numbers"));
        let Some(list) = self.hf(hf) else { return Ok(None) };
        let numbers = list
            .as_array()
            .ok_or_else(wrong)?
            .iter()
            .map(Value::as_f64)
            .collect::<Option<Vec<_>>>()
            .ok_or_else(wrong)?;
        numbers.try_into().map(Some).map_err(|_| wrong())
    }

    /// A list of whole numbers of config.json that may be 0.
    pub fn counts(&self, hf: &str) -> Result<Option<Vec<u64>>> {
        let wrong = || Error::bad_model(format!("config.json: {hf} is no list of whole numbers"));
        let Some(list) = self.hf(hf) else { return Ok(None) };
        list.as_array().ok_or_else(wrong)?.iter().map(|v| v.as_u64().ok_or_else(wrong)).collect::<Result<_>>().map(Some)
    }

    /// A switch of config.json that this version knows in one position only.
    pub fn must_be(&self, hf: &str, value: &Value) -> Result<()> {
        match self.hf(hf) {
            Some(v) if v != value => Err(Error::unsupported(format!(
                "config.json: {hf} is {v}; this version runs {} with {value}",
                self.name
            ))),
            _ => Ok(()),
        }
    }

    /// Keys that say nothing that other keys do not say.
    pub fn ignore(&self, hf: &[&str]) {
        self.used.borrow_mut().extend(hf.iter().map(|k| (*k).to_owned()));
    }

    /// As [`Keys::ignore`], for GGUF keys of this architecture (without its prefix).
    pub fn ignore_gguf(&self, keys: &[&str]) {
        self.used.borrow_mut().extend(keys.iter().map(|k| format!("{}.{k}", self.name)));
    }

    /// As [`Keys::ignore_gguf`], for all keys with one of these prefixes: they belong to other parts of the file.
    pub fn ignore_gguf_under(&self, prefixes: &[&str]) {
        let Source::Gguf(metadata) = self.source else { return };
        let of = |key: &str| {
            prefixes.iter().any(|prefix| key.strip_prefix(self.name).is_some_and(|rest| rest[1..].starts_with(prefix)))
        };
        self.used.borrow_mut().extend(metadata.iter().map(|(key, _)| key).filter(|key| of(key)).map(ToOwned::to_owned));
    }

    /// An error that names the keys of the architecture that were never read.
    pub fn finish(&self) -> Result<()> {
        let used = self.used.borrow();
        let (kind, unknown): (_, Vec<&str>) = match self.source {
            Source::Gguf(metadata) => {
                let prefix = format!("{}.", self.name);
                let tower = |key: &str| GGUF_TOWERS.iter().any(|tower| key[prefix.len()..].starts_with(tower));
                let keys = metadata.iter().map(|(key, _)| key);
                (
                    "metadata key",
                    keys.filter(|key| key.starts_with(&prefix) && !used.contains(*key) && !tower(key))
                        .filter(|key| !metadata.get(key).is_some_and(|value| is_idle_gguf(&key[prefix.len()..], value)))
                        .collect(),
                )
            }
            Source::Hf(config) => {
                let keys = config.iter().filter(|(key, value)| !is_idle(key, value)).map(|(key, _)| key.as_str());
                ("config.json: key", keys.filter(|key| !used.contains(*key) && !is_ignored(key)).collect())
            }
        };
        match unknown[..] {
            [] => Ok(()),
            [key] => Err(Error::unsupported(format!(
                "{kind} {key} is not known to this version for {}, and it may change what the model computes",
                self.name
            ))),
            _ => {
                let named = unknown.join(", ");
                Err(Error::unsupported(format!(
                    "{kind}s {named} are not known to this version for {}, and they may change what the model computes",
                    self.name
                )))
            }
        }
    }
}

fn sized(n: u64, key: &str) -> Result<usize> {
    if n == 0 || n > MOST { Err(Error::bad_model(format!("{key} is {n}"))) } else { Ok(n as usize) }
}

/// Whether a key of config.json changes nothing.
fn is_ignored(key: &str) -> bool {
    IGNORED.contains(&key) || IGNORED_BEGINNINGS.iter().any(|beginning| key.starts_with(beginning))
}

/// Whether a key with that value asks for nothing.
fn is_idle(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(on) => IDLE.contains(&(key, *on)),
        _ => false,
    }
}

/// Whether a key of GGUF with that value asks for nothing: in llama.cpp what is not there is 0, but for this one flag.
fn is_idle_gguf(key: &str, value: &gguf::Value) -> bool {
    match value {
        gguf::Value::Bool(on) => *on == (key == "attention.causal"),
        gguf::Value::F32(x) => *x == 0.0,
        gguf::Value::F64(x) => *x == 0.0,
        gguf::Value::Str(text) => text.is_empty(),
        gguf::Value::Array(list) => (0..list.len()).all(|i| list.int(i) == Some(0) || list.bool(i) == Some(false)),
        _ => value.as_int() == Some(0),
    }
}

/// A whole number of config.json, which some write with a fraction of nothing.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().filter(|x| x.fract() == 0.0 && (0.0..9e15).contains(x)).map(|x| x as u64))
}

/// Keys of vision and audio towers in the same file as the language model: they are left out.
const GGUF_TOWERS: &[&str] = &["vision.", "audio.", "mm.", "projector."];

/// `x`, if it is finite and positive.
pub fn positive(x: f64, key: &str) -> Result<f64> {
    if x.is_finite() && x > 0.0 {
        Ok(x)
    } else {
        Err(Error::bad_model(format!("{key} is {x}, it must be a positive number")))
    }
}
