//! SmolLM3: Llama with layers that do not rotate, every fourth.

use serde_json::json;

use super::config::{Biases, ModelConfig, NO_ROPE};
use super::keys::Keys;
use super::{Architecture, names};
use crate::error::{Error, Result};

pub const SMOLLM3: Architecture =
    Architecture { file: file!(), gguf: "smollm3", hf: &["SmolLM3ForCausalLM"], read, names: &names::LLAMA };

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = ModelConfig::read_rms(keys, "smollm3")?;
    c.reordered(keys);
    let bias = keys.flag("", "attention_bias")?.unwrap_or(false);
    c.biases = Biases { qkv: bias, output: bias, ff: keys.flag("", "mlp_bias")?.unwrap_or(false), experts: false };
    keys.must_be("use_sliding_window", &json!(false))?;
    keys.ignore(&["max_window_layers"]);
    let window = keys.size("", "sliding_window")?;
    c.set_windows(keys, window, |_| false)?;
    // Of each layer, whether it rotates. GGUF does not say; every checkpoint has it so.
    let rotates = keys.counts("no_rope_layers")?;
    let interval = keys.size("", "no_rope_layer_interval")?.unwrap_or(4);
    if let Some(list) = &rotates
        && (list.len() < c.layers.len() || list.iter().any(|n| *n > 1))
    {
        return Err(Error::bad_model(format!(
            "config.json: no_rope_layers should have a 0 or 1 for each of {} layers",
            c.layers.len()
        )));
    }
    for (i, layer) in c.layers.iter_mut().enumerate() {
        if !rotates.as_ref().map_or((i + 1) % interval != 0, |list| list[i] == 1) {
            layer.rope = NO_ROPE;
        }
    }
    Ok(c)
}
