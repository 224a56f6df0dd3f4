//! What the families read alike of their files.

use millrace_picture::QwenVl;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
use crate::model::Pooling;
use crate::model::config::{Encoder, ModelConfig};
use crate::model::keys::Keys;

/// How many rows a tensor of a GGUF file has.
pub(super) fn rows_of(checkpoint: &Checkpoint, tensor: &str) -> Result<usize> {
    let rows = checkpoint.tensors.get(tensor).and_then(|t| t.shape.first()).and_then(|n| usize::try_from(*n).ok());
    rows.filter(|n| *n > 0).ok_or_else(|| Error::bad_model(format!("tensor {tensor} is missing")))
}

/// The sides of a square table of `rows` positions.
pub(super) fn square(rows: usize) -> Result<[usize; 2]> {
    let side = rows.isqrt();
    if side * side == rows {
        Ok([side, side])
    } else {
        Err(Error::bad_model(format!("a table of {rows} positions is no square")))
    }
}

/// Most rows of a picture of any size: larger ones are made smaller. What files ask for, 16 megapixels, is 16,384 rows
/// of Qwen's, more than a browser's context.
pub(super) const MOST_ROWS: usize = 1024;

/// The preprocessing of pictures of any size, in whole rows of a prompt; `usual` stands for what the files do not say.
pub(super) fn of_any_size(
    keys: &Keys<'_>,
    checkpoint: &Checkpoint,
    usual: QwenVl,
    [patch, merge]: [usize; 2],
) -> Result<millrace_picture::Family> {
    let asked = asked_of(checkpoint).unwrap_or_default();
    let read = usual.with_config(&asked).map_err(wrong_in("preprocessor_config.json"))?;
    // Areas of all frames of a picture; llama.cpp's are of one.
    let frames = read.frames as usize;
    let of_file = |key| Ok::<_, Error>(keys.size(key, "")?.map(|n| whole(n * frames)));
    let (least, largest) = (
        of_file("image_min_pixels")?.unwrap_or(read.min_pixels),
        of_file("image_max_pixels")?.unwrap_or(read.max_pixels),
    );
    let [mean, std] = if keys.is_gguf() {
        [keys.channels("image_mean")?, keys.channels("image_std")?]
    } else {
        [read.mean, read.std]
    };
    let most = whole(MOST_ROWS * (patch * merge).pow(2) * frames);
    Ok(millrace_picture::Family::QwenVl(QwenVl {
        patch_size: whole(patch),
        merge_size: whole(merge),
        max_pixels: largest.min(most),
        min_pixels: least.min(largest).min(most),
        mean,
        std,
        ..read
    }))
}

/// What says how pictures are to be prepared, where a folder has it: the processor's file, over what config.json may
/// say of it.
pub(super) fn asked_of(checkpoint: &Checkpoint) -> Option<Map<String, Value>> {
    let Metadata::Hf(m) = &checkpoint.metadata else { return None };
    Some(
        m.config
            .iter()
            .chain(m.preprocessor.iter().flat_map(|all| all.iter()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    )
}

/// A size as the crate of pictures has it.
pub(super) fn whole(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// What is wrong with a file that says how pictures are prepared.
pub(super) fn wrong_in(file: &str) -> impl Fn(millrace_picture::Error) -> Error {
    move |e| Error::bad_model(format!("{file}: {e}"))
}

/// The language model's width, by config.json; where that has no part for it, its keys stand at the root.
pub(super) fn width_of_text(config: &Map<String, Value>) -> Result<usize> {
    let text = config.get("text_config");
    let width = text.map_or_else(|| config.get("hidden_size"), |text| text.get("hidden_size")).and_then(Value::as_u64);
    width.and_then(|n| usize::try_from(n).ok()).ok_or_else(|| {
        let part = if text.is_some() { "text_config." } else { "" };
        Error::bad_model(format!("config.json: {part}hidden_size is missing"))
    })
}

/// Sets a tower up as an encoder of up to `patches` patches in one pass.
pub(super) fn reads_pictures(tower: &mut ModelConfig, patches: u32) {
    tower.encoder = Encoder { both_ways: true, one_cache: true, ..Encoder::default() };
    // A tower only encodes.
    tower.pooling = Some(Pooling::Mean);
    (tower.vocab, tower.drawn, tower.context) = (1, 1, patches);
    tower.tied = Some(true);
}
