//! Gemma 4 E2B and E4B: patches of any grid with positions that rotate, columns one half of a head and rows the other,
//! tables for both beside that, products between limits, and one product that makes a row of the mean of nine patches.
//! The large ones standardise these means.

use millrace_picture::Gemma4;
use serde_json::{Map, Value, json};

use super::{
    Family, Joining, Parts, ProjectorNorm, Table, VisionConfig, Words, asked_of, reads_pictures, rotated,
    rotated_as_usual, whole, width_of_text, wrong_in,
};
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
use crate::model::config::{ModelConfig, NormKind, Norms, QkNorm, activation};
use crate::model::keys::Keys;
use crate::model::names::TensorNames;
use crate::plan::{Activation, AxesOrder, Heads, Mlp};

pub const GEMMA4: Family = Family {
    gguf: "gemma4v",
    hf: &["Gemma4ForConditionalGeneration"],
    read,
    names: &NAMES,
    parts: Parts::of(["v.position_embd", "v.patch_embd", "", "mm.input_projection"], None),
};

pub(super) const NAMES: TensorNames = TensorNames {
    prefixes: &[("", "model.vision_tower.")],
    layers: "encoder.layers",
    outside: &[
        ("v.position_embd", "patch_embedder.position_embedding_table="),
        ("v.patch_embd", "patch_embedder.input_proj"),
        ("mm.input_projection", "/model.embed_vision.embedding_projection"),
        ("v.std_bias", "std_bias="),
        ("v.std_scale", "std_scale="),
    ],
    layer: &[
        ("attn_q", "self_attn.q_proj.linear"),
        ("attn_k", "self_attn.k_proj.linear"),
        ("attn_v", "self_attn.v_proj.linear"),
        ("attn_output", "self_attn.o_proj.linear"),
        ("post_attention_norm", "post_attention_layernorm"),
        ("ffn_norm", "pre_feedforward_layernorm"),
        ("ffn_gate", "mlp.gate_proj.linear"),
        ("ffn_up", "mlp.up_proj.linear"),
        ("ffn_down", "mlp.down_proj.linear"),
        ("post_ffw_norm", "post_feedforward_layernorm"),
        ("attn_q.limits", "self_attn.q_proj"),
        ("attn_k.limits", "self_attn.k_proj"),
        ("attn_v.limits", "self_attn.v_proj"),
        ("attn_output.limits", "self_attn.o_proj"),
        ("ffn_gate.limits", "mlp.gate_proj"),
        ("ffn_up.limits", "mlp.up_proj"),
        ("ffn_down.limits", "mlp.down_proj"),
    ],
    gguf: &[
        ("attn_norm", "ln1"),
        ("attn_output", "attn_out"),
        ("post_attention_norm", "attn_post_norm"),
        ("ffn_norm", "ln2"),
        ("post_ffw_norm", "ffn_post_norm"),
        ("attn_q.limits", "attn_q"),
        ("attn_k.limits", "attn_k"),
        ("attn_v.limits", "attn_v"),
        ("attn_output.limits", "attn_out"),
        ("ffn_gate.limits", "ffn_gate"),
        ("ffn_up.limits", "ffn_up"),
        ("ffn_down.limits", "ffn_down"),
    ],
    // The language model, and what reads sounds.
    ignored: &["model.language_model.", "lm_head.", "model.audio_tower.", "model.embed_audio.", "a.", "mm.a."],
};

/// The tokens around a picture's rows.
pub(super) const WORDS: Words = Words::of_whole(["<|image>", "<|image|>", "<image|>"]);
/// Base of the rotations.
const BASE: f64 = 100.0;
/// Epsilon of the projector's norm, which no file says.
const PROJECTOR_EPS: f64 = 1e-6;

fn read(keys: &Keys<'_>, checkpoint: &Checkpoint) -> Result<VisionConfig> {
    let standardised = keys.flag("", "standardize")?.unwrap_or(false) || keys.has_tensor("v.std_bias");
    let (d, h) =
        (keys.need("embedding_length", "hidden_size")?, keys.need("attention.head_count", "num_attention_heads")?);
    let (g, e) = (keys.size("", "num_key_value_heads")?.unwrap_or(h), keys.size("", "head_dim")?.unwrap_or(d / h));
    let (ff, layers) = (keys.need("feed_forward_length", "intermediate_size")?, keys.layers()?);
    let (patch, merge) = (
        keys.need("patch_size", "patch_size")?,
        keys.size("projector.scale_factor", "pooling_kernel_size")?.unwrap_or(3),
    );
    let pictures = Gemma4 {
        patch_size: whole(patch),
        pooling_kernel_size: whole(merge),
        doubled: true,
        ..pictures(checkpoint, patch * merge)?
    };
    let patches = u32::try_from(u64::from(pictures.max_soft_tokens) * (merge as u64).pow(2)).unwrap_or(u32::MAX);

    let mut tower = ModelConfig::plain("gemma4v", d, ff, Heads { h, g, e }, layers);
    tower.eps = keys.positive("attention.layer_norm_epsilon", "rms_norm_eps")?.unwrap_or(1e-6);
    // llama.cpp takes another formula where its files say none; what the models were trained with is this one.
    let gelu = keys.text("", "hidden_activation")?.map_or(Ok(Activation::GeluTanh), activation)?;
    tower.mlp = Mlp::gated(gelu);
    (tower.norms, tower.qk_norm, tower.value_norm, tower.score_scale) = (Norms::Around, QkNorm::Each, true, 1.0);
    rotated(&mut tower, BASE, AxesOrder::Halves)?;
    reads_pictures(&mut tower, patches);

    let Of { positions, width, limited } = match &checkpoint.metadata {
        Metadata::Gguf(_) => of_gguf(keys, checkpoint, d)?,
        Metadata::Hf(m) => of_hf(keys, &m.config)?,
    };
    // Of the mean times the width's root: where rows are not standardised the epsilon says so.
    let eps = if standardised { PROJECTOR_EPS } else { PROJECTOR_EPS / d as f64 };
    Ok(VisionConfig {
        merge,
        joining: Joining::Mean,
        norm: Some(ProjectorNorm { kind: NormKind::Rms, eps, offset: 0.0, each: false }),
        standardised,
        by_channel: keys.is_gguf(),
        table: Table::Added,
        limited: Some(limited),
        ..VisionConfig::of(tower, [patch, width], [2, positions], millrace_picture::Family::Gemma4(pictures), WORDS)
    })
}

/// What the two forms of files say each its own way.
struct Of {
    /// Columns, and rows, that there are positions for.
    positions: usize,
    /// The language model's width.
    width: usize,
    /// Whether every product has to have limits; otherwise those have that are there.
    limited: bool,
}

fn of_gguf(keys: &Keys<'_>, checkpoint: &Checkpoint, d: usize) -> Result<Of> {
    // A number of the format's alone: pictures are of any size.
    keys.ignore_gguf(&[
        "image_size",
        "projector_type",
        "attention.head_count_kv",
        "image_min_pixels",
        "image_max_pixels",
    ]);
    if [keys.channels("image_mean")?, keys.channels("image_std")?] != [[0.0; 3], [1.0; 3]] {
        return Err(Error::unsupported(
            "clip.vision.image_mean and image_std; this version reads pictures with means of 0 and deviations of 1",
        ));
    }
    Ok(Of { positions: positions_of(checkpoint, d)?, width: keys.need("projection_dim", "")?, limited: false })
}

/// Columns, and rows, that a GGUF file has positions of `d` numbers for.
pub(super) fn positions_of(checkpoint: &Checkpoint, d: usize) -> Result<usize> {
    let table = "v.position_embd.weight";
    let positions = match checkpoint.tensors.get(table).map(|t| t.shape.as_slice()) {
        Some([2, n, width]) if *width == d as u64 => usize::try_from(*n).ok(),
        _ => None,
    };
    positions
        .filter(|n| *n > 0)
        .ok_or_else(|| Error::bad_model(format!("tensor {table} is no pair of tables of {d} numbers a position")))
}

fn of_hf(keys: &Keys<'_>, config: &Map<String, Value>) -> Result<Of> {
    rotated_as_usual(keys, BASE)?;
    keys.must_be("attention_bias", &json!(false))?;
    // How many rows pictures become is the processor's to say.
    keys.ignore(&["max_position_embeddings", "default_output_length", "global_head_dim"]);
    Ok(Of {
        positions: keys.need("", "position_embedding_size")?,
        width: width_of_text(config)?,
        limited: keys.flag("", "use_clipped_linears")?.unwrap_or(false),
    })
}

/// How pictures are wanted of which squares of so many pixels become a row: as the processor's file says, or as by
/// default, and one patch a row.
pub(super) fn pictures(checkpoint: &Checkpoint, square: usize) -> Result<Gemma4> {
    let asked = asked_of(checkpoint);
    let read = Gemma4::from_config(asked.as_ref().unwrap_or(&Map::new())).map_err(wrong_in("processor_config.json"))?;
    if asked.is_some() && u64::from(read.patch_size) * u64::from(read.pooling_kernel_size) != square as u64 {
        return Err(Error::bad_model("processor_config.json and config.json have other sizes of patches"));
    }
    Ok(Gemma4 { patch_size: whole(square), pooling_kernel_size: 1, doubled: false, ..read })
}
