//! Granite's mixture of experts.

use super::Architecture;
use super::config::{FeedForwardKind, Mixture, ModelConfig, NO_ROPE, Stored};
use super::granite;
use super::keys::Keys;
use super::names::{self, TensorNames};
use crate::error::{Error, Result};
use crate::plan::{Routing, Scores};

pub const GRANITE_MOE: Architecture =
    Architecture { file: file!(), gguf: "granitemoe", hf: &["GraniteMoeForCausalLM"], read, names: &NAMES };

const NAMES: TensorNames = TensorNames {
    layer: &[
        ("ffn_gate_inp", "block_sparse_moe.router.layer"),
        ("ffn_gate_up_exps", "block_sparse_moe.input_linear"),
        ("ffn_down_exps", "block_sparse_moe.output_linear"),
    ],
    ..names::LLAMA
};

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = ModelConfig::read_rms(keys, "granitemoe")?;
    granite::factors(keys, &mut c)?;
    // llama.cpp takes what was a note of the training as the switch of rotations.
    if keys.flag("rope.scaling.finetuned", "")? == Some(false) {
        c.layers.iter_mut().for_each(|layer| layer.rope = NO_ROPE);
    }
    if keys.size_above_0("expert_shared_feed_forward_length", "")?.is_some() {
        return Err(Error::unsupported("granitemoe.expert_shared_feed_forward_length: shared experts"));
    }
    let (count, used) =
        (keys.need("expert_count", "num_local_experts")?, keys.need("expert_used_count", "num_experts_per_tok")?);
    // The softmax is over the chosen experts.
    c.experts = Some(Mixture {
        routing: Routing { scores: Scores::Softmax, count, used, normed: true },
        ff: c.ff,
        shared: None,
    });
    c.layers.iter_mut().for_each(|layer| layer.feed_forward = FeedForwardKind::Experts);
    c.stored = Stored { experts_gate_up: !keys.is_gguf(), ..c.stored };
    Ok(c)
}
