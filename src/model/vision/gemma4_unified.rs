//! Gemma 4 12B: no tower, but one product between norms, with tables for columns and rows. Patches are as large as what
//! becomes a row. In all layers of the language model rows of a picture see each other.

use serde_json::{Map, Value};

use super::{Family, Parts, ProjectorNorm, Table, VisionConfig, gemma4, reads_pictures, rows_of, width_of_text};
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
use crate::model::config::{ModelConfig, NormKind, PictureAttention};
use crate::model::keys::Keys;
use crate::model::names::TensorNames;
use crate::plan::Heads;

pub const GEMMA4_UNIFIED: Family = Family {
    gguf: "gemma4uv",
    hf: &["Gemma4UnifiedForConditionalGeneration"],
    read,
    names: &NAMES,
    parts: Parts {
        patch_norms: Some(["v.patch_norm.1", "v.patch_norm.2", "v.patch_norm.3"]),
        ..Parts::of(["v.position_embd", "v.patch_embd", "", "mm.input_projection"], None)
    },
};

const NAMES: TensorNames = TensorNames {
    prefixes: &[("", "model.vision_embedder.")],
    layers: "layers",
    outside: &[
        ("v.position_embd", "pos_embedding="),
        ("v.patch_embd", "patch_dense"),
        ("v.patch_norm.1", "patch_ln1"),
        ("v.patch_norm.2", "patch_ln2"),
        ("v.patch_norm.3", "pos_norm"),
        ("mm.input_projection", "/model.embed_vision.embedding_projection"),
    ],
    layer: &[],
    gguf: &[],
    ignored: gemma4::NAMES.ignored,
};

/// Epsilon of the norms around the product, which no file says: PyTorch's usual one.
const PATCH_EPS: f64 = 1e-5;
/// Epsilon of the projector's norm, where no file says.
const PROJECTOR_EPS: f64 = 1e-6;

fn read(keys: &Keys<'_>, checkpoint: &Checkpoint) -> Result<VisionConfig> {
    let Of { patch, d, positions, width } = match &checkpoint.metadata {
        Metadata::Gguf(_) => of_gguf(keys, checkpoint)?,
        Metadata::Hf(m) => of_hf(keys, &m.config)?,
    };
    if d == 0 || !d.is_multiple_of(4) || positions == 0 {
        return Err(Error::bad_model(format!(
            "rows of {d} numbers, and {positions} positions, in what reads pictures"
        )));
    }
    let pictures = gemma4::pictures(checkpoint, patch)?;
    let mut tower = ModelConfig::plain("gemma4uv", d, d, Heads { h: 1, g: 1, e: 4 }, 0);
    tower.eps = PATCH_EPS;
    reads_pictures(&mut tower, pictures.max_soft_tokens);
    Ok(VisionConfig {
        norm: Some(ProjectorNorm {
            kind: NormKind::Rms,
            eps: keys.positive("", "rms_norm_eps")?.unwrap_or(PROJECTOR_EPS),
            offset: 0.0,
            each: false,
        }),
        by_channel: keys.is_gguf(),
        table: if keys.is_gguf() { Table::Added } else { Table::Paired },
        picture_attention: Some(PictureAttention::BothWays),
        ..VisionConfig::of(
            tower,
            [patch, width],
            [2, positions],
            millrace_picture::Family::Gemma4(pictures),
            gemma4::WORDS,
        )
    })
}

/// What the two forms of files say each its own way.
struct Of {
    /// Side of a patch, pixels.
    patch: usize,
    /// Width between the products.
    d: usize,
    /// Columns, and rows, that there are positions for.
    positions: usize,
    /// The language model's width.
    width: usize,
}

/// Sizes from the shapes of tensors: the keys of patches and layers belong to towers.
fn of_gguf(keys: &Keys<'_>, checkpoint: &Checkpoint) -> Result<Of> {
    keys.ignore_gguf(&[
        "image_size",
        "projector_type",
        "image_min_pixels",
        "image_max_pixels",
        "image_mean",
        "image_std",
        "patch_size",
    ]);
    keys.ignore_gguf(&[
        "block_count",
        "feed_forward_length",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.layer_norm_epsilon",
    ]);
    keys.ignore_gguf(&["projector.scale_factor", "embedding_length", "use_gelu", "use_silu"]);
    let (d, pixels) = (rows_of(checkpoint, "v.patch_embd.weight")?, rows_of(checkpoint, "v.patch_norm.1.weight")?);
    let patch = (pixels / 3).isqrt();
    if 3 * patch * patch != pixels {
        return Err(Error::bad_model(format!("patches of {pixels} numbers are no squares of three channels")));
    }
    Ok(Of { patch, d, positions: gemma4::positions_of(checkpoint, d)?, width: keys.need("projection_dim", "")? })
}

fn of_hf(keys: &Keys<'_>, config: &Map<String, Value>) -> Result<Of> {
    let patch = keys.need("", "patch_size")? * keys.size("", "pooling_kernel_size")?.unwrap_or(3);
    if keys.size("", "model_patch_size")?.is_some_and(|said| said != patch) {
        return Err(Error::bad_model(format!(
            "config.json: model_patch_size is not patch_size x pooling_kernel_size, {patch}"
        )));
    }
    let d = keys.need("", "mm_embed_dim")?;
    if keys.size("", "output_proj_dims")?.is_some_and(|said| said != d) {
        return Err(Error::unsupported("config.json: output_proj_dims of vision_config is not mm_embed_dim"));
    }
    Ok(Of { patch, d, positions: keys.need("", "mm_posemb_size")?, width: width_of_text(config)? })
}
