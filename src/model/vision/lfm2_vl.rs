//! LFM2-VL and LFM2.5-VL: SigLIP 2, patches of any grid whose sides are even, and two products that make a row of four
//! patches.

use millrace_picture::{Lfm2Vl, Place};
use serde_json::{Map, json};

use super::{
    Family, Parts, ProjectorNorm, SIGLIP, VisionConfig, Words, asked_of, rows_of, siglip_of, square, whole,
    width_of_text, wrong_in,
};
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
use crate::model::config::activation;
use crate::model::keys::Keys;
use crate::model::names::TensorNames;
use crate::plan::Activation;

pub const LFM2_VL: Family = Family {
    gguf: "lfm2",
    hf: &["Lfm2VlForConditionalGeneration"],
    read,
    names: &NAMES,
    parts: Parts {
        projector_norm: Some("mm.input_norm"),
        ..Parts::of(["v.position_embd", "v.patch_embd", "mm.1", "mm.2"], Some("v.post_ln"))
    },
};

const NAMES: TensorNames = TensorNames {
    prefixes: &[("", "model.vision_tower.vision_model."), ("", "model.vision_tower.")],
    outside: &[
        ("v.position_embd", "embeddings.position_embedding"),
        ("v.patch_embd", "embeddings.patch_embedding"),
        ("v.post_ln", "post_layernorm"),
        ("mm.input_norm", "/model.multi_modal_projector.layer_norm"),
        ("mm.1", "/model.multi_modal_projector.linear_1"),
        ("mm.2", "/model.multi_modal_projector.linear_2"),
    ],
    ignored: &["model.language_model.", "lm_head.", "model.multi_modal_projector.layer_norm."],
    ..SIGLIP
};

fn read(keys: &Keys<'_>, checkpoint: &Checkpoint) -> Result<VisionConfig> {
    let tower = siglip_of(keys, "lfm2", MOST_PATCHES)?;
    let patch = keys.need("patch_size", "patch_size")?;
    let (projector, rows) = match &checkpoint.metadata {
        Metadata::Gguf(_) => (of_gguf(keys)?, rows_of(checkpoint, "v.position_embd.weight")?),
        Metadata::Hf(m) => (of_hf(keys, &m.config)?, keys.need("", "num_patches")?),
    };
    let Projector { merge, hidden, width, activation, norm, channels } = projector;
    let words = Words { tile, ..Words::of_whole(["<|image_start|>", "<image>", "<|image_end|>"]) };
    let pictures = pictures(checkpoint, [patch, merge], channels)?;
    Ok(VisionConfig {
        merge,
        hidden: Some(hidden.map_or_else(|| rows_of(checkpoint, "mm.1.weight"), Ok)?),
        activation,
        norm: norm.map(ProjectorNorm::layer),
        by_channel: keys.is_gguf(),
        ..VisionConfig::of(tower, [patch, width], square(rows)?, pictures, words)
    })
}

/// What stands before a tile's rows.
fn tile(place: Place) -> String {
    match place {
        Place::Whole => String::new(),
        Place::Tile { row, column } => format!("<|img_row_{}_col_{}|>", row + 1, column + 1),
        Place::Thumbnail => "<|img_thumbnail|>".into(),
    }
}

/// How it wants pictures: by the processor's file where there is one. The first models have its numbers in config.json
/// as well, and only there where the file is missing; GGUF files say what pixels become.
fn pictures(
    checkpoint: &Checkpoint,
    [patch, merge]: [usize; 2],
    channels: Option<[[f32; 3]; 2]>,
) -> Result<millrace_picture::Family> {
    let asked = asked_of(checkpoint);
    let read =
        Lfm2Vl::from_config(asked.as_ref().unwrap_or(&Map::new())).map_err(wrong_in("preprocessor_config.json"))?;
    let (patch_size, downsample_factor) = (whole(patch), whole(merge));
    if asked.is_some() && (read.patch_size, read.downsample_factor) != (patch_size, downsample_factor) {
        return Err(Error::bad_model("preprocessor_config.json and config.json have other sizes of patches"));
    }
    let [mean, std] = channels.unwrap_or([read.mean, read.std]);
    Ok(millrace_picture::Family::Lfm2Vl(Lfm2Vl { patch_size, downsample_factor, mean, std, ..read }))
}

/// Most patches of a tile: of 512 x 512 pixels.
const MOST_PATCHES: u32 = 1024;

struct Projector {
    merge: usize,
    hidden: Option<usize>,
    width: usize,
    activation: Activation,
    norm: Option<f64>,
    /// Means and deviations of the channels.
    channels: Option<[[f32; 3]; 2]>,
}

/// Epsilon of the projector's norm, which no file says: PyTorch's usual one.
const PROJECTOR_EPS: f64 = 1e-5;

fn of_gguf(keys: &Keys<'_>) -> Result<Projector> {
    // A number of the format's alone: pictures are of any size.
    keys.ignore_gguf(&[
        "image_size",
        "projector_type",
        "attention.head_count_kv",
        "image_min_pixels",
        "image_max_pixels",
    ]);
    keys.ignore_gguf(&["feature_layer", "preproc_image_size", "preproc_min_tiles", "preproc_max_tiles"]);
    Ok(Projector {
        merge: keys.size("projector.scale_factor", "")?.unwrap_or(2),
        hidden: None,
        width: keys.need("projection_dim", "")?,
        activation: Activation::Gelu,
        norm: keys.has_tensor("mm.input_norm.weight").then_some(PROJECTOR_EPS),
        channels: Some([keys.channels("image_mean")?, keys.channels("image_std")?]),
    })
}

fn of_hf(keys: &Keys<'_>, config: &serde_json::Map<String, serde_json::Value>) -> Result<Projector> {
    keys.must_be("num_channels", &json!(3))?;
    keys.must_be("vision_use_head", &json!(false))?;
    keys.ignore(&["image_size", "layer_norm_eps"]);
    let number = |key: &str| config.get(key).and_then(serde_json::Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let missing = |key: &str| Error::bad_model(format!("config.json: {key} is missing"));
    // Where it says that there is none, weights of one that are there all the same count for nothing.
    let normed = config.get("projector_use_layernorm").and_then(serde_json::Value::as_bool).unwrap_or(true);
    Ok(Projector {
        merge: number("downsample_factor").unwrap_or(2),
        hidden: Some(number("projector_hidden_size").ok_or_else(|| missing("projector_hidden_size"))?),
        width: width_of_text(config)?,
        activation: config
            .get("projector_hidden_act")
            .and_then(|a| a.as_str())
            .map_or(Ok(Activation::Gelu), activation)?,
        norm: normed.then_some(PROJECTOR_EPS),
        channels: None,
    })
}
