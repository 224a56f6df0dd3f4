//! Gemma 3 as a language model: Gemma 2 with norms of queries and keys instead of caps, and with five layers that see a
//! window and rotate by a base of their own to one that sees everything. Of checkpoints that read pictures, too, the
//! language model is read.

use super::Architecture;
use super::config::{ModelConfig, PictureAttention, QkNorm};
use super::gemma2;
use super::keys::Keys;
use super::names::TensorNames;
use super::rope::{Rope, Scaling};
use crate::error::{Error, Result};

pub const GEMMA3: Architecture = Architecture {
    file: file!(),
    gguf: "gemma3",
    hf: &["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"],
    read,
    names: &NAMES,
};

pub(super) const NAMES: TensorNames = TensorNames {
    prefixes: &[("", "model."), ("language_model.", "language_model.model."), ("", "model.language_model."), ("", "")],
    ignored: &["vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."],
    ..gemma2::NAMES
};

/// The base of layers with a window, where a file does not say.
const LOCAL_BASE: f64 = 10_000.0;

/// EmbeddingGemma: Gemma 3 with bidirectional attention; layers with a window see half of it in either direction.
pub const GEMMA_EMBEDDING: Architecture =
    Architecture { file: file!(), gguf: EMBEDDING, hf: &["Gemma3TextModel"], read: read_embedding, names: &NAMES };

pub(super) const EMBEDDING: &str = "gemma-embedding";

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    Ok(ModelConfig { picture_attention: PictureAttention::BothWays, ..of(keys, "gemma3")? })
}

fn read_embedding(keys: &Keys<'_>) -> Result<ModelConfig> {
    keys.ignore_gguf(&[
        "attention.causal",
        "dense_2_feat_in",
        "dense_2_feat_out",
        "dense_3_feat_in",
        "dense_3_feat_out",
    ]);
    if !keys.is_gguf() && keys.flag("", "use_bidirectional_attention")? != Some(true) {
        return Err(Error::unsupported(
            "config.json: use_bidirectional_attention is not true; of Gemma 3 without a head this version runs EmbeddingGemma",
        ));
    }
    let mut c = of(keys, EMBEDDING)?;
    c.encoder.both_ways = true;
    for layer in &mut c.layers {
        layer.window = layer.window.map(|window| window / 2 + 1);
    }
    Ok(c)
}

fn of(keys: &Keys<'_>, architecture: &'static str) -> Result<ModelConfig> {
    keys.defaults(DEFAULTS);
    let mut c = gemma2::common(keys, architecture)?;
    c.qk_norm = QkNorm::Each;
    let pattern = keys.flags("attention.sliding_window_pattern", c.layers.len())?;
    let period = match keys.size("", "sliding_window_pattern")? {
        Some(n) => n,
        None => keys.size("", "_sliding_window_pattern")?.unwrap_or(6),
    };
    let window = keys.size_above_0("attention.sliding_window", "sliding_window")?;
    // A GGUF file that names no window has none.
    let has_any = window.is_some() || !keys.is_gguf();
    let slides = |i: usize| pattern.as_ref().map_or(!(i + 1).is_multiple_of(period), |slides| slides[i]);
    c.set_windows(keys, window, |i| has_any && slides(i))?;
    c.score_cap = keys.number("attn_logit_softcapping", "attn_logit_softcapping")?.unwrap_or(0.0);
    c.logit_cap = keys.number("final_logit_softcapping", "final_logit_softcapping")?.unwrap_or(0.0);
    let local = match Rope::by_kind(keys, &c)? {
        Some((full, sliding)) => {
            c.ropes[0] = full;
            sliding
        }
        None => {
            let base = keys.positive("rope.freq_base_swa", "rope_local_base_freq")?.unwrap_or(LOCAL_BASE);
            Rope { base, scaling: Scaling::None, factor: 1.0, ..c.ropes[0].clone() }
        }
    };
    c.ropes.push(local);
    for layer in &mut c.layers {
        layer.rope = usize::from(layer.window.is_some());
    }
    Ok(c)
}

/// What transformers takes where a configuration does not say: those of checkpoints that read pictures say little.
const DEFAULTS: &[(&str, f64)] = &[
    ("vocab_size", 262_208.0),
    ("num_attention_heads", 8.0),
    ("num_key_value_heads", 4.0),
    ("head_dim", 256.0),
    ("max_position_embeddings", 131_072.0),
    ("sliding_window", 4096.0),
    ("rms_norm_eps", 1e-6),
    ("rope_theta", 1e6),
];
