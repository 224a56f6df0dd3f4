//! Qwen2 and Qwen2.5: Llama with biases of queries, keys and values.

use super::config::{Biases, ModelConfig};
use super::keys::Keys;
use super::{Architecture, names};
use crate::error::Result;

pub const QWEN2: Architecture =
    Architecture { file: file!(), gguf: "qwen2", hf: &["Qwen2ForCausalLM"], read, names: &names::LLAMA };

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = ModelConfig::read_rms(keys, "qwen2")?;
    c.biases = Biases { qkv: true, ..Biases::default() };
    windows(keys, &mut c)?;
    Ok(c)
}

/// Qwen's windows, which published configurations name and switch off: from layer `max_window_layers` on.
pub(super) fn windows(keys: &Keys<'_>, c: &mut ModelConfig) -> Result<()> {
    let window = keys.size("", "sliding_window")?;
    let first = keys.count("max_window_layers")?;
    let on = keys.flag("", "use_sliding_window")?.unwrap_or(false);
    c.set_windows(keys, window, |i| on && window.is_some() && i >= first.unwrap_or(28))
}
