//! What towers of SigLIP's kin share: their configuration, transformers' names of their tensors, and rotations by rows
//! and columns.

use serde_json::Value;

use super::reads_pictures;
use crate::error::{Error, Result};
use crate::model::config::{Biases, LayerKind, ModelConfig, NO_ROPE, NormKind, activation};
use crate::model::keys::Keys;
use crate::model::names::TensorNames;
use crate::model::rope::{Rope, Scaling};
use crate::plan::{Activation, Axes, AxesOrder, Heads, Mlp};

/// transformers' names of a tower of SigLIP's kin, but for its projector.
pub(super) const SIGLIP: TensorNames = TensorNames {
    prefixes: &[],
    layers: "encoder.layers",
    outside: &[],
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
    ignored: &[],
};

/// A SigLIP tower, by its keys.
pub(super) fn siglip_of(keys: &Keys<'_>, architecture: &'static str, patches: u32) -> Result<ModelConfig> {
    let (width, h) =
        (keys.need("embedding_length", "hidden_size")?, keys.need("attention.head_count", "num_attention_heads")?);
    let sizes = [width, keys.need("feed_forward_length", "intermediate_size")?, h, keys.layers()?];
    let eps = keys.positive("attention.layer_norm_epsilon", "layer_norm_eps")?.unwrap_or(1e-6);
    let gelu = keys.text("", "hidden_act")?.map_or(Ok(Activation::GeluTanh), activation)?;
    siglip(architecture, sizes, eps, gelu, patches)
}

/// A tower as those of SigLIP's kin are: LayerNorms before, biases everywhere, attention both ways of heads as wide as
/// the keys say.
pub(super) fn siglip(
    architecture: &'static str,
    sizes: [usize; 4],
    eps: f64,
    gelu: Activation,
    patches: u32,
) -> Result<ModelConfig> {
    let [width, ff, h, layers] = sizes;
    if !width.is_multiple_of(h) {
        return Err(Error::bad_model(format!("{h} heads do not divide the width {width} of what reads pictures")));
    }
    let mut tower = ModelConfig::plain(architecture, width, ff, Heads { h, g: h, e: width / h }, layers);
    tower.eps = eps;
    tower.layers.fill(LayerKind { rope: NO_ROPE, ..LayerKind::USUAL });
    tower.norm = NormKind::Layer;
    tower.biases = Biases { qkv: true, output: true, ff: true, experts: false };
    tower.mlp = Mlp { gated: false, ..Mlp::gated(gelu) };
    reads_pictures(&mut tower, patches);
    Ok(tower)
}

/// Has patches be rotated by their rows and columns, each by frequencies of its own from that base on.
pub(super) fn rotated(tower: &mut ModelConfig, base: f64, order: AxesOrder) -> Result<()> {
    let e = tower.heads.e;
    if !e.is_multiple_of(4) {
        return Err(Error::bad_model(format!(
            "heads of {e} in what reads pictures: rows and columns rotate half of each, in pairs"
        )));
    }
    let (pairs, axes) = (e / 4, Some(Axes { rows: e / 4, columns: e / 4, order }));
    tower.ropes = vec![Rope {
        base,
        dims: e,
        interleaved: false,
        scaling: Scaling::EachAxis { pairs },
        factor: 1.0,
        growth: None,
        axes,
    }];
    tower.layers.iter_mut().for_each(|layer| layer.rope = 0);
    Ok(())
}

/// Refuses rotations in config.json that are others than these, which some writers say.
pub(super) fn rotated_as_usual(keys: &Keys<'_>, base: f64) -> Result<()> {
    let usual = |(key, value): (&String, &Value)| match key.as_str() {
        "rope_type" => ["default", "axial"].iter().any(|kind| value == kind),
        "rope_theta" => value.as_f64() == Some(base),
        _ => false,
    };
    if keys.object("rope_parameters")?.is_none_or(|parameters| parameters.iter().all(usual)) {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "config.json: rope_parameters of vision_config are other than axial ones of base {base}"
    )))
}
