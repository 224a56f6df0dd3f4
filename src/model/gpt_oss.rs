//! gpt-oss: experts with biases whose gates and up products are cut, in each head a score that no value belongs to, a
//! window in every second layer, YaRN.

use serde_json::json;

use super::Architecture;
use super::config::{Biases, FeedForwardKind, Mixture, ModelConfig};
use super::keys::Keys;
use super::names::{self, TensorNames};
use super::rope::Scaling;
use crate::error::Result;
use crate::plan::{Activation, Routing, Scores};

pub const GPT_OSS: Architecture =
    Architecture { file: file!(), gguf: "gpt-oss", hf: &["GptOssForCausalLM"], read, names: &NAMES };

const NAMES: TensorNames = TensorNames {
    layer: &[
        ("attn_sinks", "self_attn.sinks="),
        ("ffn_gate_inp", "mlp.router"),
        ("ffn_gate_up_exps", "mlp.experts.gate_up_proj="),
        ("ffn_gate_up_exps_bias", "mlp.experts.gate_up_proj_bias="),
        ("ffn_down_exps", "mlp.experts.down_proj="),
        ("ffn_down_exps_bias", "mlp.experts.down_proj_bias="),
    ],
    // The norm before the feed-forward network.
    gguf: &[("ffn_norm", "post_attention_norm")],
    ..names::LLAMA
};

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    keys.defaults(&[
        ("head_dim", 64.0),
        ("num_local_experts", 32.0),
        ("num_experts_per_tok", 4.0),
        ("rms_norm_eps", 1e-5),
    ]);
    let mut c = ModelConfig::read_rms(keys, "gpt-oss")?;
    keys.must_be("attention_bias", &json!(true))?;
    keys.must_be("swiglu_limit", &json!(7.0))?;
    // Said again beside the rotations, and another word for what a row uses.
    keys.ignore(&["initial_context_length", "experts_per_token"]);
    c.biases = Biases { qkv: true, output: true, ff: false, experts: true };
    c.sinks = true;
    c.mlp.activation = Activation::Cut;
    let pattern = keys.flags("attention.sliding_window_pattern", c.layers.len())?;
    let window = keys.size("attention.sliding_window", "sliding_window")?;
    c.set_windows(keys, window, |i| pattern.as_ref().map_or(i % 2 == 0, |slides| slides[i]))?;
    c.set_base_of_windows(keys)?;
    // As it was trained: llama.cpp rounds where the ramp begins and ends.
    if let Scaling::Yarn { truncate, .. } = &mut c.ropes[0].scaling {
        *truncate &= !keys.is_gguf();
    }
    let count = keys.need("expert_count", "num_local_experts")?;
    let used = keys.need("expert_used_count", "num_experts_per_tok")?;
    let ff = keys.size("expert_feed_forward_length", "")?.unwrap_or(c.ff);
    c.experts =
        Some(Mixture { routing: Routing { scores: Scores::Softmax, count, used, normed: true }, ff, shared: None });
    // In folders gates and up rows take turns.
    (c.stored.experts_gate_up, c.stored.interleaved) = (!keys.is_gguf(), !keys.is_gguf());
    c.layers.iter_mut().for_each(|layer| layer.feed_forward = FeedForwardKind::Experts);
    Ok(c)
}
