//! Layers of a tower whose products have clamped inputs and outputs. Each product has its own limits, so that products
//! of the same input are separate.

use crate::error::{Error, Result};
use crate::layout::BufferId;
use crate::model::config::ModelConfig;
use crate::model::decoder::{NormWeights, norm, norm_of};
use crate::model::mixer::Reserving;
use crate::model::tensors::Tensors;
use crate::plan::{Attention, Builder, Keys, Limited, QkNorms, Rotation};
use crate::weights::Matrix;

pub struct LimitedLayer {
    name: String,
    attn_norm: NormWeights,
    attention: [Limited; 4], // (H E, D), (G E, D), (G E, D), (D, H E): for queries, keys, values and what attention gives
    qk_norm: BufferId,       // weights for queries, then for keys
    post_attn: NormWeights,
    ffn_norm: NormWeights,
    feed_forward: [Limited; 3], // (F, D), (F, D), (D, F): gates, what they multiply, and what is made of both
    post_ffn: NormWeights,
}

/// The limits of a product, as files call them.
const LIMITS: [&str; 4] = ["input_min", "input_max", "output_min", "output_max"];

impl LimitedLayer {
    /// `needed`: that all limits are there, which otherwise are none where they are not.
    pub(super) fn reserve(t: &mut Tensors<'_, '_>, c: &ModelConfig, i: usize, needed: bool) -> Result<Self> {
        let (d, f, heads) = (c.width, c.ff, c.heads);
        let (q, kv) = (heads.h * heads.e, heads.g * heads.e);
        let mut limited = |label: &str, (part, limits): (&'static str, &'static str), k: usize, n: usize| {
            let mut of = Reserving { t: &mut *t, c, i };
            let matrix = of.matrix(label, &[(part, n)], k, false)?;
            Ok::<_, Error>(Limited { matrix, limits: limits_of(of.t, label, limits, i, needed)? })
        };
        let attention = [
            limited("q", ("attn_q", "attn_q.limits"), d, q)?,
            limited("k", ("attn_k", "attn_k.limits"), d, kv)?,
            limited("v", ("attn_v", "attn_v.limits"), d, kv)?,
            limited("o", ("attn_output", "attn_output.limits"), q, d)?,
        ];
        let feed_forward = [
            limited("gate", ("ffn_gate", "ffn_gate.limits"), d, f)?,
            limited("up", ("ffn_up", "ffn_up.limits"), d, f)?,
            limited("down", ("ffn_down", "ffn_down.limits"), f, d)?,
        ];
        let qk_norm =
            Reserving { t: &mut *t, c, i }.qk_norm()?.ok_or_else(|| Error::internal("queries without a norm"))?;
        let mut norm = |part| norm(t, c, (part, Some(i)), 1.0);
        Ok(Self {
            name: format!("blk.{i}"),
            attn_norm: norm("attn_norm")?,
            attention,
            qk_norm,
            post_attn: norm("post_attention_norm")?,
            ffn_norm: norm("ffn_norm")?,
            feed_forward,
            post_ffn: norm("post_ffw_norm")?,
        })
    }

    pub(super) fn matrices(&self) -> impl Iterator<Item = &Matrix> {
        self.attention.iter().chain(&self.feed_forward).map(|of| &of.matrix)
    }

    pub(super) fn plan(&self, b: &mut Builder<'_>, c: &ModelConfig) -> Result<()> {
        let norm = |part: &str, weights| norm_of(c, format!("{}.{part}", self.name), weights);
        let rope = c.ropes.first().map(|rope| Rotation {
            table: 0,
            dims: rope.dims,
            interleaved: rope.interleaved,
            growth: rope.growth,
            axes: rope.axes,
        });
        let shape = Attention {
            // Nothing is remembered of a picture: all layers have one cache.
            keys: Keys::Own(0),
            heads: c.heads,
            rope,
            qk_norm: Some(QkNorms { weight: self.qk_norm, eps: c.eps, all: false, late: false, values: c.value_norm }),
            scale: c.score_scale,
            window: None,
            softcap: 0.0,
            gated: false,
            factor: 1.0,
            sinks: None,
            as_f32: true,
            pictures: None,
        };
        let post = norm("post_attention_norm", &self.post_attn);
        b.limited_attention(
            &format!("{}.attention", self.name),
            &norm("attn_norm", &self.attn_norm),
            self.attention.each_ref(),
            shape,
            post,
        )?;
        b.limited_mlp(
            &norm("ffn_norm", &self.ffn_norm),
            self.feed_forward.each_ref(),
            c.mlp,
            norm("post_ffw_norm", &self.post_ffn),
        )
    }
}

/// The limits of a product; where there are none, as far as f32 goes.
fn limits_of(t: &mut Tensors<'_, '_>, label: &str, part: &'static str, i: usize, needed: bool) -> Result<BufferId> {
    let limits =
        LIMITS.map(|kind| Some(t.flat((part, Some(i)), kind, &[1])).filter(|limit| needed || t.has(&limit.name)));
    let missing = limits.each_ref().map(Option::is_none);
    let buffer =
        t.vector(format!("blk.{i}.{label}.limits"), limits.into_iter().map(|limit| (limit, 1)).collect(), 0.0, 1.0, 0)?;
    for (place, _) in missing.iter().enumerate().filter(|(_, missing)| **missing) {
        t.fill(place, if place % 2 == 0 { f32::MIN } else { f32::MAX });
    }
    Ok(buffer)
}
