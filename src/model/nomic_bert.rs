//! nomic-embed: BERT's blocks with rotations in place of learned positions, gates, and no biases but those of its
//! norms.

use serde_json::json;

use super::Architecture;
use super::config::{Encoder, ModelConfig, NormKind, Norms, Stored};
use super::keys::Keys;
use super::names::TensorNames;
use crate::error::{Error, Result};

pub const NOMIC_BERT: Architecture =
    Architecture { file: file!(), gguf: "nomic-bert", hf: &["NomicBertModel"], read, names: &NAMES };

const NAMES: TensorNames = TensorNames {
    prefixes: &[("", "")],
    layers: "encoder.layers",
    outside: &[
        ("token_embd", "embeddings.word_embeddings"),
        ("token_types", "embeddings.token_type_embeddings"),
        ("token_embd_norm", "emb_ln"),
        ("output", "lm_head"),
    ],
    layer: &[
        ("attn_qkv", "attn.Wqkv"),
        ("attn_output", "attn.out_proj"),
        ("post_attention_norm", "norm1"),
        ("ffn_gate", "mlp.fc12"),
        ("ffn_up", "mlp.fc11"),
        ("ffn_down", "mlp.fc2"),
        ("post_ffw_norm", "norm2"),
    ],
    gguf: super::bert::GGUF_NORMS,
    ignored: &["pooler."],
};

/// What published configurations call these, which are of a class of their own.
const WORDS: &[(&str, &str)] = &[
    ("hidden_size", "n_embd"),
    ("num_attention_heads", "n_head"),
    ("num_hidden_layers", "n_layer"),
    ("intermediate_size", "n_inner"),
    ("max_position_embeddings", "n_positions"),
    ("layer_norm_eps", "layer_norm_epsilon"),
    ("rope_theta", "rotary_emb_base"),
];

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    keys.renamed(WORDS);
    for key in [
        "prenorm",
        "use_rms_norm",
        "parallel_block",
        "causal",
        "qkv_proj_bias",
        "mlp_fc1_bias",
        "mlp_fc2_bias",
        "rotary_emb_interleaved",
    ] {
        keys.must_be(key, &json!(false))?;
    }
    keys.must_be("scale_attn_weights", &json!(true))?;
    keys.must_be("scale_attn_by_inverse_layer_idx", &json!(false))?;
    if keys.number("", "rotary_emb_fraction")?.is_some_and(|part| part != 1.0) {
        return Err(Error::unsupported(
            "config.json: rotary_emb_fraction is not 1: heads of NomicBertModel that are rotated in part",
        ));
    }
    if let Some(other) = keys.text("", "activation_function")?.filter(|name| *name != "swiglu") {
        return Err(Error::unsupported(format!(
            "config.json: activation_function {other:?}; this version runs NomicBertModel with swiglu"
        )));
    }
    // How it was trained and how kernels of others are put together.
    keys.ignore(&[
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "classifier_dropout",
        "fused_bias_fc",
        "fused_dropout_add_ln",
        "use_flash_attn",
    ]);
    keys.ignore(&[
        "use_xentropy",
        "pad_vocab_size_multiple",
        "max_trained_positions",
        "dense_seq_output",
        "last_layer_subset",
        "reorder_and_upcast_attn",
    ]);
    keys.ignore(&[
        "summary_activation",
        "summary_first_dropout",
        "summary_proj_to_labels",
        "summary_type",
        "summary_use_proj",
        "n_ctx",
    ]);
    keys.ignore_gguf(&["attention.causal"]);
    let mut c = ModelConfig::read(keys, "nomic-bert", ("attention.layer_norm_epsilon", "layer_norm_eps"))?;
    c.encoder = Encoder {
        both_ways: true,
        embed_norm: true,
        token_types: super::bert::token_types(keys)?,
        ..Encoder::default()
    };
    c.norm = NormKind::Layer;
    c.norms = Norms::Behind;
    c.stored = Stored { qkv: true, ..Stored::default() };
    c.tied = Some(true);
    Ok(c)
}
