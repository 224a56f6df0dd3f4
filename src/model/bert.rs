//! BERT, and RoBERTa, which numbers positions otherwise: rows see the whole text, LayerNorm comes behind each block,
//! and everything has a bias.

use serde_json::json;

use super::Architecture;
use super::config::{Biases, Encoder, LayerKind, ModelConfig, NO_ROPE, NormKind, Norms};
use super::keys::Keys;
use super::names::TensorNames;
use crate::error::{Error, Result};
use crate::plan::{Activation, Mlp};

pub const BERT: Architecture = Architecture {
    file: file!(),
    gguf: "bert",
    hf: &[
        "BertModel",
        "BertForSequenceClassification",
        "RobertaModel",
        "RobertaForSequenceClassification",
        "XLMRobertaModel",
        XLMR_JUDGES,
    ],
    read,
    names: &NAMES,
};

const XLMR_JUDGES: &str = "XLMRobertaForSequenceClassification";

const NAMES: TensorNames = TensorNames {
    prefixes: &[("", "bert."), ("", "roberta."), ("", "")],
    layers: "encoder.layer",
    outside: &[
        ("token_embd", "embeddings.word_embeddings"),
        ("position_embd", "embeddings.position_embeddings"),
        ("token_types", "embeddings.token_type_embeddings"),
        ("token_embd_norm", "embeddings.LayerNorm"),
        ("output", "lm_head"),
        // RoBERTa's head, and BERT's.
        ("cls", "/classifier.dense"),
        ("cls.output", "/classifier.out_proj"),
        ("pooler", "pooler.dense"),
        ("classifier", "/classifier"),
    ],
    layer: &[
        ("attn_q", "attention.self.query"),
        ("attn_k", "attention.self.key"),
        ("attn_v", "attention.self.value"),
        ("attn_output", "attention.output.dense"),
        ("post_attention_norm", "attention.output.LayerNorm"),
        ("ffn_up", "intermediate.dense"),
        ("ffn_down", "output.dense"),
        ("post_ffw_norm", "output.LayerNorm"),
    ],
    gguf: GGUF_NORMS,
    // The pooler (a product of the first row, not used), and index buffers.
    ignored: &["*pooler.dense.weight", "*pooler.dense.bias", "*embeddings.position_ids", "*embeddings.token_type_ids"],
};

/// What GGUF files call norms behind blocks.
pub(super) const GGUF_NORMS: &[(&str, &str)] =
    &[("post_attention_norm", "attn_output_norm"), ("post_ffw_norm", "layer_output_norm")];

/// How many kinds of tokens there are.
pub(super) fn token_types(keys: &Keys<'_>) -> Result<usize> {
    match keys.size("", "type_vocab_size")? {
        Some(n) => Ok(n),
        None if keys.is_gguf() && keys.has_tensor("token_types.weight") => keys.rows_of("token_types.weight"),
        None => Ok(0),
    }
}

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    keys.must_be("position_embedding_type", &json!("absolute"))?;
    keys.must_be("is_decoder", &json!(false))?;
    keys.must_be("add_cross_attention", &json!(false))?;
    // Of training, of a head that is none of these models', and what old configurations say of the same.
    keys.ignore(&[
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "classifier_dropout",
        "gradient_checkpointing",
        "output_past",
    ]);
    keys.ignore(&[
        "directionality",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
    ]);
    keys.ignore(&["sentence_transformers", "sbert_ce_default_activation_function"]);
    if keys.flag("attention.causal", "")? == Some(true) {
        return Err(Error::unsupported("bert.attention.causal: rows of BERT see all of a text"));
    }
    let mut c = ModelConfig::read(keys, "bert", ("attention.layer_norm_epsilon", "layer_norm_eps"))?;
    // RoBERTa counts from behind the number of its padding.
    let first =
        match keys.is_gguf() || keys.is_hf_class("BertModel") || keys.is_hf_class("BertForSequenceClassification") {
            true => 0,
            false => keys.count("pad_token_id")?.unwrap_or(1) + 1,
        };
    let token_types = token_types(keys)?;
    c.context = c
        .context
        .checked_sub(first as u32)
        .filter(|n| *n > 0)
        .ok_or_else(|| Error::bad_model("config.json: no positions are left"))?;
    c.encoder = Encoder { both_ways: true, embed_norm: true, token_types, first_position: first, ..Encoder::default() };
    c.layers.fill(LayerKind { rope: NO_ROPE, ..LayerKind::USUAL });
    c.ropes.clear();
    c.learned_positions = true;
    c.norm = NormKind::Layer;
    c.norms = Norms::Behind;
    c.biases = Biases { qkv: true, output: true, ff: true, experts: false };
    let activation = if keys.is_gguf() { Activation::Gelu } else { c.mlp.activation };
    c.mlp = Mlp { gated: false, ..Mlp::gated(activation) };
    c.tied = Some(true);
    Ok(c)
}
