//! OLMo 2: norms of what a layer adds, not of what it reads, and of all queries and of all keys.

use serde_json::json;

use super::Architecture;
use super::config::{ModelConfig, Norms, QkNorm};
use super::keys::Keys;
use super::names::{self, HfNames};
use crate::error::Result;

pub const OLMO2: Architecture = Architecture { gguf: "olmo2", hf: &["Olmo2ForCausalLM"], read, names: &NAMES };

const NAMES: HfNames =
    HfNames { layer: &[("post_attention_norm", "post_attention_layernorm"), ("post_ffw_norm", "post_feedforward_layernorm")], ..names::LLAMA };

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = ModelConfig::read_rms(keys, "olmo2")?;
    keys.must_be("attention_bias", &json!(false))?;
    c.norms = Norms::After;
    c.qk_norm = QkNorm::All;
    Ok(c)
}
