//! GLM-4 9B, as of 0414: norms around, half of each head rotated, neighbours together. Also the language model of
//! GLM-OCR, whose heads are rotated whole, by positions that have three axes.

use serde_json::json;

use super::Architecture;
use super::config::{Biases, ModelConfig, Norms, Stored};
use super::keys::Keys;
use super::names::{self, TensorNames};
use crate::error::{Error, Result};
use crate::plan::{Axes, AxesOrder};

pub const GLM4: Architecture = Architecture {
    file: file!(),
    gguf: "glm4",
    hf: &["Glm4ForCausalLM", "GlmOcrForConditionalGeneration"],
    read,
    names: &NAMES,
};

const NAMES: TensorNames = TensorNames {
    // GLM-OCR has the language model beside a vision tower.
    prefixes: &[("", "model."), ("", ""), ("", "model.language_model.")],
    layer: &[("post_attention_norm", "post_self_attn_layernorm"), ("post_ffw_norm", "post_mlp_layernorm")],
    ignored: &["model.visual."],
    ..names::LLAMA
};

/// What transformers has of GLM-OCR where config.json says nothing, of a head of 64.
const AXES: Axes = Axes { rows: 12, columns: 12, order: AxesOrder::Apart };

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let reads_pictures = keys.outer("vision_config").is_some();
    let mut c = ModelConfig::read_rms(keys, "glm4")?;
    // Layers that guess further tokens stand behind the others.
    c.further_layers = keys.size_or_none("nextn_predict_layers", "num_nextn_predict_layers")?;
    if keys.is_gguf() {
        c.layers.truncate(c.layers.len().saturating_sub(c.further_layers));
    }
    let rope = &mut c.ropes[0];
    if keys.counts_of_gguf("rope.dimension_sections")?.is_none_or(|pairs| pairs.iter().any(|n| *n != 0)) {
        rope.read_axes(keys, false)?;
    }
    if reads_pictures && rope.axes.is_none() {
        if rope.dims != 64 {
            return Err(Error::bad_model("config.json: mrope_section of rope_parameters is missing"));
        }
        rope.axes = Some(AXES);
    }
    // llama.cpp's converter reorders rows of queries and keys where positions have axes.
    let reordered = rope.axes.is_some();
    rope.interleaved = !(reordered && keys.is_gguf());
    c.norms = Norms::Around;
    let bias = if keys.is_gguf() {
        keys.has_tensor("blk.0.attn_q.bias")
    } else if reads_pictures {
        keys.must_be("attention_bias", &json!(false))?;
        false
    } else {
        keys.flag("", "attention_bias")?.unwrap_or(true)
    };
    c.biases = Biases { qkv: bias, ..Biases::default() };
    c.stored = Stored { gate_up: true, reordered, ..Stored::default() };
    Ok(c)
}
