//! Granite 3: Llama with four factors: of the embedding, of what layers add, of scores, and of logits.

use serde_json::json;

use super::config::ModelConfig;
use super::keys::Keys;
use super::{Architecture, names};
use crate::error::Result;

pub const GRANITE: Architecture = Architecture { gguf: "granite", hf: &["GraniteForCausalLM"], read, names: &names::LLAMA };

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = ModelConfig::read_rms(keys, "granite")?;
    keys.must_be("mlp_bias", &json!(false))?;
    factors(keys, &mut c)?;
    Ok(c)
}

/// The factors, and llama.cpp's order of rows.
pub(super) fn factors(keys: &Keys<'_>, c: &mut ModelConfig) -> Result<()> {
    keys.must_be("attention_bias", &json!(false))?;
    c.ropes[0].interleaved = keys.is_gguf();
    let embed = keys.positive("embedding_scale", "embedding_multiplier")?.unwrap_or(1.0);
    let residual = keys.positive("residual_scale", "residual_multiplier")?.unwrap_or(1.0);
    let scores = keys.positive("attention.scale", "attention_multiplier")?;
    let logits = keys.positive("logit_scale", "logits_scaling")?.unwrap_or(1.0);
    // transformers' default is 1, llama.cpp's the usual root.
    c.score_scale = scores.unwrap_or(if keys.is_gguf() { c.score_scale } else { 1.0 });
    // A residual stream whose layers add r f(norm(x)) is r times one whose layers add f(norm(x)): it begins with the embedding over r, and
    // the norms, which do not see the factor otherwise, have their epsilon over r^2.
    c.embed_scale = embed / residual;
    c.eps /= residual * residual;
    c.logit_scale = 1.0 / logits;
    Ok(())
}
