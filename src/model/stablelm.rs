//! StableLM 2 (1.6B, Zephyr): Llama with LayerNorm, biases of queries, keys and values, and heads that are rotated in
//! part.

use serde_json::json;

use super::config::{Biases, ModelConfig, NormKind};
use super::keys::Keys;
use super::{Architecture, names};
use crate::error::{Error, Result};

pub const STABLELM: Architecture =
    Architecture { file: file!(), gguf: "stablelm", hf: &["StableLmForCausalLM"], read, names: &names::LLAMA };

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    // What transformers takes where a configuration does not say.
    keys.defaults(&[("partial_rotary_factor", 0.25)]);
    let mut c = ModelConfig::read(keys, "stablelm", ("attention.layer_norm_epsilon", "layer_norm_eps"))?;
    c.norm = NormKind::Layer;
    keys.must_be("qk_layernorm", &json!(false))?;
    if keys.flag("use_parallel_residual", "use_parallel_residual")?.unwrap_or(false) {
        return Err(Error::unsupported(
            "StableLM with a parallel residual stream (12B); this version runs 1.6B and 3B",
        ));
    }
    let biased = if keys.is_gguf() {
        keys.has_tensor("blk.0.attn_q.bias")
    } else {
        keys.flag("", "use_qkv_bias")?.unwrap_or(false)
    };
    c.biases = Biases { qkv: biased, ..Biases::default() };
    Ok(c)
}
