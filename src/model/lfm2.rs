//! LFM2 and LFM2.5: short convolutions, with attention in some layers; and their mixture of experts.

use serde_json::json;

use super::Architecture;
use super::config::{FeedForwardKind, MixerKind, Mixture, ModelConfig, QkNorm};
use super::keys::Keys;
use super::names::{self, TensorNames};
use crate::error::{Error, Result};
use crate::plan::{Routing, Scores};

pub const LFM2: Architecture = Architecture {
    file: file!(),
    gguf: "lfm2",
    hf: &["Lfm2ForCausalLM", "LFM2ForCausalLM", "Lfm2VlForConditionalGeneration"],
    read,
    names: &NAMES,
};
pub const LFM2_MOE: Architecture =
    Architecture { file: file!(), gguf: "lfm2moe", hf: &["Lfm2MoeForCausalLM"], read: read_experts, names: &NAMES };

const NAMES: TensorNames = TensorNames {
    outside: &[("token_embd", "embed_tokens"), ("output_norm", "embedding_norm"), ("output", "lm_head")],
    layer: &[
        ("attn_norm", "operator_norm"),
        ("attn_q_norm", "self_attn.q_layernorm"),
        ("attn_k_norm", "self_attn.k_layernorm"),
        ("attn_output", "self_attn.out_proj"),
        ("shortconv.conv", "conv.conv"),
        ("shortconv.in_proj", "conv.in_proj"),
        ("shortconv.out_proj", "conv.out_proj"),
        ("ffn_norm", "ffn_norm"),
        ("ffn_gate", "feed_forward.w1"),
        ("ffn_up", "feed_forward.w3"),
        ("ffn_down", "feed_forward.w2"),
        ("ffn_gate_inp", "feed_forward.gate"),
        ("exp_probs_b", "feed_forward.expert_bias="),
        ("ffn_gate_exps", "feed_forward.experts.{}.w1"),
        ("ffn_up_exps", "feed_forward.experts.{}.w3"),
        ("ffn_down_exps", "feed_forward.experts.{}.w2"),
    ],
    gguf: &[("output_norm", "token_embd_norm")],
    // LFM2-VL has the language model beside a vision tower.
    prefixes: &[("", "model.language_model."), ("", "model."), ("", "")],
    ignored: &["model.vision_tower.", "model.multi_modal_projector."],
    ..names::LLAMA
};

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = layers(keys, "lfm2")?;
    // What says nothing beside other keys, and how weights once began.
    keys.ignore(&[
        "block_dim",
        "conv_dim",
        "conv_dim_out",
        "num_heads",
        "block_norm_eps",
        "block_mlp_init_scale",
        "block_out_init_scale",
    ]);
    keys.ignore(&["block_use_xavier_init", "conv_use_xavier_init", "use_pos_enc"]);
    keys.must_be("block_use_swiglu", &json!(true))?;
    let multiple = keys.size("", "block_multiple_of")?.unwrap_or(256);
    let factor = keys.positive("", "block_ffn_dim_multiplier")?.unwrap_or(1.0);
    if !keys.is_gguf() && keys.flag("", "block_auto_adjust_ff_dim")?.unwrap_or(true) {
        c.ff = ((factor * (2 * c.ff / 3) as f64) as usize).next_multiple_of(multiple);
    }
    Ok(c)
}

fn read_experts(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = layers(keys, "lfm2moe")?;
    keys.must_be("use_expert_bias", &json!(true))?;
    // 2 is llama.cpp's number of sigmoids.
    if keys.size("expert_gating_func", "")?.is_some_and(|kind| kind != 2) {
        return Err(Error::unsupported("lfm2moe.expert_gating_func: other scores than sigmoids"));
    }
    let routing = Routing {
        scores: Scores::Sigmoid {
            added: 1e-6,
            factor: keys.positive_unless_0("expert_weights_scale", "routed_scaling_factor")?.unwrap_or(1.0),
        },
        count: keys.need("expert_count", "num_experts")?,
        used: keys.need("expert_used_count", "num_experts_per_tok")?,
        normed: keys.flag("expert_weights_norm", "norm_topk_prob")?.unwrap_or(true),
    };
    c.experts =
        Some(Mixture { routing, ff: keys.need("expert_feed_forward_length", "moe_intermediate_size")?, shared: None });
    let dense = keys.size_or_none("leading_dense_block_count", "num_dense_layers")?;
    c.layers.iter_mut().skip(dense).for_each(|layer| layer.feed_forward = FeedForwardKind::Experts);
    c.stored.each_expert = !keys.is_gguf();
    Ok(c)
}

fn layers(keys: &Keys<'_>, name: &'static str) -> Result<ModelConfig> {
    keys.allow_gaps();
    // What the first configurations say in other words.
    keys.renamed(&[("intermediate_size", "block_ff_dim"), ("tie_word_embeddings", "tie_embedding")]);
    keys.defaults(&[("rope_theta", 1e6), ("conv_L_cache", 3.0), ("num_dense_layers", 2.0)]);
    let mut c = ModelConfig::read(keys, name, ("attention.layer_norm_rms_epsilon", "norm_eps"))?;
    keys.ignore(&["theta"]);
    keys.must_be("conv_bias", &json!(false))?;
    // In files the head is the embedding.
    c.tied = if keys.is_gguf() { None } else { Some(keys.flag("", "tie_word_embeddings")?.unwrap_or(true)) };
    c.qk_norm = QkNorm::Each;
    c.conv_taps = keys.need("shortconv.l_cache", "conv_L_cache")?;
    let attends = match keys.present("attention.head_count_kv") {
        Some(list) => list,
        None => attention_layers(keys, c.layers.len())?,
    };
    c.mix(&attends, MixerKind::ShortConv)?;
    if let Some(window) = keys.size_above_0("attention.sliding_window", "")? {
        let attending = c.layers.iter_mut().filter(|layer| layer.mixer == MixerKind::Attention);
        attending.for_each(|layer| layer.window = Some(window as u32));
    }
    Ok(c)
}

/// Whether each layer of a config.json has attention.
fn attention_layers(keys: &Keys<'_>, n: usize) -> Result<Vec<bool>> {
    let listed = keys.counts("full_attn_idxs")?;
    let kinds = keys.kinds("layer_types", n, &[("full_attention", true), ("conv", false), ("short_conv", false)])?;
    Ok(kinds.unwrap_or_else(|| (0..n).map(|i| listed.as_ref().is_none_or(|list| list.contains(&(i as u64)))).collect()))
}
