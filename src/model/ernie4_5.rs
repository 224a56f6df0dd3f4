//! ERNIE 4.5, the dense ones: Llama that rotates neighbours.

use super::config::{Biases, ModelConfig};
use super::keys::Keys;
use super::{Architecture, names};
use crate::error::Result;

pub const ERNIE4_5: Architecture = Architecture {
    file: file!(),
    gguf: "ernie4_5",
    hf: &["Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"],
    read,
    names: &names::LLAMA,
};

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = ModelConfig::read_rms(keys, "ernie4_5")?;
    c.ropes[0].interleaved = true;
    let bias = keys.flag("", "use_bias")?.unwrap_or(false);
    c.biases = Biases { qkv: bias, output: bias, ff: bias, experts: false };
    Ok(c)
}
