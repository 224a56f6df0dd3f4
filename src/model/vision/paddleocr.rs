//! PaddleOCR-VL: SigLIP over patches of any grid, with positions that rotate beside a table of positions, and two
//! products that make a row of four patches, each of which has been normed twice.

use millrace_picture::{QwenVl, TableResize};
use serde_json::{Map, Value, json};

use super::{
    Family, MOST_ROWS, Parts, ProjectorNorm, SIGLIP, Table, VisionConfig, Words, of_any_size, rotated,
    rotated_as_usual, rows_of, siglip_of, square, width_of_text,
};
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
use crate::model::keys::Keys;
use crate::model::names::TensorNames;
use crate::plan::{Activation, AxesOrder};

pub const PADDLEOCR: Family = Family {
    gguf: "paddleocr",
    hf: &["PaddleOCRVLForConditionalGeneration"],
    read,
    names: &NAMES,
    parts: Parts {
        projector_norm: Some("mm.input_norm"),
        ..Parts::of(["v.position_embd", "v.patch_embd", "mm.1", "mm.2"], Some("v.post_ln"))
    },
};

const NAMES: TensorNames = TensorNames {
    // The second are those of transformers 5's own modules.
    prefixes: &[("mlp_AR.", "visual.vision_model."), ("model.projector.", "model.visual.vision_model.")],
    outside: &[
        ("v.position_embd", "embeddings.position_embedding"),
        ("v.patch_embd", "embeddings.patch_embedding"),
        ("v.post_ln", "post_layernorm"),
        ("mm.input_norm", "/pre_norm"),
        ("mm.1", "/linear_1"),
        ("mm.2", "/linear_2"),
    ],
    ignored: &[
        "model.layers.",
        "model.embed_tokens.",
        "model.norm.",
        "model.language_model.",
        "lm_head.",
        // Of pictures in one sequence, and of one vector for a picture: nothing reads them.
        "visual.vision_model.embeddings.packing_position_embedding.",
        "visual.vision_model.head.",
        "model.visual.vision_model.embeddings.packing_position_embedding.",
        "model.visual.vision_model.head.",
    ],
    ..SIGLIP
};

/// What transformers has where config.json says nothing.
const DEFAULTS: &[(&str, f64)] = &[
    ("hidden_size", 1152.0),
    ("intermediate_size", 4304.0),
    ("num_hidden_layers", 27.0),
    ("num_attention_heads", 16.0),
    ("image_size", 384.0),
    ("patch_size", 14.0),
    ("spatial_merge_size", 2.0),
];
/// Base of the rotations.
const BASE: f64 = 10_000.0;
/// Epsilon of the projector's norm, which no file says: PyTorch's usual one.
const PROJECTOR_EPS: f64 = 1e-5;

fn read(keys: &Keys<'_>, checkpoint: &Checkpoint) -> Result<VisionConfig> {
    keys.defaults(DEFAULTS);
    let (patch, merge) =
        (keys.need("patch_size", "patch_size")?, keys.size("spatial_merge_size", "spatial_merge_size")?.unwrap_or(2));
    let mut tower = siglip_of(keys, "paddleocr", (MOST_ROWS * merge * merge) as u32)?;
    rotated(&mut tower, BASE, AxesOrder::Apart)?;
    let (table, positions, width) = match &checkpoint.metadata {
        Metadata::Gguf(_) => of_gguf(keys, checkpoint)?,
        Metadata::Hf(m) => of_hf(keys, &m.config, patch)?,
    };
    let words = Words {
        printed: Some("<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>"),
        ..Words::of_whole(["<|IMAGE_START|>", "<|IMAGE_PLACEHOLDER|>", "<|IMAGE_END|>"])
    };
    let pictures = of_any_size(keys, checkpoint, QwenVl::paddle_ocr(), [patch, merge])?;
    Ok(VisionConfig {
        merge,
        hidden: Some(merge * merge * tower.width),
        activation: Activation::Gelu,
        norm: Some(ProjectorNorm { each: true, ..ProjectorNorm::layer(PROJECTOR_EPS) }),
        table: Table::Resized(table),
        grid: true,
        ..VisionConfig::of(tower, [patch, width], positions, pictures, words)
    })
}

/// How the table is fitted, its sides, and the language model's width.
type Of = (TableResize, [usize; 2], usize);

fn of_gguf(keys: &Keys<'_>, checkpoint: &Checkpoint) -> Result<Of> {
    // A number of the format's alone: pictures are of any size.
    keys.ignore_gguf(&["image_size", "projector_type", "attention.head_count_kv", "feature_layer"]);
    let positions = square(rows_of(checkpoint, "v.position_embd.weight")?)?;
    Ok((TableResize::AlignedMiddles, positions, keys.need("projection_dim", "")?))
}

fn of_hf(keys: &Keys<'_>, config: &Map<String, Value>, patch: usize) -> Result<Of> {
    rotated_as_usual(keys, BASE)?;
    keys.must_be("num_channels", &json!(3))?;
    keys.must_be("interpolation_mode", &json!("bilinear"))?;
    // Of films.
    keys.ignore(&["temporal_patch_size", "tokens_per_second"]);
    // The weights were made with the middles on each other, which published files do not say.
    let corners = keys.flag("", "interpolation_align_corners")?.unwrap_or(false);
    let side = keys.need("", "image_size")? / patch;
    if side == 0 {
        return Err(Error::bad_model(format!("config.json: patches of {patch} pixels are larger than image_size")));
    }
    let table = if corners { TableResize::AlignedCorners } else { TableResize::AlignedMiddles };
    Ok((table, [side, side], width_of_text(config)?))
}
