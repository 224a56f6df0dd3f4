//! The transformer that all architectures are: layers of attention and a feed-forward network, or experts, around a residual stream. What
//! differs is data ([`ModelConfig`]).

use super::config::{LayerKind, MixerKind, ModelConfig, NormKind, Norms, QkNorm};
use super::tensors::{Listed, Place, Rows, Tensors};
use super::{Architecture, Model, Reserve};
use crate::error::{Error, Result};
use crate::format::Checkpoint;
use crate::layout::BufferId;
use crate::plan::{Attention, Builder, Experts, Heads, Keys, Mlp, Norm, QK_NORM_ROOM, QkNorms, Rotation, Stage, Value};
use crate::weights::{Matrix, VectorSource};

struct NormWeights {
    weight: BufferId,       // (D), or (2 D) with those of the norm before it
    bias: Option<BufferId>, // (D), LayerNorm's
    with_post: bool,
}

enum FeedForward {
    One {
        up: Matrix,   // (2 F, D), gates first; (F, D) where nothing is gated
        down: Matrix, // (D, F)
    },
    Experts {
        router: Matrix, // (experts, D)
        up: Matrix,     // (experts 2 F, D), gates first in each
        down: Matrix,   // (experts D, F)
    },
}

enum Mixer {
    Attention {
        qkv: Matrix,               // ((H + 2 G) E, D), or (H E, D) where keys and values are another layer's
        qk_norm: Option<BufferId>, // weights for queries, then for keys
        o: Matrix,                 // (D, H E)
        keys: Keys,
    },
    #[cfg(feature = "toy")]
    RunningSum,
}

struct Layer {
    name: String,
    kind: LayerKind,
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
        t.check_all_used(&config)?;
        config.tied = Some(!own);
        Ok((Self { config, embed, positions, layers, norm, head, vectors: t.vectors }, t.listed))
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

/// The weights of the norms of queries and keys, where there are such.
fn qk_norm(t: &mut Tensors<'_, '_>, c: &ModelConfig, name: &str, i: usize) -> Result<Option<BufferId>> {
    let Heads { h, g, e } = c.heads;
    let (q, k) = match c.qk_norm {
        QkNorm::None => return Ok(None),
        QkNorm::Each => (e, e),
        QkNorm::All => (h * e, g * e),
    };
    let room = if c.qk_norm == QkNorm::Each { QK_NORM_ROOM } else { q };
    let (q_norm, k_norm) = (t.named(("attn_q_norm", Some(i)), "weight", &[q]), t.named(("attn_k_norm", Some(i)), "weight", &[k]));
    let mut parts = vec![(Some(q_norm), q), (None, room - q)];
    parts.push(if matches!(c.layers[i].mixer, MixerKind::Shared(_)) { (None, k) } else { (Some(k_norm), k) });
    t.vector(format!("{name}.qk_norm"), parts, c.norm_offset, 1.0, 2 * QK_NORM_ROOM).map(Some)
}

impl Layer {
    fn reserve(t: &mut Tensors<'_, '_>, c: &ModelConfig, i: usize) -> Result<Self> {
        let (d, f, Heads { h, g, e }) = (c.width, c.ff, c.heads);
        let name = format!("blk.{i}");
        let at = |part| (part, Some(i));
        let stored = c.stored;
        let kind = c.layers[i];
        let keys = match kind.mixer {
            MixerKind::Shared(layer) => Keys::Of(layer),
            _ => Keys::Own(i),
        };
        let qkv: &[_] = match keys {
            Keys::Of(_) => &[("attn_q", h * e)],
            Keys::Own(_) if stored.qkv => &[("attn_qkv", c.heads.qkv())],
            Keys::Own(_) => &[("attn_q", h * e), ("attn_k", g * e), ("attn_v", g * e)],
        };
        let transposed = stored.transposed;
        let matrix = |t: &mut Tensors<'_, '_>, label: &str, parts: &[(&'static str, usize)], k: usize, bias: bool| {
            let rows = |&(part, n): &(&'static str, usize)| {
                let tensor = t.named(at(part), "weight", &if transposed { [k, n] } else { [n, k] });
                Rows { tensor: Listed { transposed, ..tensor }, first: 0, rows: n }
            };
            let sources = parts.iter().map(rows).collect();
            let bias = if bias {
                let parts = parts.iter().map(|(part, n)| (Some(t.named(at(part), "bias", &[*n])), *n)).collect();
                Some(t.vector(format!("{name}.{label}.bias"), parts, 0.0, 1.0, 0)?)
            } else {
                None
            };
            t.matrix(format!("{name}.{label}"), sources, k, 1, bias)
        };
        let before = c.norms != Norms::After;
        let after = c.norms != Norms::Before;
        let norm_at = |t: &mut Tensors<'_, '_>, there: bool, part| if there { norm(t, c, at(part), 1.0).map(Some) } else { Ok(None) };
        let around = c.norms == Norms::Around && c.norm == NormKind::Rms;
        let attn_norm = match i.checked_sub(1).filter(|_| around) {
            Some(last) => Some(norm_with(t, c, at("attn_norm"), ("post_ffw_norm", Some(last)))?),
            None => norm_at(t, before, "attn_norm")?,
        };
        let attention = |t: &mut Tensors<'_, '_>| {
            let qkv = matrix(t, "qkv", qkv, d, c.biases.qkv)?;
            let qk_norm = qk_norm(t, c, &name, i)?;
            Ok::<_, Error>(Mixer::Attention { qkv, qk_norm, o: matrix(t, "o", &[("attn_output", d)], h * e, c.biases.output)?, keys })
        };
        let mixer = match kind.mixer {
            MixerKind::Attention | MixerKind::Shared(_) => attention(t)?,
            #[cfg(feature = "toy")]
            MixerKind::RunningSum => Mixer::RunningSum,
        };
        let post_attn = norm_at(t, after, "post_attention_norm")?;
        let ffn_norm = match around {
            true => Some(norm_with(t, c, at("ffn_norm"), at("post_attention_norm"))?),
            false => norm_at(t, before, "ffn_norm")?,
        };
        let feed_forward = match c.experts {
            None => {
                let up: &[_] = match (c.gated, stored.gate_up) {
                    (true, true) if t.names.gguf() => &[("ffn_up", 2 * f)],
                    (true, true) => &[("ffn_gate_up", 2 * f)],
                    (true, false) => &[("ffn_gate", f), ("ffn_up", f)],
                    (false, _) => &[("ffn_up", f)],
                };
                FeedForward::One { up: matrix(t, "gate_up", up, d, c.biases.ff)?, down: matrix(t, "down", &[("ffn_down", d)], f, c.biases.ff)? }
            }
            Some(experts) => {
                let n = experts.count;
                // Of expert x: rows of a list of all experts, or a tensor of its own.
                let rows = |t: &Tensors<'_, '_>, x: usize, part: &'static str, rows: usize, k: usize| {
                    if stored.each_expert {
                        return Rows::all(Listed { name: t.names.expert(i, part, x), shape: vec![rows, k], part, layer: Some(i), transposed: false });
                    }
                    Rows { tensor: t.named(at(part), "weight", &[n, rows, k]), first: x * rows, rows }
                };
                let up = (0..n).flat_map(|x| match stored.gate_up {
                    true => vec![rows(t, x, "ffn_gate_up_exps", 2 * f, d)],
                    false => vec![rows(t, x, "ffn_gate_exps", f, d), rows(t, x, "ffn_up_exps", f, d)],
                });
                let up = up.collect();
                let down = (0..n).map(|x| rows(t, x, "ffn_down_exps", d, f)).collect();
                FeedForward::Experts {
                    router: matrix(t, "router", &[("ffn_gate_inp", n)], d, false)?,
                    up: t.matrix(format!("{name}.experts_up"), up, d, 2 * f, None)?,
                    down: t.matrix(format!("{name}.experts_down"), down, f, d, None)?,
                }
            }
        };
        let post_ffn = norm_at(t, after, "post_ffw_norm")?;
        Ok(Self { name, kind, attn_norm, mixer, post_attn, ffn_norm, feed_forward, post_ffn })
    }
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
            match &l.mixer {
                Mixer::Attention { qkv, o, .. } => all.extend([qkv, o]),
                #[cfg(feature = "toy")]
                Mixer::RunningSum => {}
            }
            match &l.feed_forward {
                FeedForward::One { up, down } => all.extend([up, down]),
                FeedForward::Experts { router, up, down } => all.extend([router, up, down]),
            }
        }
        all
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
            match &l.mixer {
                Mixer::Attention { qkv, qk_norm, o, keys } => {
                    let rows = match &l.attn_norm {
                        Some(w) => b.norm_qkv(&self.norm_of(name("attn_norm"), w), qkv)?, // (T, (H + 2 G) E)
                        None => {
                            let x = b.unnormed(&name("attn_input"), qkv)?;
                            b.qkv(qkv, x)?
                        }
                    };
                    let rope = c.ropes.get(l.kind.rope).map(|rope| Rotation { table: l.kind.rope, dims: rope.dims, interleaved: rope.interleaved });
                    let qk_norm = qk_norm.map(|weight| QkNorms { weight, eps: c.eps, all: c.qk_norm == QkNorm::All });
                    let shape = Attention { keys: *keys, heads: c.heads, rope, qk_norm, scale: c.score_scale, window: l.kind.window, softcap: c.score_cap };
                    let a = b.attention(&name("attention"), rows, shape, o)?; // (T, H E)
                    b.add(o, a, l.post_attn.as_ref().map(|w| self.norm_of(name("post_attention_norm"), w)))?;
                }
                #[cfg(feature = "toy")]
                Mixer::RunningSum => {
                    let Some(w) = &l.attn_norm else { return Err(Error::internal("a running sum without a norm")) };
                    b.running_sum(&name("running_sum"), i, &self.norm_of(name("attn_norm"), w))?;
                }
            }
            let ffn_norm = l.ffn_norm.as_ref().map(|w| self.norm_of(name("ffn_norm"), w));
            match &l.feed_forward {
                FeedForward::One { up, down } => {
                    let mlp = Mlp { activation: c.activation, gated: c.gated };
                    let a = b.mlp(&name("ffn"), ffn_norm.as_ref(), up, mlp, down)?; // (T, F)
                    b.add(down, a, l.post_ffn.as_ref().map(|w| self.norm_of(name("post_ffw_norm"), w)))?;
                }
                FeedForward::Experts { router, up, down } => {
                    let (Some(routing), Some(norm)) = (c.experts, &ffn_norm) else { return Err(Error::internal("experts without a norm")) };
                    b.experts(&name("experts"), norm, Experts { routing, activation: c.activation, router, up, down })?;
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
