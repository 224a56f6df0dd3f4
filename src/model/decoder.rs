//! The transformer that all architectures are: layers of attention and a feed-forward network, or experts, around a
//! residual stream. What differs is data ([`ModelConfig`]).

use super::adapter::Adaptable;
use super::config::{Dense, FeedForwardKind, MixerKind, Mixture, ModelConfig, NormKind, Norms};
use super::mixer::{Mixer, Reserving};
use super::tensors::{LeftOut, Listed, Place, Rows, Tensors};
use super::{Architecture, Model, Pooling, Reserve};
use crate::error::{Error, Result};
use crate::format::Checkpoint;
use crate::layout::{BufferId, Control, stride};
use crate::plan::{Act, Builder, Experts, Mlp, Norm, PerLayer, Scores, Stage, Value};
use crate::weights::{Matrix, VectorSource};

pub(super) struct NormWeights {
    weight: BufferId, // (D), or (2 D) with those of the norm before it; behind them a number, where there is one
    bias: Option<BufferId>, // (D), LayerNorm's
    with_post: bool,
    scaled: bool,
    plain: bool,
}

impl NormWeights {
    /// Weights of a LayerNorm.
    pub(super) fn of_layer(weight: BufferId, bias: BufferId) -> Self {
        Self { weight, bias: Some(bias), with_post: false, scaled: false, plain: false }
    }

    /// Weights of ones, for an RMSNorm of `n` values without weights.
    pub(super) fn ones(t: &mut Tensors<'_, '_>, label: &str, n: usize) -> Result<Self> {
        let weight = t.vector(label.into(), vec![(None, n)], 0.0, 1.0, 0)?;
        t.fill(0, 1.0);
        Ok(Self { weight, bias: None, with_post: false, scaled: false, plain: false })
    }
}

enum FeedForward {
    None,
    One {
        up: Matrix,   // (2 F, D), gates first; (F, D) where nothing is gated
        down: Matrix, // (D, F)
    },
    Experts(Box<ExpertWeights>),
    Both {
        up: Matrix,
        down: Matrix,
        experts: Box<ExpertWeights>,
        norms: Box<[NormWeights; 3]>, // of what experts read, of what the first and of what experts give
    },
}

struct ExpertWeights {
    router: Matrix,                       // (experts, D), and the shared expert's gate
    router_norm: Option<NormWeights>,     // where it reads something else than experts
    bias: Option<BufferId>,               // (experts)
    biases: Option<(BufferId, BufferId)>, // (experts 2 F), all gates' first where they do not take turns, and (experts D)
    up: Matrix,   // (experts 2 F, D), gates first in each; (experts F, D) where nothing is gated
    down: Matrix, // (experts D, F)
    shared: Option<(Matrix, Matrix)>, // up and down of a shared expert, which all rows use
}

pub(super) struct Layer {
    name: String,
    attn_norm: Option<NormWeights>,
    mixer: Mixer,
    post_attn: Option<NormWeights>,
    ffn_norm: Option<NormWeights>,
    feed_forward: FeedForward,
    post_ffn: Option<NormWeights>,
    per_layer: Option<PerLayerWeights>,
}

/// What a layer makes of its tokens' numbers.
struct PerLayerWeights {
    norm: NormWeights, // ones, those of the norm before it, and where in the numbers of all layers its own begin
    gate: Matrix,      // (P, D)
    output: Matrix,    // (D, P)
    post: NormWeights,
}

/// Numbers that tokens have for layers.
struct PerLayerTable {
    table: Matrix,      // (V, L P)
    projection: Matrix, // (L P, D)
    norm: BufferId,     // (P)
    p: usize,
}

struct Decoder {
    config: ModelConfig,
    embed: Matrix,             // (V, D)
    positions: Option<Matrix>, // (C, D)
    types: Option<Matrix>,     // (kinds of tokens, D)
    embed_norm: Option<NormWeights>,
    per_layer: Option<PerLayerTable>,
    layers: Vec<Layer>,
    norm: Option<NormWeights>,
    head: Matrix,       // (V, D), the embedding itself where they are tied
    dense: Vec<Matrix>, // of what stands for a text
    left_out: Vec<LeftOut>,
    gguf: bool,
    adaptable: Vec<Adaptable>,
    vectors: Vec<(BufferId, VectorSource)>,
}

/// Checks every tensor of the checkpoint against the configuration and reserves its buffers.
pub fn open(
    checkpoint: &Checkpoint,
    architecture: &'static Architecture,
    config: ModelConfig,
    reserve: &mut Reserve<'_>,
) -> Result<Box<dyn Model>> {
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
        let table = t.named(("token_embd", None), "weight", &[v, d]);
        let embed = t.matrix("token_embd".into(), vec![Rows::all(table.clone())], d, 1, None)?;
        if !own && config.tied == Some(false) && config.pooling.is_none() {
            return Err(Error::bad_model(format!(
                "tensor {} is missing and the configuration does not tie it to the embedding",
                head.name
            )));
        }
        let head = match (config.pooling, config.answers) {
            (Some(Pooling::Rank), answers) if config.dense.is_empty() => {
                let classifier = || t.named(("cls.output", None), "weight", &[2, d]);
                let of = if own { &head } else { &table };
                let row = |first| Rows { tensor: of.clone(), first, rows: 1 };
                let rows = answers.map_or_else(|| vec![Rows::all(classifier())], |answers| answers.map(row).into());
                if answers.is_none() || !own {
                    t.skip(head);
                }
                t.matrix("cls.output".into(), rows, d, 1, None)?
            }
            (None, _) if own => t.matrix("output".into(), vec![Rows::all(head)], d, 1, None)?,
            _ => {
                t.skip(head);
                Matrix { name: "output".into(), ..embed.clone() }
            }
        };
        let own = own && config.pooling.is_none();
        let positions = if config.learned_positions {
            let (rows, first) = (config.context as usize, config.encoder.first_position);
            let tensor = t.named(("position_embd", None), "weight", &[first + rows, d]);
            Some(t.matrix("position_embd".into(), vec![Rows { tensor, first, rows }], d, 1, None)?)
        } else {
            None
        };
        let types = match config.encoder.token_types {
            0 => None,
            n => {
                let table = t.named(("token_types", None), "weight", &[n, d]);
                Some(t.matrix("token_types".into(), vec![Rows::all(table)], d, 1, None)?)
            }
        };
        let embed_norm =
            if config.encoder.embed_norm { Some(norm(&mut t, &config, ("token_embd_norm", None), 1.0)?) } else { None };
        let per_layer = config.per_layer.map(|p| PerLayerTable::reserve(&mut t, &config, p)).transpose()?;
        let scale = if config.pooling.is_some_and(Pooling::embeds) { 1.0 } else { config.logit_scale as f32 };
        let norm = if config.norms == Norms::Behind {
            None
        } else {
            Some(norm(&mut t, &config, ("output_norm", None), scale)?)
        };
        let layers = (0..config.layers.len()).map(|i| Layer::reserve(&mut t, &config, i)).collect::<Result<_>>()?;
        let mut k = d;
        let dense =
            config.dense.iter().map(|of| dense(&mut t, of, std::mem::replace(&mut k, of.n))).collect::<Result<_>>()?;
        let left_out = t.check_all_used(&config)?;
        config.tied = Some(!own);
        let (gguf, adaptable) = (t.names.gguf(), t.adaptable(&config));
        let decoder = Self {
            config,
            embed,
            positions,
            types,
            embed_norm,
            per_layer,
            layers,
            norm,
            head,
            dense,
            left_out,
            gguf,
            adaptable,
            vectors: t.vectors,
        };
        Ok((decoder, t.listed))
    }
}

/// A product of what stands for a text, which has `k` numbers.
fn dense(t: &mut Tensors<'_, '_>, &Dense { part, n, bias, .. }: &Dense, k: usize) -> Result<Matrix> {
    let at = (part, None);
    let bias = if bias {
        Some(t.vector(format!("{part}.bias"), vec![(Some(t.named(at, "bias", &[n])), n)], 0.0, 1.0, 0)?)
    } else {
        None
    };
    let weight = t.named(at, "weight", &[n, k]);
    t.matrix(part.into(), vec![Rows::all(weight)], k, 1, bias)
}

pub(super) fn norm(t: &mut Tensors<'_, '_>, c: &ModelConfig, place: Place, scale: f32) -> Result<NormWeights> {
    let mut vector = |kind: &str, offset| {
        let tensor = t.named(place, kind, &[c.width]);
        let there = kind == "weight" || !c.encoder.no_norm_bias;
        t.vector(tensor.name.clone(), vec![(there.then_some(tensor), c.width)], offset, scale, 0)
    };
    let weight = vector("weight", c.norm_offset)?;
    Ok(NormWeights {
        weight,
        bias: (c.norm == NormKind::Layer).then(|| vector("bias", 0.0)).transpose()?,
        with_post: false,
        scaled: false,
        plain: false,
    })
}

/// A norm's weights, and behind them those of the norm before it, which decode does at the same time, and a layer's
/// number where it ends there.
fn norm_with(
    t: &mut Tensors<'_, '_>,
    c: &ModelConfig,
    place: Place,
    before: Place,
    ends: Option<usize>,
) -> Result<NormWeights> {
    let mut parts: Vec<_> = [place, before].map(|place| (Some(t.named(place, "weight", &[c.width])), c.width)).into();
    parts.extend(ends.into_iter().flat_map(|layer| scale_of(t, c, layer)));
    let label = t.named(place, "weight", &[]).name;
    Ok(NormWeights {
        weight: t.vector(label, parts, c.norm_offset, 1.0, 2 * c.width + 4)?,
        bias: None,
        with_post: true,
        scaled: false,
        plain: false,
    })
}

/// The weights of a layer's last norm, and the number that it ends with.
fn last_norm(t: &mut Tensors<'_, '_>, c: &ModelConfig, place: Place, layer: usize) -> Result<NormWeights> {
    let mut parts = vec![(Some(t.named(place, "weight", &[c.width])), c.width)];
    parts.extend(scale_of(t, c, layer));
    // The norm that follows keeps the same weights beside its own.
    let label = format!("blk.{layer}.{}.last", place.0);
    let weight = t.vector(label, parts, c.norm_offset, 1.0, c.width + 4)?;
    Ok(NormWeights { weight, bias: None, with_post: false, scaled: c.layer_scales, plain: false })
}

/// The number that a layer multiplies the residual stream by, as a part of a vector.
fn scale_of(t: &Tensors<'_, '_>, c: &ModelConfig, layer: usize) -> Vec<(Option<Listed>, usize)> {
    let scale = || (Some(t.named(("layer_output_scale", Some(layer)), "weight", &[1])), 1);
    if c.layer_scales { vec![scale(), (None, 3)] } else { vec![] }
}

impl PerLayerTable {
    fn reserve(t: &mut Tensors<'_, '_>, c: &ModelConfig, p: usize) -> Result<Self> {
        let (d, all) = (c.width, c.layers.len() * p);
        let table = t.named(("per_layer_token_embd", None), "weight", &[c.vocab, all]);
        let projection = t.named(("per_layer_model_proj", None), "weight", &[all, d]);
        let norm = t.named(("per_layer_proj_norm", None), "weight", &[p]);
        Ok(Self {
            table: t.matrix("per_layer_token_embd".into(), vec![Rows::all(table)], all, 1, None)?,
            projection: t.matrix("per_layer_model_proj".into(), vec![Rows::all(projection)], d, 1, None)?,
            norm: t.vector("per_layer_proj_norm".into(), vec![(Some(norm), p)], 0.0, HALF_POWER as f32, 0)?,
            p,
        })
    }
}

/// The sum of two numbers of a token's for a layer is divided by the root of two.
const HALF_POWER: f64 = std::f64::consts::FRAC_1_SQRT_2;

impl PerLayerWeights {
    fn reserve(layer: &mut Reserving<'_, '_, '_>, p: usize) -> Result<Self> {
        let (c, i, d) = (layer.c, layer.i, layer.c.width);
        let before = layer.t.named(("post_ffw_norm", Some(i)), "weight", &[d]);
        let weight = layer.t.vector(
            format!("blk.{i}.inp_gate.norm"),
            vec![(None, d), (Some(before), d), (None, 4)],
            0.0,
            1.0,
            0,
        )?;
        layer.t.fill(0, 1.0);
        layer.t.fill(2, (i * p) as f32);
        Ok(Self {
            norm: NormWeights { weight, bias: None, with_post: true, scaled: false, plain: true },
            gate: layer.matrix("inp_gate", &[("inp_gate", p)], d, false)?,
            output: layer.matrix("proj", &[("proj", d)], p, false)?,
            post: last_norm(layer.t, c, ("post_norm", Some(i)), i)?,
        })
    }
}

impl Layer {
    pub(super) fn reserve(t: &mut Tensors<'_, '_>, c: &ModelConfig, i: usize) -> Result<Self> {
        let at = |part| (part, Some(i));
        let kind = c.layers[i];
        let before = matches!(c.norms, Norms::Before | Norms::Around);
        let after = c.norms != Norms::Before;
        let norm_at = |t: &mut Tensors<'_, '_>, there: bool, part| {
            if there { norm(t, c, at(part), 1.0).map(Some) } else { Ok(None) }
        };
        let around = c.norms == Norms::Around && c.norm == NormKind::Rms;
        let mixes = kind.mixer != MixerKind::None;
        let feeds = kind.feed_forward != FeedForwardKind::None;
        let attn_norm = match i.checked_sub(1).filter(|_| around) {
            Some(last) => {
                let post = if c.per_layer.is_some() { "post_norm" } else { "post_ffw_norm" };
                Some(norm_with(t, c, at("attn_norm"), (post, Some(last)), Some(last))?)
            }
            None => norm_at(t, before && mixes && !(i == 0 && c.encoder.first_unnormed), "attn_norm")?,
        };
        let mixer = Reserving { t: &mut *t, c, i }.mixer()?;
        let post_attn = norm_at(t, after && mixes, "post_attention_norm")?;
        let ffn_norm = match around {
            true => Some(norm_with(t, c, at("ffn_norm"), at("post_attention_norm"), None)?),
            // Where a layer has nothing else, its only norm is the first.
            false => norm_at(t, before && feeds, if mixes { "ffn_norm" } else { "attn_norm" })?,
        };
        let feed_forward = feed_forward(Reserving { t: &mut *t, c, i })?;
        let post_ffn = match c.layer_scales && c.per_layer.is_none() {
            true => Some(last_norm(t, c, at("post_ffw_norm"), i)?),
            false => norm_at(t, after && feeds, "post_ffw_norm")?,
        };
        let per_layer =
            c.per_layer.map(|p| PerLayerWeights::reserve(&mut Reserving { t: &mut *t, c, i }, p)).transpose()?;
        Ok(Self { name: format!("blk.{i}"), attn_norm, mixer, post_attn, ffn_norm, feed_forward, post_ffn, per_layer })
    }

    pub(super) fn matrices(&self) -> Vec<&Matrix> {
        let mut all = self.mixer.matrices();
        match &self.feed_forward {
            FeedForward::None => {}
            FeedForward::One { up, down } => all.extend([up, down]),
            FeedForward::Experts(experts) => all.extend(experts.matrices()),
            FeedForward::Both { up, down, experts, .. } => {
                all.extend([up, down]);
                all.extend(experts.matrices());
            }
        }
        all.extend(self.per_layer.iter().flat_map(|of| [&of.gate, &of.output]));
        all
    }

    /// Appends what the layer adds to the residual stream. `numbers`: what each row has for layers, and the words of a
    /// row of them.
    pub(super) fn plan(
        &self,
        b: &mut Builder<'_>,
        c: &ModelConfig,
        i: usize,
        numbers: Option<(Value, usize)>,
    ) -> Result<()> {
        let name = |part: &str| format!("{}.{part}", self.name);
        let attn_norm = self.attn_norm.as_ref().map(|w| norm_of(c, name("attn_norm"), w));
        if let Some((output, x)) = self.mixer.plan(b, c, i, attn_norm.as_ref())? {
            add(b, c, output, x, self.post_attn.as_ref().map(|w| norm_of(c, name("post_attention_norm"), w)))?;
        }
        let ffn_norm = self.ffn_norm.as_ref().map(|w| norm_of(c, name("ffn_norm"), w));
        match &self.feed_forward {
            FeedForward::None => {}
            FeedForward::One { up, down } => {
                let a = b.mlp(&name("ffn"), ffn_norm.as_ref(), up, c.mlp, down)?; // (T, F)
                add(b, c, down, a, self.post_ffn.as_ref().map(|w| norm_of(c, name("post_ffw_norm"), w)))?;
            }
            FeedForward::Experts(experts) => {
                let norm = ffn_norm.as_ref().ok_or_else(|| Error::internal("experts without a norm"))?;
                b.experts(&name("experts"), norm, experts.plan(c, None)?)?;
            }
            FeedForward::Both { up, down, experts, norms } => {
                let x = b.mlp(&name("ffn"), ffn_norm.as_ref(), up, c.mlp, down)?; // (T, F)
                let router_norm = experts.router_norm.as_ref().map(|w| norm_of(c, name("router_norm"), w));
                let [before, first, second] = &**norms;
                let norms = [(before, "pre_ffw_norm_2"), (first, "post_ffw_norm_1"), (second, "post_ffw_norm_2")];
                let [before, first, second] = norms.map(|(w, part)| norm_of(c, name(part), w));
                let post = self.post_ffn.as_ref().map(|w| norm_of(c, name("post_ffw_norm"), w));
                let post = post.ok_or_else(|| Error::internal("experts beside a network without a norm"))?;
                b.beside_experts(
                    &name("experts"),
                    (down, x),
                    experts.plan(c, router_norm.as_ref())?,
                    [&before, &first, &second],
                    post,
                )?;
            }
        }
        if let (Some(of), Some((numbers, stride))) = (&self.per_layer, numbers) {
            let norm = norm_of(c, name("inp_gate.norm"), &of.norm);
            let (mlp, gate, output) = (Mlp { gated: false, ..c.mlp }, &of.gate, &of.output);
            b.per_layer(
                &name("per_layer"),
                PerLayer { numbers, stride, norm: &norm, mlp, gate, output },
                norm_of(c, name("post_norm"), &of.post),
            )?;
        }
        Ok(())
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
    let (c, i, d) = (layer.c, layer.i, layer.c.width);
    let kind = c.layers[i].feed_forward;
    if kind == FeedForwardKind::None {
        return Ok(FeedForward::None);
    }
    if kind == FeedForwardKind::Experts {
        return Ok(FeedForward::Experts(Box::new(experts(&mut layer)?)));
    }
    let f = c.layers[i].ff.unwrap_or(c.ff);
    let up = gate_up(layer.t, c, f);
    let (up, down) =
        (layer.matrix("gate_up", &up, d, c.biases.ff)?, layer.matrix("down", &[("ffn_down", d)], f, c.biases.ff)?);
    if kind == FeedForwardKind::One {
        return Ok(FeedForward::One { up, down });
    }
    let mut experts = experts(&mut layer)?;
    // What the router reads is normed with weights of its own.
    let scale = layer.t.named(("ffn_gate_inp.scale", Some(i)), "", &[d]);
    let weight =
        layer.t.vector(format!("blk.{i}.router.norm"), vec![(Some(scale), d)], 0.0, (d as f32).sqrt().recip(), 0)?;
    experts.router_norm = Some(NormWeights { weight, bias: None, with_post: false, scaled: false, plain: false });
    let mut norm_of = |part| norm(layer.t, c, (part, Some(i)), 1.0);
    let norms = [norm_of("pre_ffw_norm_2")?, norm_of("post_ffw_norm_1")?, norm_of("post_ffw_norm_2")?];
    Ok(FeedForward::Both { up, down, experts: Box::new(experts), norms: Box::new(norms) })
}

fn experts(layer: &mut Reserving<'_, '_, '_>) -> Result<ExpertWeights> {
    let (c, i) = (layer.c, layer.i);
    let (d, stored) = (c.width, c.stored);
    let Mixture { routing, ff: f, shared } = c.experts.ok_or_else(|| Error::internal("experts without their sizes"))?;
    let n = routing.count;
    let at = |part| (part, Some(i));
    let t = &mut *layer.t;
    // Of expert x: rows of a list of all experts, or a tensor of its own.
    let rows = |t: &Tensors<'_, '_>, x: usize, part: &'static str, rows: usize, k: usize| {
        if stored.each_expert {
            return Rows::all(Listed {
                name: t.names.expert(i, part, x),
                shape: vec![rows, k],
                part,
                layer: Some(i),
                transposed: false,
            });
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
    let biases = if c.biases.experts { Some(expert_biases(t, i, [n, f, d], fused)?) } else { None };
    let router = t.matrix(format!("blk.{i}.router"), router, d, 1, biases.map(|(router, _)| router))?;
    let up = t.matrix(format!("blk.{i}.experts_up"), up, d, c.mlp.products() * f, None)?;
    let down = t.matrix(format!("blk.{i}.experts_down"), down, f, d, None)?;
    let bias = match routing.scores {
        Scores::Softmax => None,
        Scores::Sigmoid { .. } | Scores::Scaled => {
            let bias = if routing.scores == Scores::Scaled {
                t.named(at("ffn_down_exps.scale"), "", &[n])
            } else {
                t.named(at("exp_probs_b"), "bias", &[n])
            };
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
            Some((
                layer.matrix("shared_up", up, d, false)?,
                layer.matrix("shared_down", &[("ffn_down_shexp", d)], f, false)?,
            ))
        }
    };
    Ok(ExpertWeights { router, router_norm: None, bias, biases: biases.map(|(_, of)| of), up, down, shared })
}

impl ExpertWeights {
    fn matrices(&self) -> impl Iterator<Item = &Matrix> {
        [&self.router, &self.up, &self.down].into_iter().chain(self.shared.iter().flat_map(|(up, down)| [up, down]))
    }

    fn plan<'a>(&'a self, c: &ModelConfig, router_norm: Option<&'a Norm>) -> Result<Experts<'a>> {
        let Self { router, bias, biases, up, down, shared, .. } = self;
        let routing = c.experts.ok_or_else(|| Error::internal("experts without their sizes"))?.routing;
        let shared = shared.as_ref().map(|(up, down)| (up, down));
        Ok(Experts {
            routing,
            mlp: c.mlp,
            router,
            router_norm,
            bias: *bias,
            up,
            down,
            biases: *biases,
            interleaved: c.stored.interleaved,
            shared,
        })
    }
}

/// Biases of the router, and of the products of all experts.
fn expert_biases(
    t: &mut Tensors<'_, '_>,
    i: usize,
    [n, f, d]: [usize; 3],
    fused: bool,
) -> Result<(BufferId, (BufferId, BufferId))> {
    let up: &[_] =
        if fused { &[("ffn_gate_up_exps_bias", 2 * f)] } else { &[("ffn_gate_exps", f), ("ffn_up_exps", f)] };
    let mut vector = |label: &str, parts: &[(&'static str, usize)], count: Option<usize>| {
        let of = |&(part, rows): &(&'static str, usize)| {
            let shape = count.into_iter().chain([rows]).collect::<Vec<_>>();
            (Some(t.named((part, Some(i)), "bias", &shape)), count.unwrap_or(1) * rows)
        };
        let parts = parts.iter().map(of).collect();
        t.vector(format!("blk.{i}.{label}.bias"), parts, 0.0, 1.0, 0)
    };
    let router = vector("router", &[("ffn_gate_inp", n)], None)?;
    let down = if fused { "ffn_down_exps_bias" } else { "ffn_down_exps" };
    Ok((router, (vector("experts_up", up, Some(n))?, vector("experts_down", &[(down, d)], Some(n))?)))
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
        all.extend(self.positions.iter().chain(&self.types).chain(&self.dense));
        all.extend(self.per_layer.iter().flat_map(|of| [&of.table, &of.projection]));
        if self.config.tied != Some(true) || self.config.pooling == Some(Pooling::Rank) && self.dense.is_empty() {
            all.push(&self.head);
        }
        for l in &self.layers {
            all.extend(l.matrices());
        }
        all
    }

    fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    fn vectors(&self) -> &[(BufferId, VectorSource)] {
        &self.vectors
    }

    fn gguf(&self) -> bool {
        self.gguf
    }

    fn adaptable(&self) -> &[Adaptable] {
        &self.adaptable
    }

    fn adaptable_matrices(&self) -> Vec<&Matrix> {
        let mut all = Vec::new();
        for layer in &self.layers {
            all.extend(layer.mixer.attention_matrices());
            if let FeedForward::One { up, down } = &layer.feed_forward {
                all.extend([up, down]);
            }
        }
        all
    }

    fn layers(&self, b: &mut Builder<'_>) -> Result<()> {
        let c = &self.config;
        if c.pooling.is_some() {
            b.texts(c.encoder.both_ways);
        }
        b.embed("token_embd", &self.embed, c.embed_scale)?;
        if let Some(table) = &self.positions {
            b.embed_positions("position_embd", table)?;
        }
        if let Some(table) = &self.types {
            b.embed_more("token_types", table, Control::TokenTypes)?;
        }
        if let Some(norm) = &self.embed_norm {
            b.renorm(&norm_of(c, "token_embd_norm".into(), norm))?;
        }
        let mut numbers = match &self.per_layer {
            None => None,
            Some(PerLayerTable { table, projection, norm, p }) => {
                // The projection of a width's numbers would be divided by the width's root: its norm's epsilon says so.
                let norm = (*norm, c.eps * c.width as f64);
                Some((
                    b.per_layer_numbers("per_layer", table, (*p as f64).sqrt() * HALF_POWER, projection, norm, *p)?,
                    stride(table.k),
                ))
            }
        };
        let tail = if c.pooling.is_some() { self.layers.len() } else { c.tail() };
        for (i, l) in self.layers.iter().enumerate() {
            b.stage(if i < tail { Stage::Layer(i) } else { Stage::Tail(i) });
            if i == tail {
                let last = b.tail(numbers)?;
                numbers = numbers.zip(last).map(|((_, each), last)| (last, each));
            }
            l.plan(b, c, i, numbers)?;
            if i < c.deepstack {
                b.place_rows(i + 1)?;
            }
        }
        Ok(())
    }

    fn head(&self, b: &mut Builder<'_>) -> Result<Value> {
        let norm = self.norm.as_ref().map(|norm| norm_of(&self.config, "output_norm".into(), norm));
        let Some(pooling) = self.config.pooling else {
            let norm = norm.ok_or_else(|| Error::internal("a head without a norm before it"))?;
            return b.head(&norm, &self.head, self.config.logit_cap);
        };
        let mut x = b.pool(norm.as_ref(), pooling == Pooling::Mean, None)?;
        for (matrix, of) in self.dense.iter().zip(&self.config.dense) {
            x = b.dense(matrix, of.tanh, x)?;
        }
        if pooling == Pooling::Rank && self.dense.is_empty() { b.dense(&self.head, false, x) } else { Ok(x) }
    }
}

/// Adds what a product makes of `x` to the residual stream: its norm, or (`Norms::Behind`) as it is, before the stream
/// becomes its norm.
fn add(b: &mut Builder<'_>, c: &ModelConfig, matrix: &Matrix, x: Act, norm: Option<Norm>) -> Result<()> {
    match norm {
        Some(norm) if c.norms == Norms::Behind => {
            b.add(matrix, x, None)?;
            b.renorm(&norm)
        }
        norm => b.add(matrix, x, norm),
    }
}

pub(super) fn norm_of(c: &ModelConfig, name: String, w: &NormWeights) -> Norm {
    let center = c.norm == NormKind::Layer;
    Norm {
        name,
        weight: w.weight,
        bias: w.bias,
        center,
        eps: c.eps,
        with_post: w.with_post,
        scaled: w.scaled,
        plain: w.plain,
    }
}
