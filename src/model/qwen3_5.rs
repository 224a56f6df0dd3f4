//! Qwen3.5 and 3.6: three layers of gated delta net, then one of attention whose outputs have gates.
//! Of checkpoints that read pictures the language model is read; layers that guess further tokens are left out.

use serde_json::json;

use super::Architecture;
use super::config::{MixerKind, ModelConfig, QkNorm, Stored};
use super::keys::Keys;
use super::names::{self, TensorNames};
use crate::error::Result;
use crate::plan::{GatedNorm, LinearFactors, LinearHeads, LinearKind, Rule};

pub const QWEN3_5: Architecture = Architecture {
    file: file!(),
    gguf: "qwen35",
    hf: &["Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"],
    read: |keys| read(keys, "qwen35"),
    names: &NAMES,
};

pub(super) const NAMES: TensorNames = TensorNames {
    prefixes: &[("", "model.language_model."), ("", "model.")],
    layer: &[
        ("attn_qkv", "linear_attn.in_proj_qkv"),
        ("attn_gate", "linear_attn.in_proj_z"),
        ("ssm_in", "linear_attn.in_proj_qkvz"),
        ("ssm_ba", "linear_attn.in_proj_ba"),
        ("ssm_alpha", "linear_attn.in_proj_a"),
        ("ssm_beta", "linear_attn.in_proj_b"),
        ("ssm_conv1d", "linear_attn.conv1d"),
        ("ssm_a", "linear_attn.A_log="),
        ("ssm_dt", "linear_attn.dt_bias="),
        ("ssm_norm", "linear_attn.norm"),
        ("ssm_out", "linear_attn.out_proj"),
        ("ffn_gate_inp", "mlp.gate"),
        ("ffn_gate_up_exps", "mlp.experts.gate_up_proj="),
        ("ffn_gate_exps", "mlp.experts.{}.gate_proj"),
        ("ffn_up_exps", "mlp.experts.{}.up_proj"),
        ("ffn_down_exps", "mlp.experts.down_proj=|mlp.experts.{}.down_proj"),
        ("ffn_gate_inp_shexp", "mlp.shared_expert_gate"),
        ("ffn_gate_shexp", "mlp.shared_expert.gate_proj"),
        ("ffn_up_shexp", "mlp.shared_expert.up_proj"),
        ("ffn_down_shexp", "mlp.shared_expert.down_proj"),
    ],
    gguf: &[("ffn_norm", "post_attention_norm")],
    ignored: &["mtp.", "model.visual.", "visual."],
    ..names::LLAMA
};

/// What the mixtures of experts share.
pub(super) fn read(keys: &Keys<'_>, name: &'static str) -> Result<ModelConfig> {
    keys.defaults(&[
        ("partial_rotary_factor", 0.25),
        ("linear_conv_kernel_dim", 4.0),
        ("linear_key_head_dim", 128.0),
        ("linear_value_head_dim", 128.0),
        ("linear_num_key_heads", 16.0),
        ("linear_num_value_heads", 32.0),
        ("head_dim", 256.0),
        ("shared_expert_intermediate_size", 512.0),
    ]);
    let mut c = ModelConfig::read_rms(keys, name)?;
    // Layers that guess further tokens stand behind the others.
    let further = keys.size_or_none("nextn_predict_layers", "mtp_num_hidden_layers")?;
    if keys.is_gguf() {
        c.layers.truncate(c.layers.len().saturating_sub(further));
        c.further_layers = further;
    }
    keys.ignore(&["mtp_use_dedicated_embeddings", "mamba_ssm_dtype", "full_attention_interval"]);
    c.ropes[0].read_axes(keys, true)?;
    keys.must_be("attn_output_gate", &json!(true))?;
    keys.must_be("attention_bias", &json!(false))?;
    let every = keys.size("full_attention_interval", "full_attention_interval")?.unwrap_or(4);
    keys.must_be("output_gate_type", &json!("swish"))?;
    keys.ignore(&["unsloth_fixed_mtp"]);
    let layers = c.layers.len();
    let linear = match (
        keys.flags("attention.recurrent_layers", layers + if keys.is_gguf() { further } else { 0 })?,
        keys.kinds("layer_types", layers, &[("linear_attention", true), ("full_attention", false)])?,
    ) {
        (Some(flags), _) => flags,
        (None, Some(linear)) => linear,
        (None, None) => (0..layers).map(|i| (i + 1) % every != 0).collect(),
    };
    let attends: Vec<bool> = linear.into_iter().take(layers).map(|linear| !linear).collect();
    c.mix(&attends, MixerKind::Linear)?;
    let heads = keys.need("ssm.time_step_rank", "linear_num_value_heads")?;
    let value = match keys.is_gguf() {
        true => keys.need("ssm.inner_size", "")? / heads,
        false => keys.need("", "linear_value_head_dim")?,
    };
    let heads = LinearHeads {
        rule: Rule::Delta,
        heads,
        key_heads: keys.need("ssm.group_count", "linear_num_key_heads")?,
        // llama.cpp's converter has the value heads in another order, but for Qwen3-Next.
        tiled: keys.is_gguf() && name != "qwen3next",
        key: keys.need("ssm.state_size", "linear_key_head_dim")?,
        value,
        taps: keys.need("ssm.conv_kernel", "linear_conv_kernel_dim")?,
    };
    c.linear = Some(LinearKind {
        heads,
        norm: GatedNorm::Heads,
        eps: c.eps,
        conv_bias: false,
        a_log: !keys.is_gguf(),
        factors: LinearFactors::NONE,
    });
    c.attention_gate = true;
    c.qk_norm = QkNorm::Each;
    // transformers stores weights of norms less 1, llama.cpp as they are.
    c.norm_offset = if keys.is_gguf() { 0.0 } else { 1.0 };
    c.stored = Stored { by_key_heads: name == "qwen3next", ..Stored::default() };
    Ok(c)
}
