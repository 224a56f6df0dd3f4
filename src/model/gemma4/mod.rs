//! Gemma 4 as a language model: layers with a window and narrow heads to one that sees everything with heads of 512,
//! values that are normed, in the small ones numbers of each token for each layer and last layers that read earlier
//! ones' keys and values, in one experts beside the usual network. Of checkpoints that read pictures and sound, too,
//! the language model is read.

mod names;

use serde_json::{Value, json};

use super::Architecture;
use super::config::{FeedForwardKind, MixerKind, Mixture, ModelConfig, Norms, PictureAttention, QkNorm, activation};
use super::keys::Keys;
use super::rope::{Rope, Scaling};
use crate::error::{Error, Result};
use crate::plan::{Activation, Heads, Routing, Scores};

pub const GEMMA4: Architecture = Architecture {
    file: file!(),
    gguf: "gemma4",
    hf: &["Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration"],
    read,
    names: &names::NAMES,
};

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    // 12B's class has no numbers of tokens for layers, and another default of how pictures are attended to.
    let unified = keys.hf_class().starts_with("Gemma4Unified");
    keys.defaults(if unified { DEFAULTS } else { PER_LAYER_DEFAULTS });
    keys.allow_differences();
    let mut c = ModelConfig::read_rms(keys, "gemma4")?;
    let n = c.layers.len();
    keys.ignore_gguf_under(&["vision.", "audio."]);
    c.mlp.activation = keys.text("", "hidden_activation")?.map_or(Ok(Activation::GeluTanh), activation)?;
    keys.must_be("attention_bias", &json!(false))?;
    // Only pictures are seen in both directions.
    keys.must_be("use_bidirectional_attention", &json!("vision"))?;
    let both_ways = keys.has("use_bidirectional_attention") || unified && !keys.is_null("use_bidirectional_attention");
    (c.norms, c.qk_norm, c.value_norm, c.layer_scales) = (Norms::Around, QkNorm::Each, true, true);
    (c.score_scale, c.embed_scale) = (1.0, (c.width as f64).sqrt());
    c.logit_cap = keys.number("final_logit_softcapping", "final_logit_softcapping")?.unwrap_or(0.0);
    c.tied = if keys.is_gguf() { None } else { Some(keys.flag("", "tie_word_embeddings")?.unwrap_or(true)) };
    let slides = keys.flags("attention.sliding_window_pattern", n)?;
    c.set_windows(keys, keys.size("attention.sliding_window", "sliding_window")?, |i| {
        slides.as_ref().map_or((i + 1) % 6 != 0, |list| list[i])
    })?;
    c.layers[n - 1].window = None;
    heads(keys, &mut c)?;
    // The last layers read what the last of their kind before them has.
    let own = n - keys.size_or_none("attention.shared_kv_layers", "num_kv_shared_layers")?.min(n);
    let wide = keys.flag("", "use_double_wide_mlp")?.unwrap_or(false);
    let widths = keys.sizes("feed_forward_length", n)?;
    for i in 0..n {
        let kind = c.layers[i].window.is_some();
        if i >= own {
            let of = c.layers[..own].iter().rposition(|layer| layer.window.is_some() == kind);
            c.layers[i].mixer = MixerKind::Shared(
                of.ok_or_else(|| Error::bad_model(format!("layer {i} has no layer to read keys and values of")))?,
            );
        }
        c.layers[i].ff = widths.as_ref().map(|list| list[i]).or((wide && i >= own).then_some(2 * c.ff));
        c.layers[i].rope = usize::from(kind);
    }
    c.per_layer =
        Some(keys.size_or_none("embedding_length_per_layer_input", "hidden_size_per_layer_input")?).filter(|p| *p > 0);
    // GGUF files have no such key: a picture's rows see ahead in models without per-layer inputs.
    let ahead = if keys.is_gguf() { c.per_layer.is_none() } else { both_ways };
    c.picture_attention = match (ahead, unified) {
        (false, _) => PictureAttention::Causal,
        (true, false) => PictureAttention::BothWaysInWindows,
        (true, true) => PictureAttention::BothWays,
    };
    c.row_token = if c.per_layer.is_some() { Some(keys.padding_token()?.unwrap_or(0)) } else { None };
    if let Some(id) = c.row_token.filter(|id| *id as usize >= c.vocab) {
        return Err(Error::bad_model(format!(
            "configuration: the padding token {id}, whose numbers for layers pictures have, is none of {}",
            c.vocab
        )));
    }
    let vocab = keys.size("", "vocab_size_per_layer_input")?;
    if c.per_layer.is_some() && vocab.is_some_and(|v| v != c.vocab) {
        return Err(Error::unsupported(
            "config.json: vocab_size_per_layer_input; this version runs Gemma 4 with as many as vocab_size",
        ));
    }
    experts(keys, &mut c)?;
    Ok(c)
}

/// Heads and rotations of both kinds of layers.
fn heads(keys: &Keys<'_>, c: &mut ModelConfig) -> Result<()> {
    let n = c.layers.len();
    let same = keys.flag("", "attention_k_eq_v")?.unwrap_or(false);
    let (mut narrow, mut wide) = (c.heads, c.heads);
    if keys.is_gguf() {
        narrow.e = keys.need("attention.key_length_swa", "")?;
        if keys.size("attention.value_length_swa", "")?.is_some_and(|v| v != narrow.e) {
            return Err(Error::unsupported("heads whose values are not as wide as their keys"));
        }
    } else {
        wide.e = keys.size("", "global_head_dim")?.unwrap_or(512);
        wide.g = keys.size("", "num_global_key_value_heads")?.filter(|_| same).unwrap_or(wide.g);
    }
    let groups = keys.sizes("attention.head_count_kv", n)?;
    let each = keys.object("per_layer_config")?;
    c.heads = narrow;
    for (i, layer) in c.layers.iter_mut().enumerate() {
        let slides = layer.window.is_some();
        let mut own = if slides { narrow } else { wide };
        own.g = groups.as_ref().map_or(own.g, |list| list[i]);
        for (key, value) in
            each.and_then(|each| each.get(&i.to_string())).and_then(Value::as_object).into_iter().flatten()
        {
            match (key.as_str(), value.as_u64()) {
                ("head_dim", Some(e)) => own.e = e as usize,
                ("num_key_value_heads", Some(g)) => own.g = g as usize,
                _ => {
                    return Err(Error::unsupported(format!(
                        "config.json: per_layer_config: {key} is not known to this version"
                    )));
                }
            }
        }
        layer.heads = Some(own).filter(|own: &Heads| *own != narrow);
        layer.keys_are_values =
            !slides && if keys.is_gguf() { !keys.has_tensor(&format!("blk.{i}.attn_v.weight")) } else { same };
    }
    let sizes = [c.heads_of(n - 1).e, narrow.e];
    let (full, sliding) = match Rope::by_kind_of(keys, c, sizes)? {
        Some(kinds) => kinds,
        None if keys.is_gguf() => {
            let base = keys.positive("rope.freq_base_swa", "")?.unwrap_or(10_000.0);
            let dims = keys.size("rope.dimension_count_swa", "")?.unwrap_or(narrow.e);
            (c.ropes[0].clone(), Rope { base, dims, scaling: Scaling::None, factor: 1.0, ..c.ropes[0].clone() })
        }
        None => return Err(Error::bad_model("config.json: rope_parameters is missing")),
    };
    c.ropes = vec![full, sliding];
    Ok(())
}

/// Experts beside the usual network, if there are any.
fn experts(keys: &Keys<'_>, c: &mut ModelConfig) -> Result<()> {
    let count = keys.size_or_none("expert_count", "num_experts")?;
    let used = keys.size_or_none("expert_used_count", "top_k_experts")?;
    let ff = keys.size_or_none("expert_feed_forward_length", "moe_intermediate_size")?;
    let used_at_all = keys.flag("", "enable_moe_block")?.unwrap_or(keys.is_gguf());
    if count == 0 || !used_at_all {
        return Ok(());
    }
    c.experts =
        Some(Mixture { routing: Routing { scores: Scores::Scaled, count, used, normed: true }, ff, shared: None });
    c.stored.experts_gate_up = true;
    c.layers.iter_mut().for_each(|layer| layer.feed_forward = FeedForwardKind::Both);
    Ok(())
}

/// transformers' defaults: of classes with per-layer inputs, and (without the last entry) of the class without.
const PER_LAYER_DEFAULTS: &[(&str, f64)] = &[
    ("vocab_size", 262_144.0),
    ("num_attention_heads", 8.0),
    ("num_key_value_heads", 4.0),
    ("head_dim", 256.0),
    ("max_position_embeddings", 131_072.0),
    ("sliding_window", 512.0),
    ("rms_norm_eps", 1e-6),
    ("hidden_size_per_layer_input", 256.0),
];
const DEFAULTS: &[(&str, f64)] = PER_LAYER_DEFAULTS.split_at(PER_LAYER_DEFAULTS.len() - 1).0;
