//! Nemotron-H, Nemotron Nano 2 and Nemotron 3 Nano: each layer is one thing, Mamba-2, attention that does not rotate,
//! or a feed-forward network of squared ReLU without gates, of which the last kind has experts.

use serde_json::{Value, json};

use super::config::{FeedForwardKind, LayerKind, MixerKind, ModelConfig, NO_ROPE};
use super::keys::Keys;
use super::names::{self, TensorNames};
use super::{Architecture, mamba, nemotron_h_moe};
use crate::error::{Error, Result};
use crate::plan::{Activation, GatedNorm, Mlp};

pub const NEMOTRON_H: Architecture = Architecture {
    file: file!(),
    gguf: "nemotron_h",
    hf: &["NemotronHForCausalLM"],
    read: |keys| read(keys, "nemotron_h"),
    names: &NAMES,
};

pub(super) const NAMES: TensorNames = TensorNames {
    prefixes: &[("", "backbone."), ("", "model.")],
    outside: &[("token_embd", "embeddings"), ("output_norm", "norm_f"), ("output", "lm_head")],
    layer: &[
        ("attn_norm", "norm"),
        ("attn_q", "mixer.q_proj"),
        ("attn_k", "mixer.k_proj"),
        ("attn_v", "mixer.v_proj"),
        ("attn_output", "mixer.o_proj"),
        ("ssm_in", "mixer.in_proj"),
        ("ssm_conv1d", "mixer.conv1d"),
        ("ssm_a", "mixer.A_log"),
        ("ssm_d", "mixer.D"),
        ("ssm_dt", "mixer.dt_bias="),
        ("ssm_norm", "mixer.norm"),
        ("ssm_out", "mixer.out_proj"),
        ("ffn_up", "mixer.up_proj"),
        ("ffn_down", "mixer.down_proj"),
        ("ffn_gate_inp", "mixer.gate"),
        ("exp_probs_b", "mixer.gate.e_score_correction_bias="),
        ("ffn_up_exps", "mixer.experts.up_proj=|mixer.experts.{}.up_proj"),
        ("ffn_down_exps", "mixer.experts.down_proj=|mixer.experts.{}.down_proj"),
        ("ffn_up_shexp", "mixer.shared_experts.up_proj"),
        ("ffn_down_shexp", "mixer.shared_experts.down_proj"),
    ],
    ignored: &["mtp."],
    ..names::LLAMA
};

/// What a layer is: transformers' words for it, a pattern's letter, its mixer and its network.
const KINDS: [(&[&str], char, MixerKind, FeedForwardKind); 4] = [
    (&["mamba", "linear_attention"], 'M', MixerKind::Linear, FeedForwardKind::None),
    (&["attention", "full_attention"], '*', MixerKind::Attention, FeedForwardKind::None),
    (&["mlp"], '-', MixerKind::None, FeedForwardKind::One),
    (&["moe"], 'E', MixerKind::None, FeedForwardKind::Experts),
];

pub(super) fn read(keys: &Keys<'_>, name: &'static str) -> Result<ModelConfig> {
    keys.allow_gaps();
    keys.renamed(&[
        ("head_dim", "attention_head_dim"),
        ("mamba_n_heads", "mamba_num_heads"),
        ("mamba_d_head", "mamba_head_dim"),
        ("mamba_d_state", "ssm_state_size"),
        ("mamba_d_state", "mamba_state_dim"),
        ("mamba_n_groups", "mamba_num_groups"),
        ("mamba_n_groups", "n_groups"),
        ("mamba_d_conv", "conv_kernel"),
        ("mamba_conv_bias", "use_conv_bias"),
        ("hidden_act", "mlp_hidden_act"),
    ]);
    let mut c = ModelConfig::read(keys, name, ("attention.layer_norm_rms_epsilon", "layer_norm_epsilon"))?;
    let letters = letters(keys, c.layers.len())?;
    if letters.len() != c.layers.len() {
        return Err(Error::bad_model(format!("{name}: {} layers, and kinds of {}", c.layers.len(), letters.len())));
    }
    for (layer, letter) in c.layers.iter_mut().zip(letters) {
        let unknown = || {
            Error::unsupported(format!(
                "config.json: hybrid_override_pattern: layer {letter:?}; this version knows M, *, - and E"
            ))
        };
        let (_, _, mixer, feed_forward) = *KINDS.iter().find(|(_, known, ..)| *known == letter).ok_or_else(unknown)?;
        *layer = LayerKind { rope: NO_ROPE, mixer, feed_forward, ..LayerKind::USUAL };
    }
    // transformers ties nothing here, whatever the key says: a head that is there counts.
    c.tied = None;
    c.mlp = Mlp { gated: false, ..Mlp::gated(Activation::ReluSquared) };
    for bias in ["attention_bias", "mlp_bias", "use_bias"] {
        keys.must_be(bias, &json!(false))?;
    }
    keys.must_be("mamba_hidden_act", &json!("silu"))?;
    keys.must_be("hidden_act", &json!("relu2"))?;
    keys.must_be("moe_latent_size", &Value::Null)?;
    keys.must_be("sliding_window", &Value::Null)?;
    // Of training and of other implementations; and of positions, which nothing rotates by.
    keys.ignore(&[
        "norm_eps",
        "rms_norm_eps",
        "time_step_rank",
        "time_step_floor",
        "time_step_max",
        "time_step_min",
        "rescale_prenorm_residual",
        "residual_in_fp32",
        "expand",
        "chunk_size",
    ]);
    keys.ignore(&[
        "num_logits_to_keep",
        "use_mamba_kernels",
        "mamba_ssm_cache_dtype",
        "rope_theta",
        "partial_rotary_factor",
        "rope_scaling",
    ]);
    keys.ignore(&[
        "num_nextn_predict_layers",
        "mtp_layers_block_type",
        "mtp_hybrid_override_pattern",
        "moe_shared_expert_overlap",
    ]);
    keys.ignore_gguf(&["attention.layer_norm_epsilon", "rope.scaling.finetuned"]);
    c.linear = Some(mamba::read(keys, c.width, c.eps, |inner, groups| GatedNorm::Groups {
        group: inner / groups,
        gate_first: true,
    })?);
    nemotron_h_moe::experts(keys, &mut c)?;
    Ok(c)
}

/// The letters of the layers. Of GGUF's those with key heads attend, those with a feed-forward width have a network,
/// the others Mamba-2.
fn letters(keys: &Keys<'_>, n: usize) -> Result<Vec<char>> {
    if let (Some(attends), Some(feeds)) = (keys.present("attention.head_count_kv"), keys.present("feed_forward_length"))
    {
        let network = if keys.size_or_none("expert_count", "")? > 0 { 'E' } else { '-' };
        let letter = |(attends, feeds)| {
            if attends {
                '*'
            } else if feeds {
                network
            } else {
                'M'
            }
        };
        return Ok(attends.into_iter().zip(feeds).map(letter).collect());
    }
    let words: Vec<_> =
        KINDS.iter().flat_map(|(words, letter, ..)| words.iter().map(|word| (*word, *letter))).collect();
    let pattern = keys.text("", "hybrid_override_pattern")?.map(|pattern| pattern.chars().collect());
    let listed = keys.kinds("layers_block_type", n, &words)?;
    listed.or(pattern).ok_or_else(|| Error::bad_model("config.json: hybrid_override_pattern is missing"))
}
