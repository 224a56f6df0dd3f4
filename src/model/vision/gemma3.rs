//! Gemma 3 from 4B on: SigLIP over squares of one size, and one product that makes a row of the normed mean of sixteen
//! patches. In all layers of the language model rows of a picture see each other.

use millrace_picture::Gemma3;
use serde_json::{Map, Value, json};

use super::{
    Family, Joining, Parts, ProjectorNorm, SIGLIP, VisionConfig, Words, asked_of, siglip_of, whole, width_of_text,
    wrong_in,
};
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
use crate::model::config::NormKind;
use crate::model::keys::Keys;
use crate::model::names::TensorNames;

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
    prefixes: &[
        ("", "vision_tower.vision_model."),
        ("model.", "model.vision_tower.vision_model."),
        ("model.", "model.vision_tower."),
    ],
    outside: &[
        ("v.position_embd", "embeddings.position_embedding"),
        ("v.patch_embd", "embeddings.patch_embedding"),
        ("v.post_ln", "post_layernorm"),
        ("mm.soft_emb_norm", "/multi_modal_projector.mm_soft_emb_norm"),
        ("mm.input_projection", "/multi_modal_projector.mm_input_projection_weight="),
    ],
    ignored: &["language_model.", "model.language_model.", "lm_head."],
    ..SIGLIP
};

/// Patches of a picture's side, and of a row's, where files do not say.
const MERGE: usize = 4;

fn read(keys: &Keys<'_>, checkpoint: &Checkpoint) -> Result<VisionConfig> {
    let (side, patch) = (keys.need("image_size", "image_size")?, keys.need("patch_size", "patch_size")?);
    if patch == 0 || !side.is_multiple_of(patch) {
        return Err(Error::bad_model(format!("pictures of {side} x {side} pixels are not whole patches of {patch}")));
    }
    let grid = side / patch;
    let patches =
        u32::try_from(grid * grid).map_err(|_| Error::bad_model(format!("pictures of {grid} x {grid} patches")))?;
    let tower = siglip_of(keys, "gemma3", patches)?;
    let (merge, width, channels) = match &checkpoint.metadata {
        Metadata::Gguf(_) => {
            keys.ignore_gguf(&["projector_type", "attention.head_count_kv"]);
            let channels = [keys.channels("image_mean")?, keys.channels("image_std")?];
            (
                keys.size("projector.scale_factor", "")?.unwrap_or(MERGE),
                keys.need("projection_dim", "")?,
                Some(channels),
            )
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
    // Gemma's own GGUF files end before the token of a picture's rows.
    let words = Words {
        otherwise: Some("<pad>"),
        ..Words::of_whole(["\n\n<start_of_image>", "<image_soft_token>", "<end_of_image>\n\n"])
    };
    Ok(VisionConfig {
        merge,
        joining: Joining::Mean,
        // GGUF files hold the weights, folders how far they are from 1.
        norm: Some(ProjectorNorm {
            kind: NormKind::Rms,
            eps: tower.eps,
            offset: if keys.is_gguf() { 0.0 } else { 1.0 },
            each: false,
        }),
        // The table is as large as every picture's grid.
        ..VisionConfig::of(
            tower,
            [patch, width],
            [grid, grid],
            pictures(checkpoint, [side, patch, merge], channels)?,
            words,
        )
    })
}

/// Patches along the side of a merged row, of a picture with `grid` patches along its side.
fn merge_of(config: &Map<String, Value>, grid: usize) -> Result<usize> {
    let rows = config.get("mm_tokens_per_image").map_or(Some(256), Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let side =
        rows.map(usize::isqrt).filter(|side| *side > 0 && Some(side * side) == rows && grid.is_multiple_of(*side));
    side.map(|side| grid / side).ok_or_else(|| {
        Error::bad_model(format!("config.json: mm_tokens_per_image is no square grid within {grid} x {grid} patches"))
    })
}

/// How it wants pictures: squares of that side, as the processor's file says.
fn pictures(
    checkpoint: &Checkpoint,
    [side, patch, merge]: [usize; 3],
    channels: Option<[[f32; 3]; 2]>,
) -> Result<millrace_picture::Family> {
    let of_model = Gemma3 { side: whole(side), patch_size: whole(patch), merge: whole(merge), ..Gemma3::default() };
    let asked = asked_of(checkpoint).unwrap_or_default();
    let read = of_model.with_config(&asked).map_err(wrong_in("preprocessor_config.json"))?;
    let [mean, std] = channels.unwrap_or([read.mean, read.std]);
    Ok(millrace_picture::Family::Gemma3(Gemma3 { mean, std, ..read }))
}
