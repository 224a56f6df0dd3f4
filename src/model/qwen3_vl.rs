//! The language model of Qwen3-VL: Qwen 3, with positions that have three axes. Of text all three are the same.

use super::config::ModelConfig;
use super::keys::Keys;
use super::names::{self, TensorNames};
use super::{Architecture, qwen3};
use crate::error::{Error, Result};

pub const QWEN3_VL: Architecture =
    Architecture { file: file!(), gguf: "qwen3vl", hf: &["Qwen3VLForConditionalGeneration"], read, names: &NAMES };

const NAMES: TensorNames = TensorNames {
    prefixes: &[("", "model.language_model."), ("", "model.")],
    ignored: &["model.visual.", "visual."],
    ..names::LLAMA
};

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = ModelConfig::read_rms(keys, "qwen3vl")?;
    c.ropes[0].read_axes(keys, true)?;
    c.deepstack = match keys.outer("vision_config") {
        Some(tower) => tower.get("deepstack_visual_indexes").and_then(|layers| layers.as_array()).map_or(0, Vec::len),
        None => keys.count_of_gguf("n_deepstack_layers")?.unwrap_or(0),
    };
    if c.deepstack > c.layers.len() {
        return Err(Error::bad_model(format!(
            "configuration: features of pictures for {} layers of {}",
            c.deepstack,
            c.layers.len()
        )));
    }
    qwen3::attention(keys, c)
}
