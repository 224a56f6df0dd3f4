//! Qwen3: Llama with a norm of each query and key; heads need not be as wide as the model over their number. Also the
//! language model of LightOnOCR.

use serde_json::json;

use super::config::{Biases, ModelConfig, QkNorm};
use super::keys::Keys;
use super::names::{self, TensorNames};
use super::{Architecture, qwen2};
use crate::error::Result;

pub const QWEN3: Architecture = Architecture {
    file: file!(),
    gguf: "qwen3",
    // The last is as vLLM and llama.cpp call LightOnOCR.
    hf: &["Qwen3ForCausalLM", "Qwen3Model", "LightOnOcrForConditionalGeneration", "LightOnOCRForConditionalGeneration"],
    read,
    names: &NAMES,
};

const NAMES: TensorNames = TensorNames {
    // LightOnOCR has the language model beside a vision tower.
    prefixes: &[("", "model."), ("", ""), ("", "model.language_model.")],
    ignored: &["model.vision_encoder.", "model.vision_projection."],
    ..names::LLAMA
};

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = attention(keys, ModelConfig::read_rms(keys, "qwen3")?)?;
    if keys.outer("text_config").is_some() {
        keys.must_be("model_type", &json!("qwen3"))?;
        // Some of LightOnOCR's files say so.
        keys.must_be("use_qk_norm", &json!(true))?;
        // The whole model's key counts; transformers ties them where there is none.
        c.tied = Some(keys.outer_flag("tie_word_embeddings").unwrap_or(true));
    }
    Ok(c)
}

/// Qwen3's attention, which its mixture of experts shares.
pub(super) fn attention(keys: &Keys<'_>, mut c: ModelConfig) -> Result<ModelConfig> {
    c.qk_norm = QkNorm::Each;
    let bias = keys.flag("", "attention_bias")?.unwrap_or(false);
    c.biases = Biases { qkv: bias, output: bias, ff: false, experts: false };
    qwen2::windows(keys, &mut c)?;
    Ok(c)
}
