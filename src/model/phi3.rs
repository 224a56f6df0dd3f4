//! Phi-3, Phi-3.5 and Phi-4-mini: Llama with queries, keys and values in one tensor and gates and up rows in another,
//! LongRoPE, and in Phi-4-mini heads that are rotated in part.

use super::config::{ModelConfig, Stored};
use super::keys::Keys;
use super::{Architecture, names};
use crate::error::Result;
use serde_json::json;

pub const PHI3: Architecture =
    Architecture { file: file!(), gguf: "phi3", hf: &["Phi3ForCausalLM"], read, names: &names::LLAMA };

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = ModelConfig::read_rms(keys, "phi3")?;
    c.stored = Stored { qkv: true, gate_up: true, ..Stored::default() };
    let window = keys.size_above_0("attention.sliding_window", "sliding_window")?;
    c.set_windows(keys, window, |_| window.is_some())?;
    for bias in ["attention_bias", "mlp_bias", "lm_head_bias"] {
        keys.must_be(bias, &json!(false))?;
    }
    keys.must_be("full_attn_mod", &json!(1))?;
    keys.ignore(&["interpolate_factor"]);
    Ok(c)
}
