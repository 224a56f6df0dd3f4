//! Llama, and what files call so: SmolLM, TinyLlama, Falcon 3, Yi. Also Mistral and Ministral, whose only difference is a sliding window.

use super::config::{Biases, ModelConfig};
use super::keys::Keys;
use super::{Architecture, names};
use crate::error::{Error, Result};

pub const LLAMA: Architecture = Architecture { file: file!(), gguf: "llama", hf: &["LlamaForCausalLM", "MistralForCausalLM"], read, names: &names::LLAMA };

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = ModelConfig::read_rms(keys, "llama")?;
    c.reordered(keys);
    if keys.is_gguf() {
        let has = |part: &str| keys.has_tensor(&format!("blk.0.{part}.bias"));
        c.biases = Biases { qkv: has("attn_q"), output: has("attn_output"), ff: has("ffn_down"), experts: false };
        if keys.size("expert_count", "")?.is_some() {
            return Err(Error::unsupported("llama.expert_count: Mixtral's experts; this version runs those of qwen3moe and granitemoe"));
        }
        return Ok(c);
    }
    let attention = keys.flag("", "attention_bias")?.unwrap_or(false);
    c.biases = Biases { qkv: attention, output: attention, ff: keys.flag("", "mlp_bias")?.unwrap_or(false), experts: false };
    let window = keys.size("", "sliding_window")?;
    // transformers ignores the key in a Llama's configuration; whoever wrote it there meant something.
    if window.is_some() && !keys.is_hf_class("MistralForCausalLM") {
        return Err(Error::unsupported("config.json: sliding_window; this version runs it for MistralForCausalLM, not for LlamaForCausalLM"));
    }
    c.set_windows(keys, window, |_| window.is_some())?;
    Ok(c)
}
