//! Qwen3's mixture of experts.

use serde_json::json;

use super::config::{FeedForwardKind, Mixture, ModelConfig, Stored};
use super::keys::Keys;
use super::names::{self, TensorNames};
use super::{Architecture, qwen3};
use crate::error::{Error, Result};
use crate::plan::{Routing, Scores};

pub const QWEN3_MOE: Architecture =
    Architecture { file: file!(), gguf: "qwen3moe", hf: &["Qwen3MoeForCausalLM"], read, names: &NAMES };

const NAMES: TensorNames = TensorNames {
    layer: &[
        ("ffn_gate_inp", "mlp.gate"),
        ("ffn_gate_exps", "mlp.experts.{}.gate_proj"),
        ("ffn_up_exps", "mlp.experts.{}.up_proj"),
        ("ffn_down_exps", "mlp.experts.{}.down_proj"),
    ],
    ..names::LLAMA
};

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = qwen3::attention(keys, ModelConfig::read_rms(keys, "qwen3moe")?)?;
    // Every layer has experts in all models that were published.
    keys.must_be("decoder_sparse_step", &json!(1))?;
    keys.must_be("mlp_only_layers", &json!([]))?;
    let count = match keys.size("expert_count", "num_experts")? {
        Some(n) => n,
        None => keys.need("expert_count", "num_local_experts")?,
    };
    keys.ignore(&["num_local_experts"]);
    // What Qwen3-Coder says beside.
    keys.must_be("use_qk_norm", &json!(true))?;
    if keys.count("shared_expert_intermediate_size")?.unwrap_or(0) > 0 {
        return Err(Error::unsupported(
            "config.json: shared_expert_intermediate_size; this version runs Qwen3's experts without one that all share",
        ));
    }
    let used = keys.need("expert_used_count", "num_experts_per_tok")?;
    let ff = expert_width(keys, &c, used)?;
    // llama.cpp normalises always.
    let normed = keys.flag("expert_weights_norm", "norm_topk_prob")?.unwrap_or(keys.is_gguf());
    if keys.size_above_0("expert_shared_count", "")?.is_some() {
        return Err(Error::unsupported("qwen3moe.expert_shared_count: shared experts"));
    }
    c.experts = Some(Mixture { routing: Routing { scores: Scores::Softmax, count, used, normed }, ff, shared: None });
    c.layers.iter_mut().for_each(|layer| layer.feed_forward = FeedForwardKind::Experts);
    c.stored = Stored { each_expert: !keys.is_gguf(), ..Stored::default() };
    Ok(c)
}

/// How wide an expert is: where a GGUF file does not say, those that a row uses are as wide as a network of its own.
pub(super) fn expert_width(keys: &Keys<'_>, c: &ModelConfig, used: usize) -> Result<usize> {
    match keys.size_above_0("expert_feed_forward_length", "moe_intermediate_size")? {
        Some(ff) => Ok(ff),
        None if keys.is_gguf() => Ok(c.ff / used),
        None => keys.need("expert_feed_forward_length", "moe_intermediate_size"),
    }
}
