//! LFM2-VL and LFM2.5-VL: SigLIP 2, patches of any grid whose sides are even, and two products that make a row of four patches.

use serde_json::json;

use super::{Family, Parts, VisionConfig};
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
use crate::model::Pooling;
use crate::model::config::{Biases, Encoder, LayerKind, ModelConfig, NO_ROPE, NormKind, activation};
use crate::model::keys::Keys;
use crate::model::names::TensorNames;
use crate::plan::{Activation, Heads, Mlp};

pub const LFM2_VL: Family = Family {
    gguf: "lfm2",
    hf: "Lfm2VlForConditionalGeneration",
    read,
    names: &NAMES,
    parts: Parts { positions: "v.position_embd", patches: "v.patch_embd", norm: "v.post_ln", projector_norm: "mm.input_norm", up: "mm.1", down: "mm.2" },
};

const NAMES: TensorNames = TensorNames {
    prefixes: &[("", "model.vision_tower.vision_model."), ("", "model.vision_tower.")],
    layers: "encoder.layers",
    outside: &[
        ("v.position_embd", "embeddings.position_embedding"),
        ("v.patch_embd", "embeddings.patch_embedding"),
        ("v.post_ln", "post_layernorm"),
        ("mm.input_norm", "/model.multi_modal_projector.layer_norm"),
        ("mm.1", "/model.multi_modal_projector.linear_1"),
        ("mm.2", "/model.multi_modal_projector.linear_2"),
    ],
    layer: &[
        ("attn_norm", "layer_norm1"),
        ("attn_q", "self_attn.q_proj"),
        ("attn_k", "self_attn.k_proj"),
        ("attn_v", "self_attn.v_proj"),
        ("attn_output", "self_attn.out_proj"),
        ("ffn_norm", "layer_norm2"),
        ("ffn_up", "mlp.fc1"),
        ("ffn_down", "mlp.fc2"),
    ],
    gguf: &[("attn_norm", "ln1"), ("ffn_norm", "ln2"), ("attn_output", "attn_out")],
    ignored: &["model.language_model.", "lm_head.", "model.multi_modal_projector.layer_norm."],
};

fn read(keys: &Keys<'_>, checkpoint: &Checkpoint) -> Result<VisionConfig> {
    let (width, h) = (keys.need("embedding_length", "hidden_size")?, keys.need("attention.head_count", "num_attention_heads")?);
    if !width.is_multiple_of(h) {
        return Err(Error::bad_model(format!("{h} heads do not divide the width {width} of what reads pictures")));
    }
    let ff = keys.need("feed_forward_length", "intermediate_size")?;
    let mut tower = ModelConfig::plain("lfm2", width, ff, Heads { h, g: h, e: width / h }, keys.layers()?);
    let eps = ("attention.layer_norm_epsilon", "layer_norm_eps");
    tower.eps = keys.number(eps.0, eps.1)?.unwrap_or(1e-6);
    tower.layers.fill(LayerKind { rope: NO_ROPE, ..LayerKind::USUAL });
    tower.norm = NormKind::Layer;
    tower.biases = Biases { qkv: true, output: true, ff: true, experts: false };
    tower.encoder = Encoder { both_ways: true, one_cache: true, ..Encoder::default() };
    // It reads and does not write.
    tower.pooling = Some(Pooling::Mean);
    (tower.vocab, tower.drawn, tower.context) = (1, 1, MOST_PATCHES);
    tower.tied = Some(true);
    let gelu = keys.text("", "hidden_act")?.map_or(Ok(Activation::GeluTanh), activation)?;
    tower.mlp = Mlp { gated: false, ..Mlp::gated(gelu) };
    let patch = keys.need("patch_size", "patch_size")?;
    let (projector, rows) = match &checkpoint.metadata {
        Metadata::Gguf(_) => (of_gguf(keys)?, keys_rows(checkpoint, "v.position_embd.weight")?),
        Metadata::Hf(m) => (of_hf(keys, &m.config)?, keys.need("", "num_patches")?),
    };
    let side = rows.isqrt();
    if side * side != rows {
        return Err(Error::bad_model(format!("a table of {rows} positions is no square")));
    }
    let Projector { merge, hidden, width, activation, norm, mean, deviation } = projector;
    let hidden = hidden.map_or_else(|| keys_rows(checkpoint, "mm.1.weight"), Ok)?;
    Ok(VisionConfig { tower, patch, positions: [side, side], merge, hidden, width, activation, norm, by_channel: keys.is_gguf(), mean, deviation })
}

/// Most patches of a tile: of 512 x 512 pixels.
const MOST_PATCHES: u32 = 1024;

struct Projector {
    merge: usize,
    hidden: Option<usize>,
    width: usize,
    activation: Activation,
    norm: Option<f64>,
    mean: [f32; 3],
    deviation: [f32; 3],
}

/// Epsilon of the projector's norm, which no file says: PyTorch's usual one.
const PROJECTOR_EPS: f64 = 1e-5;

fn keys_rows(checkpoint: &Checkpoint, tensor: &str) -> Result<usize> {
    let rows = checkpoint.tensors.get(tensor).and_then(|t| t.shape.first()).and_then(|n| usize::try_from(*n).ok());
    rows.filter(|n| *n > 0).ok_or_else(|| Error::bad_model(format!("tensor {tensor} is missing")))
}

fn of_gguf(keys: &Keys<'_>) -> Result<Projector> {
    // A number of the format's alone: pictures are of any size.
    keys.ignore_gguf(&["image_size", "projector_type", "attention.head_count_kv", "image_min_pixels", "image_max_pixels"]);
    keys.ignore_gguf(&["feature_layer", "preproc_image_size", "preproc_min_tiles", "preproc_max_tiles"]);
    Ok(Projector {
        merge: keys.size("projector.scale_factor", "")?.unwrap_or(2),
        hidden: None,
        width: keys.need("projection_dim", "")?,
        activation: Activation::Gelu,
        norm: keys.has_tensor("mm.input_norm.weight").then_some(PROJECTOR_EPS),
        mean: keys.channels("image_mean")?,
        deviation: keys.channels("image_std")?,
    })
}

fn of_hf(keys: &Keys<'_>, config: &serde_json::Map<String, serde_json::Value>) -> Result<Projector> {
    keys.must_be("num_channels", &json!(3))?;
    keys.must_be("vision_use_head", &json!(false))?;
    keys.ignore(&["image_size", "layer_norm_eps"]);
    let number = |key: &str| config.get(key).and_then(serde_json::Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let missing = |key: &str| Error::bad_model(format!("config.json: {key} is missing"));
    let text = config.get("text_config").and_then(|text| text.get("hidden_size")).and_then(serde_json::Value::as_u64);
    // Where it says that there is none, weights of one that are there all the same count for nothing.
    let normed = config.get("projector_use_layernorm").and_then(serde_json::Value::as_bool).unwrap_or(true);
    Ok(Projector {
        merge: number("downsample_factor").unwrap_or(2),
        hidden: Some(number("projector_hidden_size").ok_or_else(|| missing("projector_hidden_size"))?),
        width: text.and_then(|n| usize::try_from(n).ok()).ok_or_else(|| missing("text_config.hidden_size"))?,
        activation: config.get("projector_hidden_act").and_then(|a| a.as_str()).map_or(Ok(Activation::Gelu), activation)?,
        norm: normed.then_some(PROJECTOR_EPS),
        mean: [0.5; 3],
        deviation: [0.5; 3],
    })
}
