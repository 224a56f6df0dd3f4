//! OLMo 2: norms of what a layer adds, not of what it reads, and of all queries and of all keys. OLMo 3 has windows in
//! three of four layers, and stretches rotations in the others alone.

use serde_json::json;

use super::Architecture;
use super::config::{ModelConfig, Norms, QkNorm};
use super::keys::Keys;
use super::names::{self, TensorNames};
use super::rope::{Rope, Scaling};
use crate::error::Result;

pub const OLMO2: Architecture =
    Architecture { file: file!(), gguf: "olmo2", hf: &["Olmo2ForCausalLM", "Olmo3ForCausalLM"], read, names: &NAMES };

pub(super) const NAMES: TensorNames = TensorNames {
    layer: &[("post_attention_norm", "post_attention_layernorm"), ("post_ffw_norm", "post_feedforward_layernorm")],
    ..names::LLAMA
};

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = ModelConfig::read_rms(keys, "olmo2")?;
    keys.must_be("attention_bias", &json!(false))?;
    c.norms = Norms::After;
    c.qk_norm = QkNorm::All;
    let window = keys.size_above_0("attention.sliding_window", "sliding_window")?;
    let pattern = keys.flags("attention.sliding_window_pattern", c.layers.len())?;
    c.set_windows(keys, window, |i| window.is_some() && pattern.as_ref().map_or((i + 1) % 4 != 0, |slides| slides[i]))?;
    if c.layers.iter().any(|layer| layer.window.is_some()) {
        let local = match Rope::by_kind(keys, &c)? {
            Some((full, sliding)) => {
                c.ropes[0] = full;
                sliding
            }
            None => {
                let base = keys.positive("rope.freq_base_swa", "")?.unwrap_or(c.ropes[0].base);
                Rope { base, scaling: Scaling::None, factor: 1.0, ..c.ropes[0].clone() }
            }
        };
        c.ropes.push(local);
        for layer in &mut c.layers {
            layer.rope = usize::from(layer.window.is_some());
        }
    }
    Ok(c)
}
