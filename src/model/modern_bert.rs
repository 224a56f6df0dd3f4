//! ModernBERT, as granite-embedding R2 and gte-modernbert have it: norms before blocks and without biases, gates,
//! rotations by two bases, and two layers with a window in both directions to one without.

use serde_json::json;

use super::Architecture;
use super::config::{Encoder, ModelConfig, NormKind, Stored, activation};
use super::keys::Keys;
use super::names::TensorNames;
use super::rope::{Rope, Scaling};
use crate::error::Result;
use crate::plan::{Activation, Mlp};

pub const MODERN_BERT: Architecture =
    Architecture { file: file!(), gguf: "modern-bert", hf: &["ModernBertModel"], read, names: &NAMES };

const NAMES: TensorNames = TensorNames {
    prefixes: &[("", "model."), ("", "")],
    layers: "layers",
    outside: &[
        ("token_embd", "embeddings.tok_embeddings"),
        ("token_embd_norm", "embeddings.norm"),
        ("output_norm", "final_norm"),
        ("output", "decoder"),
    ],
    layer: &[
        ("attn_norm", "attn_norm"),
        ("attn_qkv", "attn.Wqkv"),
        ("attn_output", "attn.Wo"),
        ("ffn_norm", "mlp_norm"),
        ("ffn_gate_up", "mlp.Wi"),
        ("ffn_down", "mlp.Wo"),
    ],
    gguf: &[],
    ignored: &[],
};

/// What a file that does not say means.
const WINDOW: usize = 128;
const PERIOD: usize = 3;
const BASES: [f64; 2] = [160_000.0, 10_000.0];

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    keys.defaults(&[("norm_eps", 1e-5)]);
    for key in ["norm_bias", "attention_bias", "mlp_bias"] {
        keys.must_be(key, &json!(false))?;
    }
    // Of training, and of heads that are none of an embedder's.
    keys.ignore(&[
        "embedding_dropout",
        "mlp_dropout",
        "initializer_cutoff_factor",
        "deterministic_flash_attn",
        "reference_compile",
        "layer_norm_eps",
    ]);
    keys.ignore(&[
        "sparse_prediction",
        "sparse_pred_ignore_index",
        "repad_logits_with_grad",
        "decoder_bias",
        "gradient_checkpointing",
    ]);
    keys.ignore(&[
        "classifier_pooling",
        "classifier_dropout",
        "classifier_bias",
        "classifier_activation",
        "cls_token_id",
        "sep_token_id",
    ]);
    keys.ignore(&["position_embedding_type", "hidden_act"]);
    keys.ignore_gguf(&["attention.causal"]);
    let mut c = ModelConfig::read(keys, "modern-bert", ("attention.layer_norm_epsilon", "norm_eps"))?;
    // A GGUF file that names no window has none.
    let window = match keys.size_above_0("attention.sliding_window", "local_attention")? {
        None if !keys.is_gguf() => Some(WINDOW),
        window => window,
    };
    let period = keys.size_above_0("attention.sliding_window_pattern", "global_attn_every_n_layers")?;
    let slides = |i: usize| !i.is_multiple_of(period.unwrap_or(PERIOD));
    c.set_windows(keys, window.map(|window| window / 2 + 1), |i| window.is_some() && slides(i))?;
    let [full, sliding] = match Rope::by_kind(keys, &c)? {
        Some((full, sliding)) => [full, sliding],
        None => {
            let bases = [
                keys.positive("rope.freq_base", "global_rope_theta")?,
                keys.positive("rope.freq_base_swa", "local_rope_theta")?,
            ];
            let of = |i: usize| Rope {
                base: bases[i].unwrap_or(if keys.is_gguf() { BASES[1] } else { BASES[i] }),
                scaling: Scaling::None,
                factor: 1.0,
                ..c.ropes[0].clone()
            };
            [of(0), of(1)]
        }
    };
    c.ropes = vec![full, sliding];
    for layer in &mut c.layers {
        layer.rope = usize::from(layer.window.is_some());
    }
    c.encoder =
        Encoder { both_ways: true, embed_norm: true, no_norm_bias: true, first_unnormed: true, ..Encoder::default() };
    c.norm = NormKind::Layer;
    c.mlp = Mlp::gated(keys.text("hidden_activation", "hidden_activation")?.map_or(Ok(Activation::Gelu), activation)?);
    c.stored = Stored { qkv: true, gate_up: true, ..Stored::default() };
    c.tied = Some(true);
    Ok(c)
}
