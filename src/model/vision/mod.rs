//! Vision encoders: a tower of layers over the patches of a picture, and a projector, which maps the tower's output to
//! rows as wide as the language model. These stand in a prompt in place of tokens. One file a family, as with language
//! models.

mod config;
mod gemma3;
mod gemma4;
mod gemma4_unified;
mod glm_ocr;
mod idefics3;
mod lfm2_vl;
mod lightonocr;
mod limited;
mod paddleocr;
mod qwen3_vl;
mod reading;
mod siglip;
mod tower;

use super::keys::Keys;
use super::names::TensorNames;
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
pub use config::{Joining, ProjectorNorm, Table, VisionConfig, Words};
use reading::{MOST_ROWS, asked_of, of_any_size, reads_pictures, rows_of, square, whole, width_of_text, wrong_in};
use siglip::{SIGLIP, rotated, rotated_as_usual, siglip, siglip_of};
pub use tower::Tower;

/// A family of towers.
struct Family {
    /// GGUF's `clip.vision.projector_type`.
    gguf: &'static str,
    /// Hugging Face's `architectures[0]`.
    hf: &'static [&'static str],
    read: fn(&Keys<'_>, &Checkpoint) -> Result<VisionConfig>,
    names: &'static TensorNames,
    /// The tensors of its table of positions, of its product of patches, of the norm behind its layers and of its
    /// projector: a norm and two products, or the last of them. A projector's norm without a name has no weights.
    parts: Parts,
}

#[derive(Clone, Copy)]
struct Parts {
    positions: &'static str,
    patches: &'static str,
    norm: Option<&'static str>,
    projector_norm: Option<&'static str>,
    up: &'static str,
    down: &'static str,
    /// Norms of patches, of what their product gives, and of that with positions.
    patch_norms: Option<[&'static str; 3]>,
    /// The norm of what the product of patches gives, where that is the only one.
    patches_norm: Option<&'static str>,
    /// The product of joined rows before the projector's.
    merger: &'static str,
    /// Gates of a gated network, and what they multiply.
    gated: [&'static str; 2],
    /// Whether the last product is kept with what it reads along columns.
    down_transposed: bool,
}

impl Parts {
    /// The tensors of the table, of patches and of the projector's products, and of the norm behind the layers.
    const fn of([positions, patches, up, down]: [&'static str; 4], norm: Option<&'static str>) -> Self {
        Self {
            positions,
            patches,
            norm,
            projector_norm: None,
            up,
            down,
            patch_norms: None,
            patches_norm: None,
            merger: "",
            gated: [""; 2],
            down_transposed: false,
        }
    }
}

const FAMILIES: &[&Family] = &[
    &gemma3::GEMMA3,
    &gemma4::GEMMA4,
    &gemma4_unified::GEMMA4_UNIFIED,
    &glm_ocr::GLM_OCR,
    &idefics3::IDEFICS3,
    &lfm2_vl::LFM2_VL,
    &lightonocr::LIGHTONOCR,
    &paddleocr::PADDLEOCR,
    &qwen3_vl::QWEN3_VL,
];

/// The family of a checkpoint: of llama.cpp's file of its own (`mmproj`), or of a folder that holds the tower beside
/// the language model.
fn family(checkpoint: &Checkpoint) -> Result<&'static Family> {
    match &checkpoint.metadata {
        Metadata::Gguf(m) => {
            let architecture = m.str("general.architecture")?;
            if architecture != "clip" {
                return Err(Error::unsupported(format!(
                    "this GGUF file is of architecture {architecture}; what reads pictures is a file of architecture clip (mmproj)"
                )));
            }
            let kind = match m.opt::<&str>("clip.vision.projector_type")? {
                Some(kind) => kind,
                None => m.str("clip.projector_type")?,
            };
            let found = FAMILIES.iter().find(|family| family.gguf == kind).copied();
            let known = || FAMILIES.iter().map(|family| family.gguf).collect::<Vec<_>>().join(", ");
            found.ok_or_else(|| {
                Error::unsupported(format!(
                    "projector {kind} is not supported; this version reads pictures with: {}",
                    known()
                ))
            })
        }
        Metadata::Hf(m) => {
            let name =
                m.config.get("architectures").and_then(|a| a.get(0)).and_then(|a| a.as_str()).unwrap_or_default();
            let found = FAMILIES.iter().find(|family| family.hf.contains(&name)).copied();
            let known = || FAMILIES.iter().flat_map(|family| family.hf).copied().collect::<Vec<_>>().join(", ");
            found.ok_or_else(|| {
                Error::unsupported(format!("{name} does not read pictures here; this version knows: {}", known()))
            })
        }
    }
}

/// Whether a checkpoint's language model has a tower beside it, known or not. Models in shards have none.
pub fn within(checkpoint: &Checkpoint) -> bool {
    checkpoint.packed.is_none()
        && matches!(&checkpoint.metadata, Metadata::Hf(m) if m.config.contains_key("vision_config"))
}

/// Whether tensors whose names begin so are of a tower or a projector that this version knows.
pub fn is_tower(beginning: &str) -> bool {
    let towers = [
        "vision_tower.",
        "model.vision_tower.",
        "model.visual.",
        "visual.",
        "model.vision_model.",
        "model.vision_embedder.",
        "model.vision_encoder.",
    ];
    let projectors = [
        "multi_modal_projector.",
        "model.multi_modal_projector.",
        "model.embed_vision.",
        "model.connector.",
        "mlp_AR.",
        "model.projector.",
        "model.vision_projection.",
    ];
    towers.contains(&beginning) || projectors.contains(&beginning)
}

/// What a checkpoint says of its tower.
///
/// # Errors
/// `UNSUPPORTED_MODEL` where the family or a key is not known, `BAD_MODEL` where what is there does not fit together.
pub fn read(checkpoint: &Checkpoint) -> Result<VisionConfig> {
    read_with(family(checkpoint)?, checkpoint)
}

fn read_with(family: &Family, checkpoint: &Checkpoint) -> Result<VisionConfig> {
    let keys = Keys::of_part(checkpoint, "clip.vision", "vision_config")?;
    let vision = (family.read)(&keys, checkpoint)?;
    keys.finish()?;
    // A family without layers has checked what it has.
    if !vision.tower.layers.is_empty() {
        vision.tower.check()?;
    }
    Ok(vision)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a page fetches beside a GGUF model is what is read here.
    #[test]
    fn pages_fetch_the_projectors_that_are_known() {
        let known = FAMILIES.iter().map(|family| format!("'{}',", family.gguf)).collect::<String>();
        let source = include_str!("../../../npm/hub.ts").split_whitespace().collect::<String>();
        assert!(source.contains(&format!("constREAD=[{known}];")), "npm/hub.ts, READ: {known}");
    }
}
