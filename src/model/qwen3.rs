//! Qwen3: Llama with a norm of each query and key; heads need not be as wide as the model over their number.

use super::config::{Biases, ModelConfig, QkNorm};
use super::keys::Keys;
use super::{Architecture, names, qwen2};
use crate::error::Result;

pub const QWEN3: Architecture =
    Architecture { file: file!(), gguf: "qwen3", hf: &["Qwen3ForCausalLM", "Qwen3Model"], read, names: &names::LLAMA };

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    attention(keys, ModelConfig::read_rms(keys, "qwen3")?)
}

/// Qwen3's attention, which its mixture of experts shares.
pub(super) fn attention(keys: &Keys<'_>, mut c: ModelConfig) -> Result<ModelConfig> {
    c.qk_norm = QkNorm::Each;
    let bias = keys.flag("", "attention_bias")?.unwrap_or(false);
    c.biases = Biases { qkv: bias, output: bias, ff: false, experts: false };
    qwen2::windows(keys, &mut c)?;
    Ok(c)
}
