//! Qwen3.5's and 3.6's mixtures of experts, and Qwen3-Next, which has what belongs to a key head together: each row's
//! experts, and one that all use.

use serde_json::json;

use super::config::{FeedForwardKind, Mixture, ModelConfig};
use super::keys::Keys;
use super::{Architecture, qwen3_5, qwen3_moe};
use crate::error::Result;
use crate::plan::{Routing, Scores};

pub const QWEN3_5_MOE: Architecture = Architecture {
    file: file!(),
    gguf: "qwen35moe",
    hf: &["Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"],
    read: |keys| read(keys, "qwen35moe"),
    names: &qwen3_5::NAMES,
};
pub const QWEN3_NEXT: Architecture = Architecture {
    file: file!(),
    gguf: "qwen3next",
    hf: &["Qwen3NextForCausalLM"],
    read: |keys| read(keys, "qwen3next"),
    names: &qwen3_5::NAMES,
};

fn read(keys: &Keys<'_>, name: &'static str) -> Result<ModelConfig> {
    let mut c = qwen3_5::read(keys, name)?;
    keys.must_be("decoder_sparse_step", &json!(1))?;
    keys.must_be("mlp_only_layers", &json!([]))?;
    // The chosen experts' weights are always divided by their sum.
    keys.must_be("norm_topk_prob", &json!(true))?;
    let routing = Routing {
        scores: Scores::Softmax,
        count: keys.need("expert_count", "num_experts")?,
        used: keys.need("expert_used_count", "num_experts_per_tok")?,
        normed: true,
    };
    let ff = qwen3_moe::expert_width(keys, &c, routing.used)?;
    let shared = match keys.size_above_0("expert_shared_feed_forward_length", "shared_expert_intermediate_size")? {
        Some(shared) => shared,
        None if keys.is_gguf() => c.ff,
        None => keys.need("expert_shared_feed_forward_length", "shared_expert_intermediate_size")?,
    };
    c.experts = Some(Mixture { routing, ff, shared: Some((shared, true)) });
    c.layers.iter_mut().for_each(|layer| layer.feed_forward = FeedForwardKind::Experts);
    if !keys.is_gguf() {
        // One tensor of all experts, or some of each.
        c.stored.each_expert = keys.any_tensor(".mlp.experts.0.");
        c.stored.experts_gate_up = !c.stored.each_expert;
    }
    Ok(c)
}
