//! Qwen3-VL, Qwen3.5 and what follows it: patches of any grid with positions that rotate, a table of positions beside
//! it, and two products that make a row of four patches. Qwen3-VL's language model also adds features of layers in the
//! tower's midst.

use millrace_picture::{QwenVl, TableResize};
use serde_json::json;

use super::{
    Family, MOST_ROWS, Parts, Table, VisionConfig, Words, of_any_size, rotated, rotated_as_usual, rows_of, siglip,
    square,
};
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
use crate::model::config::{Stored, activation};
use crate::model::keys::Keys;
use crate::model::names::TensorNames;
use crate::plan::{Activation, AxesOrder};

pub const QWEN3_VL: Family = Family {
    gguf: "qwen3vl_merger",
    hf: &["Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration", "Qwen3VLForConditionalGeneration"],
    read,
    names: &NAMES,
    parts: Parts::of(["v.position_embd", "v.patch_embd", "mm.0", "mm.2"], Some("v.post_ln")),
};

const NAMES: TensorNames = TensorNames {
    prefixes: &[("", "model.visual."), ("", "visual.")],
    layers: "blocks",
    outside: &[
        ("v.position_embd", "pos_embed"),
        ("v.patch_embd", "patch_embed.proj"),
        ("v.post_ln", "merger.norm"),
        ("mm.0", "merger.linear_fc1"),
        ("mm.2", "merger.linear_fc2"),
    ],
    layer: &[
        ("attn_norm", "norm1"),
        ("attn_qkv", "attn.qkv"),
        ("attn_output", "attn.proj"),
        ("ffn_norm", "norm2"),
        ("ffn_up", "mlp.linear_fc1"),
        ("ffn_down", "mlp.linear_fc2"),
    ],
    gguf: &[("attn_norm", "ln1"), ("ffn_norm", "ln2"), ("attn_output", "attn_out")],
    ignored: &["model.language_model.", "lm_head.", "mtp."],
};

/// Base of the rotations.
const BASE: f64 = 10_000.0;
/// Epsilon of all norms, which no file says.
const EPS: f64 = 1e-6;

fn read(keys: &Keys<'_>, checkpoint: &Checkpoint) -> Result<VisionConfig> {
    let width = keys.need("embedding_length", "hidden_size")?;
    let (h, layers) = (keys.need("attention.head_count", "num_heads")?, keys.need("block_count", "depth")?);
    let sizes = [width, keys.need("feed_forward_length", "intermediate_size")?, h, layers];
    // llama.cpp's converter writes the language model's epsilon.
    keys.ignore_gguf(&["attention.layer_norm_epsilon"]);
    let gelu = keys.text("", "hidden_act")?.map_or(Ok(Activation::GeluTanh), activation)?;
    let (patch, merge) =
        (keys.need("patch_size", "patch_size")?, keys.size("spatial_merge_size", "spatial_merge_size")?.unwrap_or(2));
    let mut tower = siglip("qwen3vl_merger", sizes, EPS, gelu, (MOST_ROWS * merge * merge) as u32)?;
    tower.stored = Stored { qkv: true, ..Stored::default() };
    rotated(&mut tower, BASE, AxesOrder::Apart)?;
    let (deepstack, rows, width) = match &checkpoint.metadata {
        Metadata::Gguf(_) => of_gguf(keys, checkpoint, layers)?,
        Metadata::Hf(_) => of_hf(keys, layers)?,
    };
    let words = Words::of_whole(["<|vision_start|>", "<|image_pad|>", "<|vision_end|>"]);
    let pictures = of_any_size(keys, checkpoint, QwenVl::default(), [patch, merge])?;
    Ok(VisionConfig {
        merge,
        hidden: Some(merge * merge * tower.width),
        activation: Activation::Gelu,
        // llama.cpp's files have a tensor for each of two frames.
        frames: if keys.is_gguf() { 1 } else { keys.size("", "temporal_patch_size")?.unwrap_or(2) },
        apart: keys.is_gguf(),
        table: Table::Resized(TableResize::AlignedCorners),
        deepstack,
        grid: true,
        ..VisionConfig::of(tower, [patch, width], square(rows)?, pictures, words)
    })
}

/// Layers whose features go to the language model's first layers, rows of the table of positions, and the language
/// model's width.
type Of = (Vec<usize>, usize, usize);

fn of_gguf(keys: &Keys<'_>, checkpoint: &Checkpoint, layers: usize) -> Result<Of> {
    // A number of the format's alone: pictures are of any size.
    keys.ignore_gguf(&["image_size", "projector_type", "attention.head_count_kv", "projector.scale_factor"]);
    let deepstack = keys.flags("is_deepstack_layers", layers)?.unwrap_or_default();
    let deepstack: Vec<usize> =
        deepstack.iter().enumerate().filter(|(_, deepstack)| **deepstack).map(|(i, _)| i).collect();
    let (width, said) = (rows_of(checkpoint, "mm.2.weight")?, keys.need("projection_dim", "")?);
    if said != width && said != width * (1 + deepstack.len()) {
        return Err(Error::bad_model(format!(
            "clip.vision.projection_dim is {said}, but rows of pictures have {width} numbers"
        )));
    }
    Ok((deepstack, rows_of(checkpoint, "v.position_embd.weight")?, width))
}

fn of_hf(keys: &Keys<'_>, layers: usize) -> Result<Of> {
    rotated_as_usual(keys, BASE)?;
    keys.must_be("in_channels", &json!(3))?;
    let deepstack = keys.counts("deepstack_visual_indexes")?.unwrap_or_default();
    let deepstack: Vec<usize> =
        deepstack.into_iter().map(|layer| usize::try_from(layer).unwrap_or(usize::MAX)).collect();
    if deepstack.iter().any(|layer| *layer >= layers) || deepstack.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(Error::bad_model(format!(
            "config.json: deepstack_visual_indexes {deepstack:?} of {layers} layers; they have to rise"
        )));
    }
    Ok((deepstack, keys.need("", "num_position_embeddings")?, keys.need("", "out_hidden_size")?))
}
