//! Qwen3-VL, Qwen3.5 and what follows it: patches of any grid with positions that rotate, a table of positions beside it, and two products that make a row
//! of four patches. Qwen3-VL's language model also adds features of layers in the tower's midst.

use millrace_picture::{QwenVl, TableResize};
use serde_json::{Map, Value, json};

use super::{Family, Joining, Parts, Table, VisionConfig, Words, asked_of, rows_of, siglip, square};
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
use crate::model::config::{Stored, activation};
use crate::model::keys::Keys;
use crate::model::names::TensorNames;
use crate::model::rope::{Rope, Scaling};
use crate::plan::{Activation, Axes, AxesOrder};

pub const QWEN3_VL: Family = Family {
    gguf: "qwen3vl_merger",
    hf: &["Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration", "Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration"],
    read,
    names: &NAMES,
    parts: Parts {
        positions: "v.position_embd",
        patches: "v.patch_embd",
        norm: Some("v.post_ln"),
        projector_norm: Some("mm.input_norm"),
        up: "mm.0",
        down: "mm.2",
    },
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
/// Most rows of a picture, of 32 x 32 pixels each: larger ones are made smaller. What files ask for, 16 megapixels, is 16,384 rows, more than a browser's
/// context.
const MOST_ROWS: usize = 1024;

fn read(keys: &Keys<'_>, checkpoint: &Checkpoint) -> Result<VisionConfig> {
    let width = keys.need("embedding_length", "hidden_size")?;
    let (h, layers) = (keys.need("attention.head_count", "num_heads")?, keys.need("block_count", "depth")?);
    let sizes = [width, keys.need("feed_forward_length", "intermediate_size")?, h, layers];
    // llama.cpp's converter writes the language model's epsilon.
    keys.ignore_gguf(&["attention.layer_norm_epsilon"]);
    let gelu = keys.text("", "hidden_act")?.map_or(Ok(Activation::GeluTanh), activation)?;
    let (patch, merge) = (keys.need("patch_size", "patch_size")?, keys.size("spatial_merge_size", "spatial_merge_size")?.unwrap_or(2));
    let mut tower = siglip("qwen3vl_merger", sizes, EPS, gelu, (MOST_ROWS * merge * merge) as u32)?;
    let e = tower.heads.e;
    if !e.is_multiple_of(4) {
        return Err(Error::bad_model(format!("heads of {e} in what reads pictures: rows and columns rotate a quarter of each")));
    }
    tower.stored = Stored { qkv: true, ..Stored::default() };
    let axes = Some(Axes { rows: e / 4, columns: e / 4, order: AxesOrder::Apart });
    tower.ropes = vec![Rope { base: BASE, dims: e, interleaved: false, scaling: Scaling::EachAxis { pairs: e / 4 }, factor: 1.0, growth: None, axes }];
    tower.layers.iter_mut().for_each(|layer| layer.rope = 0);
    let (deep, rows, width) = match &checkpoint.metadata {
        Metadata::Gguf(_) => of_gguf(keys, checkpoint, layers)?,
        Metadata::Hf(_) => of_hf(keys, layers)?,
    };
    Ok(VisionConfig {
        patch,
        positions: square(rows)?,
        merge,
        joining: Joining::Wide,
        hidden: Some(merge * merge * tower.width),
        width,
        activation: Activation::Gelu,
        norm: None,
        by_channel: true,
        // llama.cpp's files have a tensor for each of two frames.
        frames: if keys.is_gguf() { 1 } else { keys.size("", "temporal_patch_size")?.unwrap_or(2) },
        apart: keys.is_gguf(),
        table: Table::Resized(TableResize::AlignedCorners),
        deep,
        grid: true,
        limited: None,
        pictures: pictures(keys, checkpoint, [patch, merge])?,
        words: Words { start: "<|vision_start|>", row: "<|image_pad|>", end: "<|vision_end|>", tile: |_| String::new() },
        tower,
    })
}

/// Layers whose features go to the language model's first layers, rows of the table of positions, and the language model's width.
type Of = (Vec<usize>, usize, usize);

fn of_gguf(keys: &Keys<'_>, checkpoint: &Checkpoint, layers: usize) -> Result<Of> {
    // A number of the format's alone: pictures are of any size.
    keys.ignore_gguf(&["image_size", "projector_type", "attention.head_count_kv", "image_min_pixels", "image_max_pixels", "projector.scale_factor"]);
    let deep = keys.flags("is_deepstack_layers", layers)?.unwrap_or_default();
    let deep: Vec<usize> = deep.iter().enumerate().filter(|(_, deep)| **deep).map(|(i, _)| i).collect();
    let (width, said) = (rows_of(checkpoint, "mm.2.weight")?, keys.need("projection_dim", "")?);
    if said != width && said != width * (1 + deep.len()) {
        return Err(Error::bad_model(format!("clip.vision.projection_dim is {said}, but rows of pictures have {width} numbers")));
    }
    Ok((deep, rows_of(checkpoint, "v.position_embd.weight")?, width))
}

fn of_hf(keys: &Keys<'_>, layers: usize) -> Result<Of> {
    // Some writers say what is always so.
    let usual = |(key, value): (&String, &Value)| match key.as_str() {
        "rope_type" => ["default", "axial"].iter().any(|kind| value == kind),
        "rope_theta" => value.as_f64() == Some(BASE),
        _ => false,
    };
    if !keys.object("rope_parameters")?.is_none_or(|parameters| parameters.iter().all(usual)) {
        return Err(Error::unsupported("config.json: rope_parameters of vision_config are other than axial ones of base 10000"));
    }
    keys.must_be("in_channels", &json!(3))?;
    let deep = keys.counts("deepstack_visual_indexes")?.unwrap_or_default();
    let deep: Vec<usize> = deep.into_iter().map(|layer| usize::try_from(layer).unwrap_or(usize::MAX)).collect();
    if deep.iter().any(|layer| *layer >= layers) || deep.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(Error::bad_model(format!("config.json: deepstack_visual_indexes {deep:?} of {layers} layers; they have to rise")));
    }
    Ok((deep, keys.need("", "num_position_embeddings")?, keys.need("", "out_hidden_size")?))
}

/// How it wants pictures.
fn pictures(keys: &Keys<'_>, checkpoint: &Checkpoint, [patch, merge]: [usize; 2]) -> Result<millrace_picture::Family> {
    let asked = asked_of(checkpoint);
    let read = QwenVl::from_config(asked.as_ref().unwrap_or(&Map::new())).map_err(|e| Error::bad_model(format!("preprocessor_config.json: {e}")))?;
    let whole = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let [mean, std] = if keys.is_gguf() { [keys.channels("image_mean")?, keys.channels("image_std")?] } else { [read.mean, read.std] };
    let most = whole(MOST_ROWS * (patch * merge).pow(2));
    Ok(millrace_picture::Family::QwenVl(QwenVl {
        patch_size: whole(patch),
        merge_size: whole(merge),
        max_pixels: read.max_pixels.min(most),
        min_pixels: read.min_pixels.min(most),
        mean,
        std,
        ..read
    }))
}
