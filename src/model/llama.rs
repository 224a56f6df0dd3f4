//! Llama, and what files call so: SmolLM, TinyLlama, Falcon 3, Yi. Also Mistral and Ministral, whose only difference is
//! a sliding window, and the language models of Idefics 3, SmolVLM and Granite-Docling.

use serde_json::json;

use super::Architecture;
use super::config::{Biases, ModelConfig};
use super::keys::Keys;
use super::names::{self, TensorNames};
use crate::error::{Error, Result};

pub const LLAMA: Architecture = Architecture {
    file: file!(),
    gguf: "llama",
    hf: &[
        "LlamaForCausalLM",
        "MistralForCausalLM",
        "Idefics3ForConditionalGeneration",
        "SmolVLMForConditionalGeneration",
    ],
    read,
    names: &NAMES,
};

const NAMES: TensorNames = TensorNames {
    // Idefics 3 has the language model beside a vision tower.
    prefixes: &[("", "model."), ("", "model.text_model."), ("", "")],
    ignored: &["model.vision_model.", "model.connector."],
    ..names::LLAMA
};

/// What transformers has of a Llama where config.json says nothing: those of Idefics 3's kin leave out what is so.
const DEFAULTS: &[(&str, f64)] = &[
    ("hidden_size", 4096.0),
    ("intermediate_size", 11008.0),
    ("num_hidden_layers", 32.0),
    ("num_attention_heads", 32.0),
    ("rms_norm_eps", 1e-6),
    ("vocab_size", 32000.0),
];

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let reads_pictures = keys.outer("text_config").is_some();
    if reads_pictures {
        keys.defaults(DEFAULTS);
        // Of another way to make rows of patches, which no published model goes.
        keys.must_be("use_resampler", &json!(false))?;
        keys.must_be("qk_layer_norms", &json!(false))?;
        keys.ignore(&["perceiver_config", "pixel_shuffle_factor"]);
    }
    let mut c = ModelConfig::read_rms(keys, "llama")?;
    if reads_pictures {
        keys.must_be("model_type", &json!("llama"))?;
        // The whole model's key counts, and where there is none what is there.
        c.tied = keys.outer_flag("tie_word_embeddings");
    }
    c.reordered(keys);
    if keys.is_gguf() {
        let has = |part: &str| keys.has_tensor(&format!("blk.0.{part}.bias"));
        c.biases = Biases { qkv: has("attn_q"), output: has("attn_output"), ff: has("ffn_down"), experts: false };
        if keys.size_above_0("expert_count", "")?.is_some() {
            return Err(Error::unsupported(
                "llama.expert_count: Mixtral's experts; this version runs those of qwen3moe and granitemoe",
            ));
        }
        return Ok(c);
    }
    let attention = keys.flag("", "attention_bias")?.unwrap_or(false);
    c.biases =
        Biases { qkv: attention, output: attention, ff: keys.flag("", "mlp_bias")?.unwrap_or(false), experts: false };
    let window = keys.size("", "sliding_window")?;
    // transformers ignores the key for LlamaForCausalLM; here it is refused, as it suggests training with a window.
    if window.is_some() && !keys.is_hf_class("MistralForCausalLM") {
        return Err(Error::unsupported(
            "config.json: sliding_window; this version runs it for MistralForCausalLM, not for LlamaForCausalLM",
        ));
    }
    c.set_windows(keys, window, |_| window.is_some())?;
    Ok(c)
}
