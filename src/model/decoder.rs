//! The transformer that all architectures are: layers of attention and a feed-forward network, or experts, around a residual stream. What
//! differs is data ([`ModelConfig`]).

use super::config::{FeedForwardKind, MixerKind, Mixture, ModelConfig, NormKind, Norms};
use super::mixer::{Mixer, Reserving};
use super::tensors::{LeftOut, Listed, Place, Rows, Tensors};
use super::{Architecture, Model, Reserve};
use crate::error::{Error, Result};
use crate::format::Checkpoint;
use crate::layout::BufferId;
use crate::plan::{Builder, Experts, Norm, Scores, Stage, Value};
use crate::weights::{Matrix, VectorSource};

struct NormWeights {
    weight: BufferId,       // (D), or (2 D) with those of the norm before it
    bias: Option<BufferId>, // (D), LayerNorm's
    with_post: bool,
}

enum FeedForward {
    None,
    One {
        up: Matrix,   // (2 F, D), gates first; (F, D) where nothing is gated
        down: Matrix, // (D, F)
    },
    Experts(Box<ExpertWeights>),
}

struct ExpertWeights {
    router: Matrix,                   // (experts, D), and the shared expert's gate
    bias: Option<BufferId>,           // (experts)
    up: Matrix,                       // (experts 2 F, D), gates first in each; (experts F, D) where nothing is gated
    down: Matrix,                     // (experts D, F)
    shared: Option<(Matrix, Matrix)>, // the same of one that all rows use
}

struct Layer {
    name: String,
    attn_norm: Option<NormWeights>,
    mixer: Mixer,
    post_attn: Option<NormWeights>,
    ffn_norm: Option<NormWeights>,
    feed_forward: FeedForward,
    post_ffn: Option<NormWeights>,
}

struct Decoder {
    config: ModelConfig,
    embed: Matrix,             // (V, D)
    positions: Option<Matrix>, // (C, D)
    layers: Vec<Layer>,
    norm: NormWeights,
    head: Matrix, // (V, D), the embedding itself where they are tied
    left_out: Vec<LeftOut>,
    vectors: Vec<(BufferId, VectorSource)>,
}

/// Checks every tensor of the checkpoint against the configuration and reserves its buffers.
pub fn open(checkpoint: &Checkpoint, architecture: &'static Architecture, config: ModelConfig, reserve: &mut Reserve<'_>) -> Result<Box<dyn Model>> {
    Ok(Box::new(Decoder::reserve(config, Tensors::of(checkpoint, architecture, reserve))?.0))
}

/// What a model of that configuration reads.
pub fn list(checkpoint: &Checkpoint, architecture: &'static Architecture, config: ModelConfig) -> Result<Vec<Listed>> {
    Ok(Decoder::reserve(config, Tensors::list(checkpoint, architecture))?.1)
}

impl Decoder {
    fn reserve(mut config: ModelConfig, mut t: Tensors<'_, '_>) -> Result<(Self, Vec<Listed>)> {
        let (d, v) = (config.width, config.vocab);
        let head = t.named(("output", None), "weight", &[v, d]);
        // Where the file does not say, what is there decides; some files hold a tied head a second time.
        let own = config.tied != Some(true) && t.has(&head.name);
        (t.layers, t.tied) = (config.layers.len(), !own);
        let embed = t.named(("token_embd", None), "weight", &[v, d]);
        let embed = t.matrix("token_embd".into(), vec![Rows::all(embed)], d, 1, None)?;
        if !own && config.tied == Some(false) {
            return Err(Error::bad_model(format!("tensor {} is missing and the configuration does not tie it to the embedding", head.name)));
        }
        let head = if own {
            t.matrix("output".into(), vec![Rows::all(head)], d, 1, None)?
        } else {
            t.skip(head);
            Matrix { name: "output".into(), ..embed.clone() }
        };
        let positions = if config.learned_positions {
            let table = t.named(("position_embd", None), "weight", &[config.context as usize, d]);
            Some(t.matrix("position_embd".into(), vec![Rows::all(table)], d, 1, None)?)
        } else {
            None
        };
        let norm = norm(&mut t, &config, ("output_norm", None), config.logit_scale as f32)?;
        let layers = (0..config.layers.len()).map(|i| Layer::reserve(&mut t, &config, i)).collect::<Result<_>>()?;
        let left_out = t.check_all_used(&config)?;
        config.tied = Some(!own);
        Ok((Self { config, embed, positions, layers, norm, head, left_out, vectors: t.vectors }, t.listed))
    }
}

fn norm(t: &mut Tensors<'_, '_>, c: &ModelConfig, place: Place, scale: f32) -> Result<NormWeights> {
    let mut vector = |kind: &str, offset| {
        let tensor = t.named(place, kind, &[c.width]);
        t.vector(tensor.name.clone(), vec![(Some(tensor), c.width)], offset, scale, 0)
    };
    let weight = vector("weight", c.norm_offset)?;
    Ok(NormWeights { weight, bias: (c.norm == NormKind::Layer).then(|| vector("bias", 0.0)).transpose()?, with_post: false })
}

/// A norm's weights, and behind them those of the norm before it, which decode does at the same time.
fn norm_with(t: &mut Tensors<'_, '_>, c: &ModelConfig, place: Place, before: Place) -> Result<NormWeights> {
    let parts = [place, before].map(|place| (Some(t.named(place, "weight", &[c.width])), c.width));
    let label = t.named(place, "weight", &[]).name;
    Ok(NormWeights { weight: t.vector(label, parts.into(), c.norm_offset, 1.0, 0)?, bias: None, with_post: true })
}

impl Layer {
    fn reserve(t: &mut Tensors<'_, '_>, c: &ModelConfig, i: usize) -> Result<Self> {
        let at = |part| (part, Some(i));
        let kind = c.layers[i];
        let before = c.norms != Norms::After;
        let after = c.norms != Norms::Before;
        let norm_at = |t: &mut Tensors<'_, '_>, there: bool, part| if there { norm(t, c, at(part), 1.0).map(Some) } else { Ok(None) };
        let around = c.norms == Norms::Around && c.norm == NormKind::Rms;
        let mixes = kind.mixer != MixerKind::None;
        let feeds = kind.feed_forward != FeedForwardKind::None;
        let attn_norm = match i.checked_sub(1).filter(|_| around) {
            Some(last) => Some(norm_with(t, c, at("attn_norm"), ("post_ffw_norm", Some(last)))?),
            None => norm_at(t, before && mixes, "attn_norm")?,
        };
        let mixer = Reserving { t: &mut *t, c, i }.mixer()?;
        let post_attn = norm_at(t, after && mixes, "post_attention_norm")?;
        let ffn_norm = match around {
            true => Some(norm_with(t, c, at("ffn_norm"), at("post_attention_norm"))?),
            // Where a layer has nothing else, its only norm is the first.
            false => norm_at(t, before && feeds, if mixes { "ffn_norm" } else { "attn_norm" })?,
        };
        let feed_forward = feed_forward(Reserving { t: &mut *t, c, i })?;
        let post_ffn = norm_at(t, after && feeds, "post_ffw_norm")?;
        Ok(Self { name: format!("blk.{i}"), attn_norm, mixer, post_attn, ffn_norm, feed_forward, post_ffn })
    }
}

/// Gates and up rows of one network, by the names that the checkpoint has them under.
fn gate_up(t: &Tensors<'_, '_>, c: &ModelConfig, f: usize) -> Vec<(&'static str, usize)> {
    match (c.mlp.gated, c.stored.gate_up) {
        (true, true) if t.names.gguf() => vec![("ffn_up", 2 * f)],
        (true, true) => vec![("ffn_gate_up", 2 * f)],
        (true, false) => vec![("ffn_gate", f), ("ffn_up", f)],
        (false, _) => vec![("ffn_up", f)],
    }
}

fn feed_forward(mut layer: Reserving<'_, '_, '_>) -> Result<FeedForward> {
    let (c, i) = (layer.c, layer.i);
    let (d, stored) = (c.width, c.stored);
    let mixture = match c.layers[i].feed_forward {
        FeedForwardKind::None => return Ok(FeedForward::None),
        FeedForwardKind::One => {
            let up = gate_up(layer.t, c, c.ff);
            return Ok(FeedForward::One {
                up: layer.matrix("gate_up", &up, d, c.biases.ff)?,
                down: layer.matrix("down", &[("ffn_down", d)], c.ff, c.biases.ff)?,
            });
        }
        FeedForwardKind::Experts => c.experts.ok_or_else(|| Error::internal("experts without their sizes"))?,
    };
    let Mixture { routing, ff: f, shared } = mixture;
    let n = routing.count;
    let at = |part| (part, Some(i));
    let t = &mut *layer.t;
    // Of expert x: rows of a list of all experts, or a tensor of its own.
    let rows = |t: &Tensors<'_, '_>, x: usize, part: &'static str, rows: usize, k: usize| {
        if stored.each_expert {
            return Rows::all(Listed { name: t.names.expert(i, part, x), shape: vec![rows, k], part, layer: Some(i), transposed: false });
        }
        Rows { tensor: t.named(at(part), "weight", &[n, rows, k]), first: x * rows, rows }
    };
    let (gated, fused) = (c.mlp.gated, stored.experts_gate_up);
    let up = (0..n).flat_map(|x| match (gated, fused) {
        (true, true) => vec![rows(t, x, "ffn_gate_up_exps", 2 * f, d)],
        (true, false) => vec![rows(t, x, "ffn_gate_exps", f, d), rows(t, x, "ffn_up_exps", f, d)],
        (false, _) => vec![rows(t, x, "ffn_up_exps", f, d)],
    });
    let up = up.collect();
    let down = (0..n).map(|x| rows(t, x, "ffn_down_exps", d, f)).collect();
    let mut router = vec![Rows::all(t.named(at("ffn_gate_inp"), "weight", &[n, d]))];
    if shared.is_some_and(|(_, gate)| gate) {
        router.push(Rows { first: 0, rows: 1, tensor: t.flat(at("ffn_gate_inp_shexp"), "weight", &[1, d]) });
    }
    let router = t.matrix(format!("blk.{i}.router"), router, d, 1, None)?;
    let up = t.matrix(format!("blk.{i}.experts_up"), up, d, c.mlp.products() * f, None)?;
    let down = t.matrix(format!("blk.{i}.experts_down"), down, f, d, None)?;
    let bias = match routing.scores {
        Scores::Softmax => None,
        Scores::Sigmoid { .. } => {
            let bias = t.named(at("exp_probs_b"), "bias", &[n]);
            Some(t.vector(format!("blk.{i}.router.bias"), vec![(Some(bias), n)], 0.0, 1.0, 0)?)
        }
    };
    let shared = match shared {
        None => None,
        Some((f, _)) => {
            let up: &[_] = match (gated, stored.gate_up && !layer.t.names.gguf()) {
                (true, true) => &[("ffn_gate_up_shexp", 2 * f)],
                (true, false) => &[("ffn_gate_shexp", f), ("ffn_up_shexp", f)],
                (false, _) => &[("ffn_up_shexp", f)],
            };
            Some((layer.matrix("shared_up", up, d, false)?, layer.matrix("shared_down", &[("ffn_down_shexp", d)], f, false)?))
        }
    };
    Ok(FeedForward::Experts(Box::new(ExpertWeights { router, bias, up, down, shared })))
}

impl Model for Decoder {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn config_mut(&mut self) -> &mut ModelConfig {
        &mut self.config
    }

    fn matrices(&self) -> Vec<&Matrix> {
        let mut all = vec![&self.embed];
        all.extend(&self.positions);
        if self.config.tied != Some(true) {
            all.push(&self.head);
        }
        for l in &self.layers {
            all.extend(l.mixer.matrices());
            match &l.feed_forward {
                FeedForward::None => {}
                FeedForward::One { up, down } => all.extend([up, down]),
                FeedForward::Experts(experts) => {
                    all.extend([&experts.router, &experts.up, &experts.down]);
                    all.extend(experts.shared.iter().flat_map(|(up, down)| [up, down]));
                }
            }
        }
        all
    }

    fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    fn vectors(&self) -> &[(BufferId, VectorSource)] {
        &self.vectors
    }

    fn layers(&self, b: &mut Builder<'_>) -> Result<()> {
        let c = &self.config;
        b.embed("token_embd", &self.embed, c.embed_scale)?;
        if let Some(table) = &self.positions {
            b.embed_positions("position_embd", table)?;
        }
        for (i, l) in self.layers.iter().enumerate() {
            b.stage(Stage::Layer(i));
            let name = |part: &str| format!("{}.{part}", l.name);
            let attn_norm = l.attn_norm.as_ref().map(|w| self.norm_of(name("attn_norm"), w));
            if let Some((output, x)) = l.mixer.plan(b, c, i, attn_norm.as_ref())? {
                b.add(output, x, l.post_attn.as_ref().map(|w| self.norm_of(name("post_attention_norm"), w)))?;
            }
            let ffn_norm = l.ffn_norm.as_ref().map(|w| self.norm_of(name("ffn_norm"), w));
            match &l.feed_forward {
                FeedForward::None => {}
                FeedForward::One { up, down } => {
                    let a = b.mlp(&name("ffn"), ffn_norm.as_ref(), up, c.mlp, down)?; // (T, F)
                    b.add(down, a, l.post_ffn.as_ref().map(|w| self.norm_of(name("post_ffw_norm"), w)))?;
                }
                FeedForward::Experts(experts) => {
                    let ExpertWeights { router, bias, up, down, shared } = &**experts;
                    let (Some(mixture), Some(norm)) = (c.experts, &ffn_norm) else { return Err(Error::internal("experts without a norm")) };
                    let shared = shared.as_ref().map(|(up, down)| (up, down));
                    b.experts(&name("experts"), norm, Experts { routing: mixture.routing, mlp: c.mlp, router, bias: *bias, up, down, shared })?;
                }
            }
        }
        Ok(())
    }

    fn head(&self, b: &mut Builder<'_>) -> Result<Value> {
        b.head(&self.norm_of("output_norm".into(), &self.norm), &self.head, self.config.logit_cap)
    }
}

impl Decoder {
    fn norm_of(&self, name: String, w: &NormWeights) -> Norm {
        let center = self.config.norm == NormKind::Layer;
        Norm { name, weight: w.weight, bias: w.bias, center, eps: self.config.eps, with_post: w.with_post }
    }
}
