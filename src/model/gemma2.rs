//! Gemma 2: norms around both halves of a layer, capped scores and logits, a window in every second layer, scaled
//! embeddings.

use serde_json::json;

use super::Architecture;
use super::config::{ModelConfig, Norms, activation};
use super::gemma3;
use super::keys::Keys;
use super::names::{self, TensorNames};
use crate::error::Result;
use crate::plan::Activation;

pub const GEMMA2: Architecture =
    Architecture { file: file!(), gguf: "gemma2", hf: &["Gemma2ForCausalLM"], read, names: &NAMES };

pub(super) const NAMES: TensorNames = TensorNames {
    layer: &[
        ("post_attention_norm", "post_attention_layernorm"),
        ("ffn_norm", "pre_feedforward_layernorm"),
        ("post_ffw_norm", "post_feedforward_layernorm"),
    ],
    ..names::LLAMA
};

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = common(keys, "gemma2")?;
    // Where a file does not say, the published models' window and caps.
    let window = keys.size("attention.sliding_window", "sliding_window")?.or(Some(4096));
    // An older word for the same, which transformers does not read.
    keys.ignore(&["sliding_window_size"]);
    let pattern = keys.flags("attention.sliding_window_pattern", c.layers.len())?;
    c.set_windows(keys, window, |i| pattern.as_ref().map_or(i % 2 == 0, |slides| slides[i]))?;
    c.set_base_of_windows(keys)?;
    c.score_cap = caps(keys, "attn_logit_softcapping")?.unwrap_or(50.0);
    c.logit_cap = caps(keys, "final_logit_softcapping")?.unwrap_or(30.0);
    Ok(c)
}

/// A cap, 0 where config.json switches it off by null.
fn caps(keys: &Keys<'_>, key: &str) -> Result<Option<f64>> {
    if keys.is_null(key) { Ok(Some(0.0)) } else { keys.number(key, key) }
}

/// What all Gemmas have in common.
pub(super) fn common(keys: &Keys<'_>, architecture: &'static str) -> Result<ModelConfig> {
    let mut c = ModelConfig::read_rms(keys, architecture)?;
    // `hidden_act` is an older key that transformers does not read.
    c.mlp.activation = keys.text("", "hidden_activation")?.map_or(Ok(Activation::GeluTanh), activation)?;
    keys.must_be("attention_bias", &json!(false))?;
    keys.must_be("use_bidirectional_attention", &json!(architecture == gemma3::EMBEDDING))?;
    c.norms = Norms::Around;
    // transformers stores how far weights are from 1, llama.cpp the weights.
    c.norm_offset = if keys.is_gguf() { 0.0 } else { 1.0 };
    c.embed_scale = (c.width as f64).sqrt();
    c.tied = if keys.is_gguf() { None } else { Some(keys.flag("", "tie_word_embeddings")?.unwrap_or(true)) };
    // GGUF has no key for it; of the published models only those of 27 billion parameters differ, by their sizes.
    let of_heads = if c.layers.len() == 46 || c.layers.len() == 62 { c.width / c.heads.h } else { c.heads.e };
    let scalar =
        keys.positive("", "query_pre_attn_scalar")?.unwrap_or(if keys.is_gguf() { of_heads as f64 } else { 256.0 });
    c.score_scale = scalar.sqrt().recip();
    Ok(c)
}
