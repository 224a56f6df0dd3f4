//! Granite 4: Mamba-2 with attention in some layers, with experts beside one that all rows use or without; and dense models of attention alone.

use serde_json::{Value, json};

use super::config::{FeedForwardKind, LinearKind, MixerKind, Mixture, ModelConfig, NO_ROPE, Stored};
use super::keys::Keys;
use super::names::{self, HfNames};
use super::{Architecture, granite};
use crate::error::{Error, Result};
use crate::plan::{LinearHeads, Routing, Rule, Scores};

pub const GRANITE_HYBRID: Architecture = Architecture { gguf: "granitehybrid", hf: &["GraniteMoeHybridForCausalLM"], read, names: &NAMES };

const NAMES: HfNames = HfNames {
    layer: &[
        ("ffn_gate_up", "shared_mlp.input_linear"),
        ("ffn_down", "shared_mlp.output_linear"),
        ("ffn_gate_inp", "block_sparse_moe.router.layer"),
        ("ffn_gate_up_exps", "block_sparse_moe.input_linear"),
        ("ffn_down_exps", "block_sparse_moe.output_linear"),
        ("ffn_gate_up_shexp", "shared_mlp.input_linear"),
        ("ffn_down_shexp", "shared_mlp.output_linear"),
        ("ssm_in", "mamba.in_proj"),
        ("ssm_conv1d", "mamba.conv1d"),
        ("ssm_a", "mamba.A_log"),
        ("ssm_d", "mamba.D"),
        ("ssm_dt", "mamba.dt_bias="),
        ("ssm_norm", "mamba.norm"),
        ("ssm_out", "mamba.out_proj"),
    ],
    ..names::LLAMA
};

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    keys.allow_gaps();
    let mut c = ModelConfig::read_rms(keys, "granitehybrid")?;
    let eps = c.eps;
    let layers = c.layers.len();
    let attends = match keys.present("attention.head_count_kv") {
        Some(list) => list,
        None => keys.texts("layer_types")?.or(keys.texts("layers_block_type")?).map_or_else(|| Ok(vec![false; layers]), |types| kinds(&types))?,
    };
    (attends.len() == layers).then_some(()).ok_or_else(|| Error::bad_model(format!("granitehybrid: {layers} layers, and kinds of {}", attends.len())))?;
    if attends.contains(&false) {
        c.linear = Some(mamba(keys, c.width, eps)?);
    }
    for (layer, _) in c.layers.iter_mut().zip(attends).filter(|(_, attends)| !attends) {
        layer.mixer = MixerKind::Linear;
    }
    // What only layers of Mamba have, and what was a matter of training.
    keys.ignore(&["mamba_n_heads", "mamba_n_groups", "mamba_d_state", "mamba_d_head", "mamba_d_conv", "mamba_expand", "mamba_chunk_size", "mamba_conv_bias"]);
    keys.ignore(&["mamba_proj_bias", "time_step_limit", "normalization_function", "init_method", "layers_block_type"]);
    let shared = keys.size("expert_shared_feed_forward_length", "shared_intermediate_size")?;
    let count = keys.size_or_none("expert_count", "num_local_experts")?;
    let used = keys.size_or_none("expert_used_count", "num_experts_per_tok")?;
    if count > 0 {
        let shared = shared.map(|f| (f, false));
        // The softmax is over those that are used.
        c.experts = Some(Mixture { routing: Routing { scores: Scores::Softmax, count, used, normed: true }, ff: c.ff, shared });
        c.layers.iter_mut().for_each(|layer| layer.feed_forward = FeedForwardKind::Experts);
    } else if let Some(f) = shared {
        c.ff = f;
    }
    c.stored = Stored { gate_up: !keys.is_gguf(), experts_gate_up: !keys.is_gguf(), ..Stored::default() };
    let rotates = match keys.is_gguf() {
        // llama.cpp takes what was a note of the training as the switch of rotations.
        true => keys.flag("rope.scaling.finetuned", "")?.unwrap_or(true),
        false => match keys.text("", "position_embedding_type")? {
            None | Some("nope") => false,
            Some("rope") => true,
            Some(other) => return Err(Error::unsupported(format!("config.json: position_embedding_type {other:?}; this version knows rope and nope"))),
        },
    };
    if !rotates {
        c.layers.iter_mut().for_each(|layer| layer.rope = NO_ROPE);
    }
    granite::factors(keys, &mut c)?;
    Ok(c)
}

fn mamba(keys: &Keys<'_>, width: usize, eps: f64) -> Result<LinearKind> {
    keys.must_be("mamba_proj_bias", &json!(false))?;
    // Steps are softplus of sums: no limit beyond a hundred is ever met. Infinity is no number of JSON.
    let within = |limits: &[Value]| limits[0].as_f64() == Some(0.0) && limits[1].as_f64().is_none_or(|most| most >= 100.0);
    if keys.list("time_step_limit")?.is_some_and(|limits| limits.len() != 2 || !within(limits)) {
        return Err(Error::unsupported("config.json: time_step_limit: steps that are cut off"));
    }
    let heads = keys.need("ssm.time_step_rank", "mamba_n_heads")?;
    let inner = match keys.is_gguf() {
        true => keys.need("ssm.inner_size", "")?,
        false => keys.size("", "mamba_expand")?.unwrap_or(2) * width,
    };
    let key_heads = keys.need("ssm.group_count", "mamba_n_groups")?;
    if !inner.is_multiple_of(heads) || !inner.is_multiple_of(key_heads) {
        return Err(Error::bad_model(format!("granitehybrid: {inner} channels of Mamba for {heads} heads and {key_heads} groups")));
    }
    let heads = LinearHeads {
        rule: Rule::Mamba,
        heads,
        key_heads,
        tiled: false,
        key: keys.need("ssm.state_size", "mamba_d_state")?,
        value: inner / heads,
        taps: keys.need("ssm.conv_kernel", "mamba_d_conv")?,
    };
    let conv_bias = keys.is_gguf() || keys.flag("", "mamba_conv_bias")?.unwrap_or(true);
    // Granite norms all groups together.
    Ok(LinearKind { heads, group: inner, eps, conv_bias, a_log: !keys.is_gguf() })
}

/// Of each layer whether it has attention.
fn kinds(types: &[&str]) -> Result<Vec<bool>> {
    let known = |kind: &&str| match *kind {
        "attention" | "full_attention" => Ok(true),
        "mamba" | "linear_attention" | "mamba2" => Ok(false),
        other => Err(Error::unsupported(format!("config.json: layer type {other:?}; this version knows attention and mamba"))),
    };
    types.iter().map(known).collect()
}
