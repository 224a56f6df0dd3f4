//! The language model of Qwen3-VL: Qwen 3. Of text all three coordinates of a position are the same, and its rotations are the plain ones.

use super::config::ModelConfig;
use super::keys::Keys;
use super::names::{self, TensorNames};
use super::{Architecture, qwen3};
use crate::error::Result;

pub const QWEN3_VL: Architecture = Architecture { file: file!(), gguf: "qwen3vl", hf: &["Qwen3VLForConditionalGeneration"], read, names: &NAMES };

const NAMES: TensorNames = TensorNames { prefixes: &[("", "model.language_model."), ("", "model.")], ignored: &["model.visual.", "visual."], ..names::LLAMA };

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    // Which features of pictures go to which layers, and how positions of pictures are split.
    keys.ignore_gguf(&["n_deepstack_layers", "rope.dimension_sections"]);
    qwen3::attention(keys, ModelConfig::read_rms(keys, "qwen3vl")?)
}
