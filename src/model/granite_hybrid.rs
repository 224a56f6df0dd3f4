//! Granite 4: Mamba-2 with attention in some layers, with experts beside one that all rows use or without; and dense
//! models of attention alone.

use super::config::{FeedForwardKind, MixerKind, Mixture, ModelConfig, NO_ROPE, Stored};
use super::keys::Keys;
use super::names::{self, TensorNames};
use super::{Architecture, granite, mamba};
use crate::error::{Error, Result};
use crate::plan::{GatedNorm, Routing, Scores};

pub const GRANITE_HYBRID: Architecture =
    Architecture { file: file!(), gguf: "granitehybrid", hf: &["GraniteMoeHybridForCausalLM"], read, names: &NAMES };

const NAMES: TensorNames = TensorNames {
    layer: &[
        ("ffn_gate_up", "shared_mlp.input_linear"),
        ("ffn_down", "shared_mlp.output_linear"),
        ("ffn_gate_inp", "block_sparse_moe.router.layer"),
        ("ffn_gate_up_exps", "block_sparse_moe.input_linear"),
        ("ffn_down_exps", "block_sparse_moe.output_linear"),
        ("ffn_gate_up_shexp", "shared_mlp.input_linear"),
        ("ffn_down_shexp", "shared_mlp.output_linear"),
    ],
    ..names::LLAMA
};

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    keys.allow_gaps();
    keys.renamed(&[("layer_types", "layers_block_type")]);
    let mut c = ModelConfig::read_rms(keys, "granitehybrid")?;
    let layers = c.layers.len();
    let attends = match keys.present("attention.head_count_kv") {
        Some(list) => list,
        None => keys.kinds("layer_types", layers, KINDS)?.unwrap_or_else(|| vec![false; layers]),
    };
    if attends.contains(&false) {
        // All groups are normed together.
        c.linear =
            Some(mamba::read(keys, c.width, c.eps, |inner, _| GatedNorm::Groups { group: inner, gate_first: true })?);
    }
    c.mix(&attends, MixerKind::Linear)?;
    // What only layers of Mamba have, and what was a matter of training.
    keys.ignore(&[
        "mamba_n_heads",
        "mamba_n_groups",
        "mamba_d_state",
        "mamba_d_head",
        "mamba_d_conv",
        "mamba_expand",
        "mamba_chunk_size",
        "mamba_conv_bias",
    ]);
    keys.ignore(&["mamba_proj_bias", "time_step_limit", "normalization_function", "init_method"]);
    let shared = keys.size_above_0("expert_shared_feed_forward_length", "shared_intermediate_size")?;
    let count = keys.size_or_none("expert_count", "num_local_experts")?;
    let used = keys.size_or_none("expert_used_count", "num_experts_per_tok")?;
    if count > 0 {
        let shared = shared.map(|f| (f, false));
        // The softmax is over the chosen experts.
        c.experts =
            Some(Mixture { routing: Routing { scores: Scores::Softmax, count, used, normed: true }, ff: c.ff, shared });
        c.layers.iter_mut().for_each(|layer| layer.feed_forward = FeedForwardKind::Experts);
    } else if let Some(f) = shared {
        c.ff = f;
    }
    c.stored = Stored { gate_up: !keys.is_gguf(), experts_gate_up: !keys.is_gguf(), ..c.stored };
    let rotates = match keys.is_gguf() {
        // llama.cpp takes what was a note of the training as the switch of rotations.
        true => keys.flag("rope.scaling.finetuned", "")?.unwrap_or(true),
        false => match keys.text("", "position_embedding_type")? {
            None | Some("nope") => false,
            Some("rope") => true,
            Some(other) => {
                return Err(Error::unsupported(format!(
                    "config.json: position_embedding_type {other:?}; this version knows rope and nope"
                )));
            }
        },
    };
    if !rotates {
        c.layers.iter_mut().for_each(|layer| layer.rope = NO_ROPE);
    }
    granite::factors(keys, &mut c)?;
    Ok(c)
}

/// Words for layers, and whether they attend.
const KINDS: &[(&str, bool)] =
    &[("attention", true), ("full_attention", true), ("mamba", false), ("mamba2", false), ("linear_attention", false)];
