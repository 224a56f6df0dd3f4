//! Sizes and constants of a Llama-like model, read strictly from GGUF metadata or config.json: a key that this version does not know is an
//! error that names it, since it may change what the model computes.

use serde_json::{Map, Value};

use super::rope::{Rope, Scaling};
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata, gguf};
use crate::plan::Heads;

/// Sizes and constants of a model.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// The architecture, by GGUF's name.
    pub architecture: &'static str,
    /// Number of layers.
    pub layers: usize,
    /// Model width, D.
    pub width: usize,
    /// Feed-forward width, F.
    pub ff: usize,
    /// Vocabulary, V.
    pub vocab: usize,
    /// Heads.
    pub heads: Heads,
    /// Epsilon of RMSNorm.
    pub eps: f64,
    /// Positions the model was trained for, C.
    pub context: u32,
    /// Rotary positions.
    pub rope: Rope,
    /// Positions that a row sees, its own the last; `None`: all before it.
    pub window: Option<u32>,
    /// Whether the head is the embedding; `None` where the file does not say.
    pub tied: Option<bool>,
}

/// Upper bound on any size in a configuration: larger ones are errors, and products of two of them fit into 64 bits.
const MOST: u64 = 1 << 24;

const GGUF_KEYS: &[&str] = &[
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "vocab_size",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
];

const HF_KEYS: &[&str] = &[
    "num_hidden_layers",
    "hidden_size",
    "intermediate_size",
    "vocab_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "rms_norm_eps",
    "max_position_embeddings",
    "sliding_window",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "tie_word_embeddings",
    "hidden_act",
    "attention_bias",
    "mlp_bias",
];

/// Keys of config.json that change nothing in what is computed here: training, bookkeeping, the tokenizer's (read elsewhere).
const HF_IGNORED: &[&str] = &[
    "_name_or_path",
    "architectures",
    "model_type",
    "attention_dropout",
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
    "return_dict",
    "output_attentions",
    "output_hidden_states",
    "is_llama_config",
    "rope_interleaved",
    "transformers.js_config",
    "quantization_config",
    "id2label",
    "label2id",
    "problem_type",
    "chunk_size_feed_forward",
    "is_encoder_decoder",
];

impl ModelConfig {
    /// Reads the configuration of architecture `gguf_name` or its Hugging Face sibling, and checks that the sizes make sense together.
    pub fn read(checkpoint: &Checkpoint, gguf_name: &'static str) -> Result<Self> {
        let config = match &checkpoint.metadata {
            Metadata::Gguf(metadata) => from_gguf(checkpoint, metadata, gguf_name)?,
            Metadata::Hf(metadata) => from_hf(&metadata.config, gguf_name)?,
        };
        let Heads { h, g, e } = config.heads;
        let wrong = |what: String| Err(Error::bad_model(format!("configuration: {what}")));
        for (name, n) in [
            ("layers", config.layers),
            ("width", config.width),
            ("feed-forward width", config.ff),
            ("vocabulary", config.vocab),
            ("heads", h),
            ("kv heads", g),
            ("head width", e),
            ("context", config.context as usize),
        ] {
            if n == 0 || n as u64 > MOST {
                return wrong(format!("{name} is {n}"));
            }
        }
        if !h.is_multiple_of(g) {
            return wrong(format!("{h} query heads cannot share {g} kv heads"));
        }
        if !e.is_multiple_of(4) || e > 256 {
            return wrong(format!("head width {e}; this version runs multiples of 4 up to 256"));
        }
        if config.rope.dims == 0 || config.rope.dims > e || !config.rope.dims.is_multiple_of(2) {
            return wrong(format!("{} rotated elements of a head of {e}", config.rope.dims));
        }
        if !(config.rope.base.is_finite() && config.rope.base > 1.0 && config.eps.is_finite() && config.eps >= 0.0) {
            return wrong(format!("RoPE base {} or RMSNorm epsilon {} is out of range", config.rope.base, config.eps));
        }
        if !matches!(config.rope.scaling, Scaling::Divisors(_)) {
            config.rope.inverse_frequencies()?;
        }
        Ok(config)
    }
}

fn size(n: u64, key: &str) -> Result<usize> {
    if n == 0 || n > MOST { Err(Error::bad_model(format!("{key} is {n}"))) } else { Ok(n as usize) }
}

fn from_gguf(checkpoint: &Checkpoint, m: &gguf::Metadata, name: &'static str) -> Result<ModelConfig> {
    let prefix = format!("{name}.");
    for (key, _) in m.iter() {
        if let Some(rest) = key.strip_prefix(&prefix)
            && !GGUF_KEYS.contains(&rest)
        {
            return Err(Error::unsupported(format!("metadata key {key} is not known to this version, and it may change what the model computes")));
        }
    }
    let key = |k: &str| format!("{name}.{k}");
    let int = |k: &str| m.u64(&key(k)).and_then(|n| size(n, &key(k)));
    let opt = |k: &str| m.opt::<u64>(&key(k))?.map(|n| size(n, &key(k))).transpose();
    let (width, h) = (int("embedding_length")?, int("attention.head_count")?);
    let e = match opt("attention.key_length")? {
        Some(e) => e,
        None if width.is_multiple_of(h) => width / h,
        None => return Err(Error::bad_model(format!("{} heads do not divide the width {width}, and {} is missing", h, key("attention.key_length")))),
    };
    if opt("attention.value_length")?.is_some_and(|v| v != e) {
        return Err(Error::unsupported("heads whose values are not as wide as their keys"));
    }
    let scaling = match m.opt::<&str>(&key("rope.scaling.type"))? {
        None | Some("none") => Scaling::None,
        Some("linear") => Scaling::Linear { factor: positive(f64::from(m.f32(&key("rope.scaling.factor"))?), "rope.scaling.factor")? },
        Some(other) => return Err(Error::unsupported(format!("{} {other:?}; this version knows none and linear", key("rope.scaling.type")))),
    };
    // llama.cpp's converter stores Llama 3.1's scaling as a tensor of divisors; the loader of the model fills it in.
    let scaling = if checkpoint.tensors.contains_key(ROPE_FREQS) { Scaling::Divisors(Vec::new()) } else { scaling };
    // The embedding's rows are the vocabulary; the key is missing from many files.
    let vocab = match (opt("vocab_size")?, checkpoint.tensors.get("token_embd.weight").map(|t| t.shape.as_slice())) {
        (Some(v), _) => v,
        (None, Some([rows, _])) => size(*rows, "rows of token_embd.weight")?,
        (None, _) => return Err(Error::bad_model("tensor token_embd.weight is missing or is no matrix")),
    };
    Ok(ModelConfig {
        architecture: name,
        layers: int("block_count")?,
        width,
        ff: int("feed_forward_length")?,
        vocab,
        heads: Heads { h, g: opt("attention.head_count_kv")?.unwrap_or(h), e },
        eps: f64::from(m.f32(&key("attention.layer_norm_rms_epsilon"))?),
        context: int("context_length")? as u32,
        rope: Rope {
            base: m.opt::<f32>(&key("rope.freq_base"))?.map_or(10_000.0, f64::from),
            dims: opt("rope.dimension_count")?.unwrap_or(e),
            interleaved: true,
            scaling,
        },
        window: None,
        tied: None,
    })
}

/// The tensor in which GGUF files keep the divisors of Llama 3.1's scaling.
pub const ROPE_FREQS: &str = "rope_freqs.weight";

fn positive(x: f64, key: &str) -> Result<f64> {
    if x.is_finite() && x > 0.0 { Ok(x) } else { Err(Error::bad_model(format!("{key} is {x}, it must be a positive number"))) }
}

fn from_hf(c: &Map<String, Value>, name: &'static str) -> Result<ModelConfig> {
    if let Some(key) = c.keys().find(|k| !HF_KEYS.contains(&k.as_str()) && !HF_IGNORED.contains(&k.as_str())) {
        return Err(Error::unsupported(format!("config.json: key {key} is not known to this version, and it may change what the model computes")));
    }
    let get = |k: &str| c.get(k).filter(|v| !v.is_null());
    let int = |k: &str| match get(k) {
        Some(v) => v.as_u64().ok_or_else(|| Error::bad_model(format!("config.json: {k} is no whole number"))).and_then(|n| size(n, k)).map(Some),
        None => Ok(None),
    };
    let need = |k: &str| int(k)?.ok_or_else(|| Error::bad_model(format!("config.json: {k} is missing")));
    let flag = |k: &str| match get(k) {
        Some(v) => v.as_bool().map(Some).ok_or_else(|| Error::bad_model(format!("config.json: {k} is neither true nor false"))),
        None => Ok(None),
    };
    for bias in ["attention_bias", "mlp_bias"] {
        if flag(bias)? == Some(true) {
            return Err(Error::unsupported(format!("config.json: {bias} true; this version runs {name} without biases")));
        }
    }
    if let Some(act) = get("hidden_act")
        && act != "silu"
    {
        return Err(Error::unsupported(format!("config.json: hidden_act {act}; this version runs silu")));
    }
    let window = int("sliding_window")?.map(|w| w as u32);
    // transformers ignores the key in a Llama's configuration; whoever wrote it there meant something.
    if window.is_some() && c.get("architectures").and_then(|a| a.get(0)).and_then(Value::as_str) != Some("MistralForCausalLM") {
        return Err(Error::unsupported(format!("config.json: sliding_window; this version runs it for MistralForCausalLM, not for {name}")));
    }
    let (width, h) = (need("hidden_size")?, need("num_attention_heads")?);
    let e = match int("head_dim")? {
        Some(e) => e,
        None if width.is_multiple_of(h) => width / h,
        None => return Err(Error::bad_model(format!("config.json: {h} heads do not divide the width {width}, and head_dim is missing"))),
    };
    // transformers 5 writes rope_parameters, which holds what rope_theta and rope_scaling held before.
    let object = |k: &str| match get(k) {
        Some(v) => v.as_object().map(Some).ok_or_else(|| Error::bad_model(format!("config.json: {k} is no object"))),
        None => Ok(None),
    };
    let rope = match object("rope_parameters")? {
        Some(parameters) => Some(parameters),
        None => object("rope_scaling")?,
    };
    let theta = rope.and_then(|r| r.get("rope_theta")).or(get("rope_theta"));
    let base = match theta {
        Some(v) => v.as_f64().ok_or_else(|| Error::bad_model("config.json: rope_theta is no number"))?,
        None => 10_000.0,
    };
    Ok(ModelConfig {
        architecture: name,
        layers: need("num_hidden_layers")?,
        width,
        ff: need("intermediate_size")?,
        vocab: need("vocab_size")?,
        heads: Heads { h, g: int("num_key_value_heads")?.unwrap_or(h), e },
        eps: get("rms_norm_eps").and_then(Value::as_f64).ok_or_else(|| Error::bad_model("config.json: rms_norm_eps is missing or no number"))?,
        context: int("max_position_embeddings")?.unwrap_or(2048) as u32,
        rope: Rope { base, dims: e, interleaved: false, scaling: rope.map_or(Ok(Scaling::None), hf_scaling)? },
        window,
        tied: Some(flag("tie_word_embeddings")?.unwrap_or(false)),
    })
}

fn hf_scaling(r: &Map<String, Value>) -> Result<Scaling> {
    const KNOWN: &[&str] = &["rope_type", "type", "rope_theta", "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"];
    if let Some(key) = r.keys().find(|k| !KNOWN.contains(&k.as_str())) {
        return Err(Error::unsupported(format!("config.json: RoPE key {key} is not known to this version")));
    }
    let number = |k: &str| {
        r.get(k).and_then(Value::as_f64).ok_or_else(|| Error::bad_model(format!("config.json: RoPE {k} is missing or no number"))).and_then(|x| positive(x, k))
    };
    match r.get("rope_type").or(r.get("type")).and_then(Value::as_str) {
        None | Some("default") => Ok(Scaling::None),
        Some("linear") => Ok(Scaling::Linear { factor: number("factor")? }),
        Some("llama3") => Ok(Scaling::Llama3 {
            factor: number("factor")?,
            low_freq_factor: number("low_freq_factor")?,
            high_freq_factor: number("high_freq_factor")?,
            original_context: number("original_max_position_embeddings")?,
        }),
        Some(other) => Err(Error::unsupported(format!("config.json: rope_type {other:?}; this version knows default, linear and llama3"))),
    }
}

/// The checkpoint's names of tensors: llama.cpp's, or those of transformers. Everywhere else the former are used.
pub struct Names {
    gguf: bool,
}

/// (llama.cpp's name, transformers' name) of a layer's tensors.
const LAYER: &[(&str, &str)] = &[
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

impl Names {
    /// The names that this checkpoint uses.
    pub fn of(checkpoint: &Checkpoint) -> Self {
        Self { gguf: matches!(checkpoint.metadata, Metadata::Gguf(_)) }
    }

    /// Hugging Face's names.
    pub fn hf() -> Self {
        Self { gguf: false }
    }

    fn pick(&self, gguf: &str, hf: &str) -> String {
        if self.gguf { gguf.into() } else { hf.into() }
    }

    /// `[V, D]`
    pub fn embed(&self) -> String {
        self.pick("token_embd.weight", "model.embed_tokens.weight")
    }
    /// `[D]`
    pub fn norm(&self) -> String {
        self.pick("output_norm.weight", "model.norm.weight")
    }
    /// `[V, D]`; missing where the embedding is tied.
    pub fn head(&self) -> String {
        self.pick("output.weight", "lm_head.weight")
    }
    /// A layer's tensor, by llama.cpp's name for the part.
    pub fn layer(&self, layer: usize, part: &str) -> String {
        let hf = LAYER.iter().find(|(gguf, _)| *gguf == part).map_or(part, |(_, hf)| hf);
        if self.gguf { format!("blk.{layer}.{part}.weight") } else { format!("model.layers.{layer}.{hf}.weight") }
    }

    /// Every tensor of the checkpoint must be one of `used`: one that nobody reads would change what the model computes.
    pub fn check_all_used(&self, checkpoint: &Checkpoint, used: &[String]) -> Result<()> {
        let used: std::collections::HashSet<&str> = used.iter().map(String::as_str).collect();
        // Old checkpoints carry the frequencies, which follow from the configuration.
        let ignored = |name: &str| name == ROPE_FREQS || name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn_rot_embd.weight");
        match checkpoint.tensors.keys().find(|name| !used.contains(name.as_str()) && !ignored(name)) {
            Some(name) => Err(Error::unsupported(format!("tensor {name} is not part of this architecture as this version knows it"))),
            None => Ok(()),
        }
    }
}
