//! Falcon-H1: attention and Mamba-2 side by side in every layer, and factors of nearly everything, which GGUF files
//! hold multiplied in.

use serde_json::json;

use super::Architecture;
use super::config::{MixerKind, ModelConfig};
use super::keys::Keys;
use super::mamba;
use super::names::{self, TensorNames};
use crate::error::{Error, Result};
use crate::plan::{GatedNorm, LinearFactors};

pub const FALCON_H1: Architecture =
    Architecture { file: file!(), gguf: "falcon-h1", hf: &["FalconH1ForCausalLM"], read, names: &NAMES };

const NAMES: TensorNames = TensorNames {
    outside: &[("token_embd", "embed_tokens"), ("output_norm", "final_layernorm"), ("output", "lm_head")],
    layer: &[
        ("ffn_norm", "pre_ff_layernorm"),
        ("ffn_gate", "feed_forward.gate_proj"),
        ("ffn_up", "feed_forward.up_proj"),
        ("ffn_down", "feed_forward.down_proj"),
    ],
    gguf: &[("ffn_norm", "ffn_norm=")],
    ..names::LLAMA
};

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    keys.defaults(&[
        ("mamba_d_conv", 4.0),
        ("mamba_d_state", 256.0),
        ("mamba_n_groups", 1.0),
        ("mamba_n_heads", 128.0),
        ("rms_norm_eps", 1e-5),
    ]);
    let mut c = ModelConfig::read_rms(keys, "falcon-h1")?;
    for bias in ["attention_bias", "mlp_bias", "projectors_bias"] {
        keys.must_be(bias, &json!(false))?;
    }
    // What transformers does not read.
    keys.ignore(&["mamba_use_mlp", "mlp_expansion_factor", "num_logits_to_keep", "mamba_expand"]);
    keys.must_be("attn_layer_indices", &json!(null))?;
    // llama.cpp has the gates before the norm, where there is one.
    let (normed, gate_first) = match keys.is_gguf() {
        true => (keys.any_tensor("ssm_norm.weight"), true),
        false => (
            keys.flag("", "mamba_rms_norm")?.unwrap_or(false),
            !keys.flag("", "mamba_norm_before_gate")?.unwrap_or(true),
        ),
    };
    let norm =
        |inner, groups| if normed { GatedNorm::Groups { group: inner / groups, gate_first } } else { GatedNorm::None };
    let mut linear = mamba::read(keys, c.width, c.eps, norm)?;
    let factor = |key| Ok::<_, Error>(keys.number("", key)?.unwrap_or(1.0));
    let into = factor("attention_in_multiplier")?;
    c.score_scale *= into * into * factor("key_multiplier")?;
    c.attention_scale = into * factor("attention_out_multiplier")?;
    [c.mlp.inner, c.mlp.outer] = keys.numbers("mlp_multipliers")?.unwrap_or([1.0; 2]);
    (c.embed_scale, c.logit_scale) = (factor("embedding_multiplier")?, factor("lm_head_multiplier")?);
    let into = factor("ssm_in_multiplier")?;
    let [gates, values, keys_, queries, steps] =
        keys.numbers("ssm_multipliers")?.unwrap_or([1.0; 5]).map(|part| part * into);
    linear.factors =
        LinearFactors { gates, channels: [values, keys_, queries], steps, output: factor("ssm_out_multiplier")? };
    c.linear = Some(linear);
    c.layers.iter_mut().for_each(|layer| layer.mixer = MixerKind::Both);
    Ok(c)
}
