//! GLM-OCR: patches of any grid with positions that rotate, norms of queries and keys, and a row of four patches by two
//! products, a norm and a gated network.

use millrace_picture::QwenVl;
use serde_json::json;

use super::{
    Family, Joining, MOST_ROWS, Parts, ProjectorNorm, Table, VisionConfig, Words, of_any_size, reads_pictures, rotated,
    rotated_as_usual, rows_of, whole,
};
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
use crate::model::config::{Biases, ModelConfig, QkNorm, Stored, activation};
use crate::model::keys::Keys;
use crate::model::names::TensorNames;
use crate::plan::{Activation, AxesOrder, Heads, Mlp};

pub const GLM_OCR: Family = Family {
    gguf: "glm4v",
    hf: &["GlmOcrForConditionalGeneration"],
    read,
    names: &NAMES,
    parts: Parts {
        projector_norm: Some("mm.post_norm"),
        merger: "mm.patch_merger",
        gated: ["mm.gate", "mm.up"],
        ..Parts::of(["", "v.patch_embd", "mm.model.fc", "mm.down"], Some("v.post_ln"))
    },
};

const NAMES: TensorNames = TensorNames {
    prefixes: &[("", "model.visual.")],
    layers: "blocks",
    outside: &[
        ("v.patch_embd", "patch_embed.proj"),
        ("v.post_ln", "post_layernorm"),
        ("mm.patch_merger", "downsample"),
        ("mm.model.fc", "merger.proj"),
        ("mm.post_norm", "merger.post_projection_norm"),
        ("mm.gate", "merger.gate_proj"),
        ("mm.up", "merger.up_proj"),
        ("mm.down", "merger.down_proj"),
    ],
    layer: &[
        ("attn_norm", "norm1"),
        ("attn_qkv", "attn.qkv"),
        ("attn_q_norm", "attn.q_norm"),
        ("attn_k_norm", "attn.k_norm"),
        ("attn_output", "attn.proj"),
        ("ffn_norm", "norm2"),
    ],
    gguf: &[("attn_norm", "ln1"), ("ffn_norm", "ln2"), ("attn_output", "attn_out")],
    ignored: &["model.language_model.", "lm_head."],
};

/// What transformers has where config.json says nothing.
const DEFAULTS: &[(&str, f64)] = &[
    ("hidden_size", 1024.0),
    ("intermediate_size", 4096.0),
    ("depth", 24.0),
    ("num_heads", 16.0),
    ("patch_size", 14.0),
    ("out_hidden_size", 1536.0),
];
/// Base of the rotations.
const BASE: f64 = 10_000.0;
/// Epsilon of the tower's norms where a file does not say it.
const EPS: f64 = 1e-5;
/// Epsilon of the projector's norm, which no file says: PyTorch's usual one.
const PROJECTOR_EPS: f64 = 1e-5;
/// How often a picture is there: a film has two frames to a patch.
const FRAMES: usize = 2;

fn read(keys: &Keys<'_>, checkpoint: &Checkpoint) -> Result<VisionConfig> {
    keys.defaults(DEFAULTS);
    let (width, h) = (keys.need("embedding_length", "hidden_size")?, keys.need("attention.head_count", "num_heads")?);
    if !width.is_multiple_of(h) {
        return Err(Error::bad_model(format!("{h} heads do not divide the width {width} of what reads pictures")));
    }
    let (ff, layers) = (keys.need("feed_forward_length", "intermediate_size")?, keys.need("block_count", "depth")?);
    let (patch, merge) =
        (keys.need("patch_size", "patch_size")?, keys.size("spatial_merge_size", "spatial_merge_size")?.unwrap_or(2));
    let Of { bias, activation, width: text, gated } = match &checkpoint.metadata {
        Metadata::Gguf(metadata) => of_gguf(keys, metadata.opt::<bool>("clip.use_silu")?, checkpoint)?,
        Metadata::Hf(_) => of_hf(keys)?,
    };
    let mut tower = ModelConfig::plain("glm4v", width, ff, Heads { h, g: h, e: width / h }, layers);
    tower.eps = keys.positive("attention.layer_norm_epsilon", "rms_norm_eps")?.unwrap_or(EPS);
    tower.mlp = Mlp::gated(activation);
    tower.qk_norm = QkNorm::Each;
    tower.biases = Biases { qkv: bias, output: bias, ff: bias, experts: false };
    tower.stored = Stored { qkv: true, ..Stored::default() };
    rotated(&mut tower, BASE, AxesOrder::Apart)?;
    reads_pictures(&mut tower, whole(MOST_ROWS * merge * merge));
    let words = Words {
        printed: Some("<|begin_of_image|><|image|><|end_of_image|>"),
        ..Words::of_whole(["<|begin_of_image|>", "<|image|>", "<|end_of_image|>"])
    };
    let pictures = of_any_size(keys, checkpoint, QwenVl::glm_ocr(), [patch, merge])?;
    Ok(VisionConfig {
        merge,
        joining: Joining::Interleaved,
        merged: Some(text),
        hidden: Some(text),
        gated: Some(gated),
        activation: Activation::Gelu,
        norm: Some(ProjectorNorm::layer(PROJECTOR_EPS)),
        // llama.cpp's files have a tensor for each of two frames.
        frames: if keys.is_gguf() { 1 } else { FRAMES },
        apart: keys.is_gguf(),
        table: Table::None,
        grid: true,
        ..VisionConfig::of(tower, [patch, text], [0, 0], pictures, words)
    })
}

/// What the two forms of files say each its own way.
struct Of {
    /// Whether the tower's products have biases.
    bias: bool,
    /// Of its gated networks, and of the projector's.
    activation: Activation,
    /// The language model's width.
    width: usize,
    /// Width within the projector's gated network.
    gated: usize,
}

fn of_gguf(keys: &Keys<'_>, silu: Option<bool>, checkpoint: &Checkpoint) -> Result<Of> {
    // GLM-4.1V and later ones have the same projector, behind a table of positions.
    if let Some(tensor) =
        ["v.norm_embd.weight", "v.position_embd.weight"].into_iter().find(|tensor| keys.has_tensor(tensor))
    {
        return Err(Error::unsupported(format!(
            "projector glm4v with tensor {tensor} is that of GLM-4.1V or later; this version reads pictures with GLM-OCR's"
        )));
    }
    if silu != Some(true) {
        return Err(Error::unsupported("clip.use_silu is not true; this version reads pictures for glm4v with it"));
    }
    // A number of the format's alone: pictures are of any size.
    keys.ignore_gguf(&["image_size", "projector_type", "attention.head_count_kv"]);
    Ok(Of {
        bias: keys.has_tensor("v.blk.0.attn_qkv.bias"),
        activation: Activation::Silu,
        width: keys.need("projection_dim", "")?,
        gated: rows_of(checkpoint, "mm.gate.weight")?,
    })
}

fn of_hf(keys: &Keys<'_>) -> Result<Of> {
    rotated_as_usual(keys, BASE)?;
    keys.must_be("in_channels", &json!(3))?;
    keys.must_be("temporal_patch_size", &json!(FRAMES))?;
    keys.ignore(&["image_size"]);
    let width = keys.need("", "out_hidden_size")?;
    Ok(Of {
        bias: keys.flag("", "attention_bias")?.unwrap_or(true),
        activation: keys.text("", "hidden_act")?.map_or(Ok(Activation::Silu), activation)?,
        width,
        // As many times as wide as pictures have channels.
        gated: 3 * width,
    })
}
