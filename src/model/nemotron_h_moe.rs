//! Nemotron 3 Nano: Nemotron-H whose networks are experts without gates, one of which all rows use.

use super::config::{FeedForwardKind, Mixture, ModelConfig};
use super::keys::Keys;
use super::{Architecture, nemotron_h};
use crate::error::{Error, Result};
use crate::plan::{Routing, Scores};

/// Folders of it name the class of those without experts.
pub const NEMOTRON_H_MOE: Architecture = Architecture {
    file: file!(),
    gguf: "nemotron_h_moe",
    hf: &["NemotronHForCausalLM"],
    read: |keys| nemotron_h::read(keys, "nemotron_h_moe"),
    names: &nemotron_h::NAMES,
};

/// What layers with experts have, where there are such.
pub(super) fn experts(keys: &Keys<'_>, c: &mut ModelConfig) -> Result<()> {
    let (count, used) = (
        keys.size_or_none("expert_count", "n_routed_experts")?,
        keys.size_or_none("expert_used_count", "num_experts_per_tok")?,
    );
    let normed = keys.flag("expert_weights_norm", "norm_topk_prob")?.unwrap_or(!keys.is_gguf());
    let factor = keys.positive_unless_0("expert_weights_scale", "routed_scaling_factor")?.unwrap_or(1.0);
    let ff = keys.size_above_0("expert_feed_forward_length", "moe_intermediate_size")?.unwrap_or(c.ff);
    let shared = keys.size_above_0("expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size")?;
    for (gguf, hf) in [
        ("expert_group_count", "n_group"),
        ("expert_group_used_count", "topk_group"),
        ("expert_shared_count", "n_shared_experts"),
    ] {
        if keys.size_or_none(gguf, hf)? > 1 {
            return Err(Error::unsupported(format!("{}: more than one", keys.name(gguf, hf))));
        }
    }
    if c.layers.iter().any(|layer| layer.feed_forward == FeedForwardKind::Experts) {
        let routing = Routing { scores: Scores::Sigmoid { added: 1e-20, factor }, count, used, normed };
        c.architecture = "nemotron_h_moe";
        c.experts = Some(Mixture { routing, ff, shared: shared.map(|f| (f, false)) });
        c.stored.each_expert = !keys.is_gguf() && keys.any_tensor(".mixer.experts.0.");
    }
    Ok(())
}
