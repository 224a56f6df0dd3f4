//! The language model of PaddleOCR-VL: ERNIE 4.5 that rotates halves, with positions that have three axes, and whose
//! keys stand beside those of the whole model. Of text all axes are the same.

use serde_json::json;

use super::Architecture;
use super::config::{Biases, ModelConfig};
use super::keys::Keys;
use super::names::{self, TensorNames};
use crate::error::{Error, Result};
use crate::plan::{Axes, AxesOrder};

pub const PADDLEOCR: Architecture = Architecture {
    file: file!(),
    gguf: "paddleocr",
    hf: &["PaddleOCRVLForConditionalGeneration"],
    read,
    names: &NAMES,
};

const NAMES: TensorNames = TensorNames {
    prefixes: &[("", "model."), ("", "model.language_model.")],
    ignored: &["visual.", "mlp_AR.", "model.visual.", "model.projector."],
    ..names::LLAMA
};

/// What transformers has where config.json says nothing.
const DEFAULTS: &[(&str, f64)] = &[
    ("vocab_size", 103_424.0),
    ("hidden_size", 1024.0),
    ("intermediate_size", 3072.0),
    ("num_hidden_layers", 18.0),
    ("num_attention_heads", 16.0),
    ("num_key_value_heads", 2.0),
    ("head_dim", 128.0),
    ("max_position_embeddings", 131_072.0),
    ("rms_norm_eps", 1e-5),
    ("rope_theta", 500_000.0),
];

/// Of a head of 128.
const AXES: Axes = Axes { rows: 24, columns: 24, order: AxesOrder::Apart };

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    keys.defaults(DEFAULTS);
    let mut c = ModelConfig::read_rms(keys, "paddleocr")?;
    let rope = &mut c.ropes[0];
    rope.read_axes(keys, false)?;
    match rope.axes {
        Some(_) => {}
        None if !keys.is_gguf() && rope.dims == 128 => rope.axes = Some(AXES),
        None => {
            let key = keys.name("rope.dimension_sections", "mrope_section of rope_scaling");
            return Err(Error::bad_model(format!("{key} is missing")));
        }
    }
    let bias = keys.flag("", "use_bias")?.unwrap_or(false);
    c.biases = Biases { qkv: bias, output: bias, ff: bias, experts: false };
    // As with transformers, a head that is there counts even where the file says that it is the embedding.
    c.tied = c.tied.filter(|tied| !tied);
    keys.must_be("rope_is_neox_style", &json!(true))?;
    keys.must_be("use_3d_rope", &json!(true))?;
    if let Some(ratio) = keys.number("", "compression_ratio")?.filter(|ratio| *ratio != 1.0) {
        return Err(Error::unsupported(format!("config.json: compression_ratio is {ratio}; this version runs 1")));
    }
    keys.must_be("use_rmsnorm", &json!(true))?;
    keys.must_be("scale_qk_coeff", &json!(1.0))?;
    // Of what stands beside the language model; of training; of a head with a bias, which tensors tell.
    keys.ignore(&["vision_config", "image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"]);
    keys.ignore(&["ignored_index", "token_balance_seqlen", "freq_allocation", "weight_share_add_bias"]);
    // How the tool that trained it computes.
    keys.ignore(&["fuse_linear", "fuse_ln", "fuse_rms_norm", "fuse_swiglu"]);
    Ok(c)
}
