//! Ministral 3: Llama with YaRN that does not sharpen scores, and queries that grow with the logarithm of their
//! position beyond the original context. Of checkpoints that read pictures, too, the language model is read.

use super::config::ModelConfig;
use super::keys::Keys;
use super::names::TensorNames;
use super::{Architecture, gemma3, names};
use crate::error::{Error, Result};

pub const MISTRAL3: Architecture = Architecture {
    file: file!(),
    gguf: "mistral3",
    hf: &["Mistral3ForConditionalGeneration", "Ministral3ForCausalLM"],
    read,
    names: &NAMES,
};

const NAMES: TensorNames =
    TensorNames { prefixes: gemma3::NAMES.prefixes, ignored: gemma3::NAMES.ignored, ..names::LLAMA };

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = ModelConfig::read_rms(keys, "mistral3")?;
    c.reordered(keys);
    if keys.size("", "sliding_window")?.is_some() {
        return Err(Error::unsupported("config.json: sliding_window; this version runs Ministral 3 without windows"));
    }
    Ok(c)
}
