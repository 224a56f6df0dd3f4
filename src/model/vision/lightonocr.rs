//! LightOnOCR: Pixtral's tower, patches of any grid whose positions rotate, rows one half of a head and columns the
//! other, and three products that make a row of four patches.

use millrace_picture::Pixtral;
use serde_json::{Map, Value, json};

use super::{
    Family, Joining, MOST_ROWS, Parts, ProjectorNorm, Table, VisionConfig, Words, asked_of, reads_pictures, rotated,
    rotated_as_usual, rows_of, whole, width_of_text, wrong_in,
};
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata, gguf};
use crate::model::config::{ModelConfig, NormKind, activation};
use crate::model::keys::{Keys, positive};
use crate::model::names::TensorNames;
use crate::model::rope::Scaling;
use crate::plan::{Activation, AxesOrder, Heads, Mlp};

pub const LIGHTONOCR: Family = Family {
    gguf: "lightonocr",
    hf: &["LightOnOcrForConditionalGeneration", "LightOnOCRForConditionalGeneration"],
    read,
    names: &NAMES,
    parts: Parts {
        projector_norm: Some("mm.input_norm"),
        patches_norm: Some("v.pre_ln"),
        merger: "mm.patch_merger",
        ..Parts::of(["", "v.patch_embd", "mm.1", "mm.2"], None)
    },
};

const NAMES: TensorNames = TensorNames {
    prefixes: &[("model.vision_projection.", "model.vision_encoder.")],
    layers: "transformer.layers",
    outside: &[
        ("v.patch_embd", "patch_conv"),
        ("v.pre_ln", "ln_pre"),
        ("mm.input_norm", "/norm"),
        ("mm.patch_merger", "/patch_merger.merging_layer"),
        ("mm.1", "/linear_1"),
        ("mm.2", "/linear_2"),
    ],
    layer: &[
        ("attn_norm", "attention_norm"),
        ("attn_q", "attention.q_proj"),
        ("attn_k", "attention.k_proj"),
        ("attn_v", "attention.v_proj"),
        ("attn_output", "attention.o_proj"),
        ("ffn_norm", "ffn_norm"),
        ("ffn_gate", "feed_forward.gate_proj"),
        ("ffn_up", "feed_forward.up_proj"),
        ("ffn_down", "feed_forward.down_proj"),
    ],
    gguf: &[("attn_norm", "ln1"), ("ffn_norm", "ln2"), ("attn_output", "attn_out")],
    ignored: &["model.language_model.", "lm_head."],
};

/// What transformers has where config.json says nothing.
const DEFAULTS: &[(&str, f64)] = &[
    ("hidden_size", 1024.0),
    ("intermediate_size", 4096.0),
    ("num_hidden_layers", 24.0),
    ("num_attention_heads", 16.0),
    ("image_size", 1024.0),
    ("patch_size", 16.0),
];
/// Base of the rotations.
const BASE: f64 = 10_000.0;
/// Epsilon of the tower's norms, which only GGUF files say.
const EPS: f64 = 1e-5;
/// Epsilon of the projector's norm, which is the language model's: files of towers alone do not say it.
const PROJECTOR_EPS: f64 = 1e-6;
/// What stands for each row of a picture; there is nothing around the rows.
const ROW: &str = "<|image_pad|>";

fn read(keys: &Keys<'_>, checkpoint: &Checkpoint) -> Result<VisionConfig> {
    keys.defaults(DEFAULTS);
    let (width, h) =
        (keys.need("embedding_length", "hidden_size")?, keys.need("attention.head_count", "num_attention_heads")?);
    if !width.is_multiple_of(h) {
        return Err(Error::bad_model(format!("{h} heads do not divide the width {width} of what reads pictures")));
    }
    let (e, ff, layers) = (width / h, keys.need("feed_forward_length", "intermediate_size")?, keys.layers()?);
    if let Some(other) = keys.size("", "head_dim")?.filter(|other| *other != e) {
        return Err(Error::unsupported(format!(
            "config.json: head_dim of vision_config is {other}, of {h} heads in a width of {width}"
        )));
    }
    let (patch, image) = (keys.need("patch_size", "patch_size")?, keys.need("image_size", "image_size")?);
    let of = match &checkpoint.metadata {
        Metadata::Gguf(metadata) => of_gguf(keys, metadata, checkpoint)?,
        Metadata::Hf(m) => of_hf(keys, &m.config)?,
    };
    let mut tower = ModelConfig::plain("lightonocr", width, ff, Heads { h, g: h, e }, layers);
    tower.eps = keys.positive("attention.layer_norm_epsilon", "")?.unwrap_or(EPS);
    tower.mlp = Mlp::gated(of.activation);
    rotated(&mut tower, BASE, AxesOrder::Apart)?;
    // llama.cpp's files have rows of queries and keys in another order.
    let rope = &mut tower.ropes[0];
    (rope.scaling, rope.interleaved) = (Scaling::EvenThenOdd, keys.is_gguf());
    reads_pictures(&mut tower, whole(MOST_ROWS * of.merge.pow(2)));
    let pictures = pictures(keys, checkpoint, [patch, of.merge, of.longest.unwrap_or(image)])?;
    let words = Words { printed: Some(ROW), ..Words::of_whole(["", ROW, ""]) };
    Ok(VisionConfig {
        merge: of.merge,
        joining: Joining::Interleaved,
        merged: Some(width),
        hidden: Some(of.hidden),
        activation: Activation::Gelu,
        norm: Some(ProjectorNorm { kind: NormKind::Rms, eps: of.eps, offset: 0.0, each: true }),
        table: Table::None,
        ..VisionConfig::of(tower, [patch, of.width], [0, 0], pictures, words)
    })
}

/// What the two forms of files say each its own way.
struct Of {
    /// Patches of a side that become one row.
    merge: usize,
    /// The language model's width.
    width: usize,
    /// Width between the projector's last two products.
    hidden: usize,
    /// Of the tower's feed-forward networks.
    activation: Activation,
    /// Epsilon of the projector's norm.
    eps: f64,
    /// The most pixels of a side, where that is not the tower's size of pictures.
    longest: Option<usize>,
}

fn of_gguf(keys: &Keys<'_>, metadata: &gguf::Metadata, checkpoint: &Checkpoint) -> Result<Of> {
    keys.ignore_gguf(&["projector_type", "attention.head_count_kv"]);
    if metadata.opt::<bool>("clip.use_silu")? != Some(true) {
        return Err(Error::unsupported(
            "clip.use_silu is not true; this version reads pictures for lightonocr with it",
        ));
    }
    Ok(Of {
        merge: keys.size("spatial_merge_size", "")?.unwrap_or(1),
        width: keys.need("projection_dim", "")?,
        hidden: rows_of(checkpoint, "mm.1.weight")?,
        activation: Activation::Silu,
        eps: PROJECTOR_EPS,
        longest: keys.size("preproc_image_size", "")?,
    })
}

fn of_hf(keys: &Keys<'_>, config: &Map<String, Value>) -> Result<Of> {
    rotated_as_usual(keys, BASE)?;
    if let Some(base) = keys.number("", "rope_theta")?.filter(|base| *base != BASE) {
        return Err(Error::unsupported(format!("config.json: rope_theta of vision_config is {base}, not {BASE}")));
    }
    keys.must_be("num_channels", &json!(3))?;
    // Of Mistral 3, whose keys published files have.
    for (key, value) in [
        ("vision_feature_layer", json!(-1)),
        ("multimodal_projector_bias", json!(false)),
        ("projector_hidden_act", json!("gelu")),
    ] {
        if let Some(other) = config.get(key).filter(|other| !other.is_null() && **other != value) {
            return Err(Error::unsupported(format!(
                "config.json: {key} is {other}; this version reads pictures for lightonocr with {value}"
            )));
        }
    }
    let merge = config.get("spatial_merge_size").map_or(Some(2), Value::as_u64).filter(|n| (1..=16).contains(n));
    let text = config.get("text_config");
    let eps = text.and_then(|text| text.get("rms_norm_eps")).and_then(Value::as_f64).unwrap_or(PROJECTOR_EPS);
    let width = width_of_text(config)?;
    Ok(Of {
        merge: merge.ok_or_else(|| Error::bad_model("config.json: spatial_merge_size is not within 1 and 16"))?
            as usize,
        width,
        hidden: width,
        activation: keys.text("", "hidden_act")?.map_or(Ok(Activation::Gelu), activation)?,
        eps: positive(eps, "config.json: text_config.rms_norm_eps")?,
        longest: None,
    })
}

/// How it wants pictures: as the processor's file says, in whole rows of a prompt; where it does not, up to `longest`
/// pixels of a side.
fn pictures(
    keys: &Keys<'_>,
    checkpoint: &Checkpoint,
    [patch, merge, longest]: [usize; 3],
) -> Result<millrace_picture::Family> {
    let usual = Pixtral {
        longest_edge: whole(longest),
        max_rows: whole(MOST_ROWS),
        patch_size: whole(patch),
        merge_size: whole(merge),
        ..Pixtral::default()
    };
    let asked = asked_of(checkpoint).unwrap_or_default();
    let read = usual.with_config(&asked).map_err(wrong_in("preprocessor_config.json"))?;
    let [mean, std] = if keys.is_gguf() {
        [keys.channels("image_mean")?, keys.channels("image_std")?]
    } else {
        [read.mean, read.std]
    };
    Ok(millrace_picture::Family::Pixtral(Pixtral { mean, std, ..read }))
}
