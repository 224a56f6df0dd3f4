//! EXAONE 4: norms of what a layer adds, and of each head's queries and keys. Where some layers have a window, only
//! these rotate.

use super::Architecture;
use super::config::{ModelConfig, NO_ROPE, Norms, QkNorm};
use super::keys::Keys;
use super::olmo2;
use crate::error::Result;

pub const EXAONE4: Architecture =
    Architecture { file: file!(), gguf: "exaone4", hf: &["Exaone4ForCausalLM"], read, names: &olmo2::NAMES };

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = ModelConfig::read_rms(keys, "exaone4")?;
    c.norms = Norms::After;
    c.qk_norm = QkNorm::Each;
    // As in llama.cpp: of the published models those of 64 layers have windows, whether or not a file says so.
    let window = match keys.size_above_0("attention.sliding_window", "sliding_window")? {
        None if keys.is_gguf() && c.layers.len() == 64 => Some(4096),
        window => window,
    };
    // The pattern, a number or letters, is what layer_types says of each layer.
    keys.ignore(&["sliding_window_pattern"]);
    let pattern = keys.flags("attention.sliding_window_pattern", c.layers.len())?;
    c.set_windows(keys, window, |i| window.is_some() && pattern.as_ref().map_or((i + 1) % 4 != 0, |slides| slides[i]))?;
    if window.is_some() {
        c.ropes[0].base = keys.positive("rope.freq_base_swa", "")?.unwrap_or(c.ropes[0].base);
        for layer in c.layers.iter_mut().filter(|layer| layer.window.is_none()) {
            layer.rope = NO_ROPE;
        }
    }
    Ok(c)
}
