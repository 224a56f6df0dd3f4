//! GPT-2: LayerNorm, learned positions, biases everywhere, and a feed-forward network without gates.

use serde_json::json;

use super::Architecture;
use super::config::{
    Biases, Encoder, LayerKind, ModelConfig, NormKind, Norms, PictureAttention, QkNorm, Stored, activation,
};
use super::keys::Keys;
use super::names::TensorNames;
use crate::error::{Error, Result};
use crate::plan::{Activation, Heads, Mlp};

pub const GPT2: Architecture =
    Architecture { file: file!(), gguf: "gpt2", hf: &["GPT2LMHeadModel"], read, names: &NAMES };

const NAMES: TensorNames = TensorNames {
    // Published files of the first days have no prefix.
    prefixes: &[("", "transformer."), ("", "")],
    layers: "h",
    outside: &[("token_embd", "wte"), ("position_embd", "wpe"), ("output_norm", "ln_f"), ("output", "lm_head")],
    layer: &[
        ("attn_norm", "ln_1"),
        ("attn_qkv", "attn.c_attn"),
        ("attn_output", "attn.c_proj"),
        ("ffn_norm", "ln_2"),
        ("ffn_up", "mlp.c_fc"),
        ("ffn_down", "mlp.c_proj"),
    ],
    // Causal masks.
    gguf: &[],
    ignored: &["*.attn.bias", "*.attn.masked_bias"],
};

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let (width, h) = (keys.need("embedding_length", "n_embd")?, keys.need("attention.head_count", "n_head")?);
    if !width.is_multiple_of(h) {
        return Err(Error::bad_model(format!("{h} heads do not divide the width {width}")));
    }
    let e = width / h;
    keys.must_be("scale_attn_weights", &json!(true))?;
    keys.must_be("scale_attn_by_inverse_layer_idx", &json!(false))?;
    keys.must_be("add_cross_attention", &json!(false))?;
    // How halves are summed, which are f32 here; and a head that is none of a language model's.
    keys.ignore(&["reorder_and_upcast_attn", "n_ctx"]);
    keys.ignore(&[
        "summary_type",
        "summary_use_proj",
        "summary_activation",
        "summary_proj_to_labels",
        "summary_first_dropout",
    ]);
    if keys.size("attention.head_count_kv", "")?.is_some_and(|g| g != h) {
        return Err(Error::unsupported("gpt2.attention.head_count_kv: heads that share keys and values"));
    }
    let vocab = match keys.size("vocab_size", "vocab_size")? {
        Some(v) => v,
        None => keys.rows_of("token_embd.weight")?,
    };
    let layers = keys.need("block_count", "n_layer")?;
    Ok(ModelConfig {
        pooling: None,
        answers: None,
        encoder: Encoder::default(),
        dense: Vec::new(),
        architecture: "gpt2",
        width,
        ff: keys.size("feed_forward_length", "n_inner")?.unwrap_or(4 * width),
        vocab,
        drawn: vocab,
        heads: Heads { h, g: h, e },
        context: keys.need("context_length", "n_positions")? as u32,
        layers: vec![LayerKind::USUAL; layers],
        ropes: Vec::new(),
        learned_positions: true,
        norm: NormKind::Layer,
        eps: keys.number("attention.layer_norm_epsilon", "layer_norm_epsilon")?.unwrap_or(1e-5),
        norm_offset: 0.0,
        norms: Norms::Before,
        qk_norm: QkNorm::None,
        value_norm: false,
        layer_scales: false,
        per_layer: None,
        biases: Biases { qkv: true, output: true, ff: true, experts: false },
        score_scale: 1.0 / (e as f64).sqrt(),
        score_cap: 0.0,
        sinks: false,
        attention_scale: 1.0,
        mlp: Mlp {
            gated: false,
            ..Mlp::gated(keys.text("", "activation_function")?.map_or(Ok(Activation::GeluTanh), activation)?)
        },
        embed_scale: 1.0,
        logit_scale: 1.0,
        logit_cap: 0.0,
        deepstack: 0,
        row_token: None,
        picture_attention: PictureAttention::Causal,
        further_layers: 0,
        attention_gate: false,
        conv_taps: 0,
        linear: None,
        experts: None,
        tied: if keys.is_gguf() { None } else { Some(keys.flag("", "tie_word_embeddings")?.unwrap_or(true)) },
        // transformers has the weights of its Conv1D the other way round.
        stored: Stored { qkv: true, transposed: !keys.is_gguf(), ..Stored::default() },
    })
}
