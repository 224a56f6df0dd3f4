//! Gemma 3 from 4B on: SigLIP over squares of one size, and one product that makes a row of the normed mean of sixteen patches. In all layers of the
//! language model rows of a picture see each other.

use millrace_picture::{Gemma3, TableResize};
use serde_json::{Map, Value, json};

use super::{Family, Joining, Parts, ProjectorNorm, Table, VisionConfig, Words, asked_of, siglip, width_of_text};
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
use crate::model::config::{NormKind, activation};
use crate::model::keys::Keys;
use crate::model::names::TensorNames;
use crate::plan::Activation;

pub const GEMMA3: Family = Family {
    gguf: "gemma3",
    hf: &["Gemma3ForConditionalGeneration"],
    read,
    names: &NAMES,
    parts: Parts {
        projector_norm: Some("mm.soft_emb_norm"),
        down_transposed: true,
        ..Parts::of(["v.position_embd", "v.patch_embd", "", "mm.input_projection"], Some("v.post_ln"))
    },
};

const NAMES: TensorNames = TensorNames {
    prefixes: &[("", "vision_tower.vision_model."), ("model.", "model.vision_tower.vision_model."), ("model.", "model.vision_tower.")],
    layers: "encoder.layers",
    outside: &[
        ("v.position_embd", "embeddings.position_embedding"),
        ("v.patch_embd", "embeddings.patch_embedding"),
        ("v.post_ln", "post_layernorm"),
        ("mm.soft_emb_norm", "/multi_modal_projector.mm_soft_emb_norm"),
        ("mm.input_projection", "/multi_modal_projector.mm_input_projection_weight="),
    ],
    ignored: &["language_model.", "model.language_model.", "lm_head."],
    ..super::lfm2_vl::NAMES
};

/// Patches of a picture's side, and of a row's, where files do not say.
const MERGE: usize = 4;
/// Epsilon of the projector's norm, where no file says: the tower's.
const EPS: f64 = 1e-6;

fn read(keys: &Keys<'_>, checkpoint: &Checkpoint) -> Result<VisionConfig> {
    let (width, h) = (keys.need("embedding_length", "hidden_size")?, keys.need("attention.head_count", "num_attention_heads")?);
    let sizes = [width, keys.need("feed_forward_length", "intermediate_size")?, h, keys.layers()?];
    let eps = keys.positive("attention.layer_norm_epsilon", "layer_norm_eps")?.unwrap_or(EPS);
    let gelu = keys.text("", "hidden_act")?.map_or(Ok(Activation::GeluTanh), activation)?;
    let (side, patch) = (keys.need("image_size", "image_size")?, keys.need("patch_size", "patch_size")?);
    if patch == 0 || !side.is_multiple_of(patch) {
        return Err(Error::bad_model(format!("pictures of {side} x {side} pixels are not whole patches of {patch}")));
    }
    let grid = side / patch;
    let patches = u32::try_from(grid * grid).map_err(|_| Error::bad_model(format!("pictures of {grid} x {grid} patches")))?;
    let tower = siglip("gemma3", sizes, eps, gelu, patches)?;
    let (merge, width, channels) = match &checkpoint.metadata {
        Metadata::Gguf(_) => {
            keys.ignore_gguf(&["projector_type", "attention.head_count_kv"]);
            let channels = [keys.channels("image_mean")?, keys.channels("image_std")?];
            (keys.size("projector.scale_factor", "")?.unwrap_or(MERGE), keys.need("projection_dim", "")?, Some(channels))
        }
        Metadata::Hf(m) => {
            keys.must_be("num_channels", &json!(3))?;
            keys.must_be("vision_use_head", &json!(false))?;
            (merge_of(&m.config, grid)?, width_of_text(&m.config)?, None)
        }
    };
    if merge == 0 || !grid.is_multiple_of(merge) {
        return Err(Error::bad_model(format!("{grid} patches along a side are not whole rows of {merge}")));
    }
    Ok(VisionConfig {
        tower,
        patch,
        positions: [grid, grid],
        merge,
        joining: Joining::Mean,
        hidden: None,
        width,
        activation: gelu,
        // GGUF files hold the weights, folders how far they are from 1.
        norm: Some(ProjectorNorm { kind: NormKind::Rms, eps, offset: if keys.is_gguf() { 0.0 } else { 1.0 } }),
        standardised: false,
        by_channel: true,
        frames: 1,
        apart: false,
        // As large as every picture's grid.
        table: Table::Resized(TableResize::Antialiased),
        deepstack: Vec::new(),
        sees_ahead: None,
        grid: false,
        limited: None,
        pictures: pictures(checkpoint, [side, patch, merge], channels)?,
        // Gemma's own GGUF files end before the token of a picture's rows.
        words: Words { otherwise: Some("<pad>"), ..Words::of_whole(["\n\n<start_of_image>", "<image_soft_token>", "<end_of_image>\n\n"]) },
    })
}

/// Patches along the side of what becomes one row, of a picture with so many along its own.
fn merge_of(config: &Map<String, Value>, grid: usize) -> Result<usize> {
    let rows = config.get("mm_tokens_per_image").map_or(Some(256), Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let side = rows.map(usize::isqrt).filter(|side| *side > 0 && Some(side * side) == rows && grid.is_multiple_of(*side));
    side.map(|side| grid / side).ok_or_else(|| Error::bad_model(format!("config.json: mm_tokens_per_image is no square grid within {grid} x {grid} patches")))
}

/// How it wants pictures: squares of that side, as the processor's file says.
fn pictures(checkpoint: &Checkpoint, [side, patch, merge]: [usize; 3], channels: Option<[[f32; 3]; 2]>) -> Result<millrace_picture::Family> {
    let whole = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let of_model = Gemma3 { side: whole(side), patch_size: whole(patch), merge: whole(merge), ..Gemma3::default() };
    let asked = asked_of(checkpoint).unwrap_or_default();
    let read = of_model.with_config(&asked).map_err(|e| Error::bad_model(format!("preprocessor_config.json: {e}")))?;
    let [mean, std] = channels.unwrap_or([read.mean, read.std]);
    Ok(millrace_picture::Family::Gemma3(Gemma3 { mean, std, ..read }))
}
