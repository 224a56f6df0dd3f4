//! GLM-4 9B, as of 0414: norms around, half of each head rotated, neighbours together.

use super::Architecture;
use super::config::{Biases, ModelConfig, Norms, Stored};
use super::keys::Keys;
use super::names::{self, TensorNames};
use crate::error::Result;

pub const GLM4: Architecture =
    Architecture { file: file!(), gguf: "glm4", hf: &["Glm4ForCausalLM"], read, names: &NAMES };

const NAMES: TensorNames = TensorNames {
    layer: &[("post_attention_norm", "post_self_attn_layernorm"), ("post_ffw_norm", "post_mlp_layernorm")],
    ..names::LLAMA
};

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = ModelConfig::read_rms(keys, "glm4")?;
    c.ropes[0].interleaved = true;
    c.norms = Norms::Around;
    let bias = match keys.is_gguf() {
        true => keys.has_tensor("blk.0.attn_q.bias"),
        false => keys.flag("", "attention_bias")?.unwrap_or(true),
    };
    c.biases = Biases { qkv: bias, ..Biases::default() };
    c.stored = Stored { gate_up: true, ..Stored::default() };
    Ok(c)
}
