//! Idefics 3, SmolVLM, SmolVLM2 and Granite-Docling: SigLIP over square tiles of one size, and one product that makes a
//! row of a square of patches.

use millrace_picture::{Idefics3, Place};
use serde_json::{Map, Value, json};

use super::{Family, Parts, SIGLIP, VisionConfig, Words, asked_of, siglip_of, whole};
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
use crate::model::keys::Keys;
use crate::model::names::TensorNames;

pub const IDEFICS3: Family = Family {
    gguf: "idefics3",
    hf: &["Idefics3ForConditionalGeneration", "SmolVLMForConditionalGeneration"],
    read,
    names: &NAMES,
    parts: Parts::of(["v.position_embd", "v.patch_embd", "", "mm.model.fc"], Some("v.post_ln")),
};

const NAMES: TensorNames = TensorNames {
    prefixes: &[("", "model.vision_model.")],
    outside: &[
        ("v.position_embd", "embeddings.position_embedding"),
        ("v.patch_embd", "embeddings.patch_embedding"),
        ("v.post_ln", "post_layernorm"),
        ("mm.model.fc", "/model.connector.modality_projection.proj"),
    ],
    ignored: &["model.text_model.", "lm_head."],
    ..SIGLIP
};

/// What transformers has where config.json says nothing: published ones leave out what is so.
const DEFAULTS: &[(&str, f64)] = &[
    ("hidden_size", 1152.0),
    ("intermediate_size", 3072.0),
    ("num_hidden_layers", 12.0),
    ("num_attention_heads", 16.0),
    ("image_size", 224.0),
    ("patch_size", 32.0),
    ("layer_norm_eps", 1e-6),
];
/// The language model's width where config.json says nothing.
const WIDTH: u64 = 4096;
/// Most patches of a tile's side: no published one has more than 32.
const MOST_SIDE: usize = 128;

fn read(keys: &Keys<'_>, checkpoint: &Checkpoint) -> Result<VisionConfig> {
    keys.defaults(DEFAULTS);
    let (patch, tile) = (keys.need("patch_size", "patch_size")?, keys.need("image_size", "image_size")?);
    // What is left of a tile beside whole patches is not read.
    let side = tile / patch;
    if side == 0 || side > MOST_SIDE {
        return Err(Error::bad_model(format!(
            "tiles of {tile} pixels in patches of {patch}: from 1 to {MOST_SIDE} of a side can be read"
        )));
    }
    let Of { merge, width, asked, channels } = match &checkpoint.metadata {
        Metadata::Gguf(_) => of_gguf(keys, tile)?,
        Metadata::Hf(m) => of_hf(keys, &m.config, checkpoint)?,
    };
    let tower = siglip_of(keys, "idefics3", (side * side) as u32)?;
    // Tiles are as large as the table: it stays as it is.
    Ok(VisionConfig {
        merge,
        ..VisionConfig::of(tower, [patch, width], [side, side], pictures(asked, [tile, patch, merge], channels)?, WORDS)
    })
}

/// What stands for a picture.
const WORDS: Words =
    Words { tile: before, printed: Some("<image>"), ..Words::of_whole(["", "<image>", "<fake_token_around_image>"]) };

/// What stands before a tile's rows. Behind each row of tiles there is a new line, and before the whole picture another
/// one.
fn before(place: Place) -> String {
    match place {
        Place::Whole => "<fake_token_around_image><global-img>".into(),
        Place::Tile { row, column } => {
            let line = if row > 0 && column == 0 { "\n" } else { "" };
            format!("{line}<fake_token_around_image><row_{}_col_{}>", row + 1, column + 1)
        }
        Place::Thumbnail => "\n\n<fake_token_around_image><global-img>".into(),
    }
}

/// What the two forms of files say each its own way.
struct Of {
    /// Patches of a side that become one row.
    merge: usize,
    /// The language model's width.
    width: usize,
    /// The processor's configuration.
    asked: Map<String, Value>,
    /// Means and deviations of the channels, where that does not say them.
    channels: Option<[[f32; 3]; 2]>,
}

fn of_gguf(keys: &Keys<'_>, tile: usize) -> Result<Of> {
    keys.ignore_gguf(&[
        "projector_type",
        "attention.head_count_kv",
        "feature_layer",
        "image_min_pixels",
        "image_max_pixels",
    ]);
    // The first files do not say how long pictures are made.
    let longest = keys.size("preproc_image_size", "")?.unwrap_or(4 * tile);
    Ok(Of {
        merge: keys.need("projector.scale_factor", "")?,
        width: keys.need("projection_dim", "")?,
        asked: Map::from_iter([("size".into(), json!({ "longest_edge": longest }))]),
        channels: Some([keys.channels("image_mean")?, keys.channels("image_std")?]),
    })
}

fn of_hf(keys: &Keys<'_>, config: &Map<String, Value>, checkpoint: &Checkpoint) -> Result<Of> {
    keys.must_be("num_channels", &json!(3))?;
    // The processor says how pictures are cut.
    keys.ignore(&["max_image_size", "size", "use_base_siglip", "tie_word_embeddings"]);
    let number = |value: Option<&Value>, default: u64, key: &str| {
        let number = value
            .filter(|value| !value.is_null())
            .map_or(Some(default), Value::as_u64)
            .filter(|n| (1..1 << 24).contains(n));
        number
            .and_then(|n| usize::try_from(n).ok())
            .ok_or_else(|| Error::bad_model(format!("config.json: {key} is no size")))
    };
    Ok(Of {
        merge: number(config.get("scale_factor"), 2, "scale_factor")?,
        width: number(
            config.get("text_config").and_then(|text| text.get("hidden_size")),
            WIDTH,
            "text_config.hidden_size",
        )?,
        asked: asked_of(checkpoint).unwrap_or_default(),
        channels: None,
    })
}

/// How it wants pictures: as the processor's file says; where it does not, in tiles as the tower reads them, up to four
/// of a side.
fn pictures(
    mut asked: Map<String, Value>,
    [tile, patch, merge]: [usize; 3],
    channels: Option<[[f32; 3]; 2]>,
) -> Result<millrace_picture::Family> {
    asked.entry("size").or_insert_with(|| json!({ "longest_edge": 4 * tile }));
    asked.entry("max_image_size").or_insert_with(|| json!({ "longest_edge": tile }));
    let wrong = |e: String| Error::bad_model(format!("preprocessor_config.json: {e}"));
    let read = Idefics3::from_config(&asked, whole(patch), whole(merge)).map_err(|e| wrong(e.to_string()))?;
    if read.tile_size / whole(patch) != whole(tile / patch) {
        return Err(wrong(format!(
            "max_image_size has a longest_edge of {}, but what reads pictures has positions for tiles of {tile} pixels",
            read.tile_size
        )));
    }
    let [mean, std] = channels.unwrap_or([read.mean, read.std]);
    Ok(millrace_picture::Family::Idefics3(Idefics3 { mean, std, ..read }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the processor of transformers writes them.
    #[test]
    fn words_of_pictures_are_those_of_the_processor() {
        let words = WORDS;
        let family = |do_image_splitting| {
            millrace_picture::Family::Idefics3(Idefics3 { do_image_splitting, ..Idefics3::default() })
        };
        let (fake, global) = ("<fake_token_around_image>", "<global-img>");
        assert_eq!(words.of(&family(false).cut(640, 480).unwrap()), format!("{fake}{global}<image>{fake}"));
        let tiles: String = (1..=2)
            .map(|row| {
                (1..=4).map(|column| format!("{fake}<row_{row}_col_{column}><image>")).collect::<String>() + "\n"
            })
            .collect();
        assert_eq!(words.of(&family(true).cut(400, 200).unwrap()), format!("{tiles}\n{fake}{global}<image>{fake}"));
    }
}
