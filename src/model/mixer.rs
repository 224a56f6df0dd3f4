//! What mixes a layer's positions: attention, a convolution, linear attention; its tensors and its operations.

use super::config::{MixerKind, ModelConfig, QkNorm};
use super::tensors::{Listed, Rows, Tensors};
use crate::error::{Error, Result};
use crate::layout::{BufferId, Scratch};
use crate::plan::{
    Act, Attention, Builder, GatedNorm, Heads, Keys, Linear, LinearFactors, LinearHeads, LinearKind, Norm,
    QK_NORM_ROOM, QkNorms, Rotation, Rule, ShortConv, Value,
};
use crate::weights::Matrix;

pub enum Mixer {
    Attention {
        qkv: Matrix, // ((H + 2 G) E, D), or (H E, D) where keys and values are another layer's; gates (H E, D) behind them
        qk_norm: Option<BufferId>, // weights for queries, then for keys
        sinks: Option<BufferId>, // (H)
        o: Matrix,   // (D, H E)
        keys: Keys,
    },
    ShortConv {
        input: Matrix,    // (3 D, D): B, C, X
        weight: BufferId, // (D, taps)
        output: Matrix,   // (D, D)
    },
    Linear {
        input: Matrix, // channels and gates of the norm, (.., D), and those of the heads where they are of the same types
        gates: Option<Matrix>, // (a and b of each head, D)
        conv: BufferId, // (channels, taps), (channels)
        of_heads: BufferId, // (3, heads): A, bias, D
        norm: Option<BufferId>, // (value), or (heads value)
        output: Matrix, // (D, heads value)
    },
    /// Attention and linear attention of the same rows.
    Both(Box<[Mixer; 2]>),
    None,
    #[cfg(feature = "toy")]
    RunningSum,
}

/// A layer while its tensors are reserved.
pub struct Reserving<'t, 'a, 'b> {
    pub t: &'t mut Tensors<'a, 'b>,
    pub c: &'t ModelConfig,
    pub i: usize,
}

impl Reserving<'_, '_, '_> {
    fn name(&self, part: &str) -> String {
        format!("blk.{}.{part}", self.i)
    }

    /// A matrix of the layer: tensors on top of each other, by llama.cpp's names and their rows.
    pub fn matrix(&mut self, label: &str, parts: &[(&'static str, usize)], k: usize, bias: bool) -> Result<Matrix> {
        let transposed = self.c.stored.transposed;
        let at = |part| (part, Some(self.i));
        let rows = |&(part, n): &(&'static str, usize)| {
            let tensor = self.t.named(at(part), "weight", &if transposed { [k, n] } else { [n, k] });
            Rows { tensor: Listed { transposed, ..tensor }, first: 0, rows: n }
        };
        let sources = parts.iter().map(rows).collect();
        let bias = if bias {
            let parts = parts.iter().map(|(part, n)| (Some(self.t.named(at(part), "bias", &[*n])), *n)).collect();
            Some(self.t.vector(self.name(&format!("{label}.bias")), parts, 0.0, 1.0, 0)?)
        } else {
            None
        };
        self.t.matrix(self.name(label), sources, k, 1, bias)
    }

    fn vector(&mut self, label: &str, parts: Vec<(Option<Listed>, usize)>) -> Result<BufferId> {
        self.t.vector(self.name(label), parts, 0.0, 1.0, 0)
    }

    fn flat(&self, part: &'static str, kind: &str, shape: &[usize]) -> Listed {
        self.t.flat((part, Some(self.i)), kind, shape)
    }

    pub fn mixer(&mut self) -> Result<Mixer> {
        match self.c.layers[self.i].mixer {
            MixerKind::Attention => self.attention(Keys::Own(if self.c.encoder.one_cache { 0 } else { self.i })),
            MixerKind::Shared(layer) => self.attention(Keys::Of(layer)),
            MixerKind::ShortConv => self.short_conv(),
            MixerKind::Linear => self.linear(),
            MixerKind::Both => Ok(Mixer::Both(Box::new([self.attention(Keys::Own(self.i))?, self.linear()?]))),
            MixerKind::None => Ok(Mixer::None),
            #[cfg(feature = "toy")]
            MixerKind::RunningSum => Ok(Mixer::RunningSum),
        }
    }

    fn attention(&mut self, keys: Keys) -> Result<Mixer> {
        let (c, d, heads) = (self.c, self.c.width, self.c.heads_of(self.i));
        let Heads { h, g, e } = heads;
        let qkv: &[_] = match keys {
            Keys::Of(_) => &[("attn_q", h * e)],
            Keys::Own(_) if c.stored.qkv => &[("attn_qkv", heads.qkv())],
            // What both are made of is there twice, as if it were two matrices.
            Keys::Own(i) if c.layers[i].keys_are_values => &[("attn_q", h * e), ("attn_k", g * e), ("attn_k", g * e)],
            Keys::Own(_) => &[("attn_q", h * e), ("attn_k", g * e), ("attn_v", g * e)],
        };
        let qkv = if c.attention_gate { self.gated_qkv()? } else { self.matrix("qkv", qkv, d, c.biases.qkv)? };
        let sinks = self.t.named(("attn_sinks", Some(self.i)), "weight", &[h]);
        let sinks = if c.sinks { Some(self.vector("sinks", vec![(Some(sinks), h)])?) } else { None };
        Ok(Mixer::Attention {
            qkv,
            qk_norm: self.qk_norm()?,
            sinks,
            o: self.matrix("o", &[("attn_output", d)], h * e, c.biases.output)?,
            keys,
        })
    }

    /// A projection that the checkpoint stores with each head's query and gate side by side.
    fn gated_qkv(&mut self) -> Result<Matrix> {
        let (d, Heads { h, g, e }) = (self.c.width, self.c.heads_of(self.i));
        let tensor = |part, n| self.t.named((part, Some(self.i)), "weight", &[n, d]);
        let (q, k, v) = (tensor("attn_q", 2 * h * e), tensor("attn_k", g * e), tensor("attn_v", g * e));
        let of_q = |first: usize| Rows { tensor: q.clone(), first, rows: e };
        let queries = (0..h).map(|head| of_q(2 * head * e));
        let gates = (0..h).map(|head| of_q((2 * head + 1) * e));
        let sources = queries.chain([Rows::all(k), Rows::all(v)]).chain(gates).collect();
        self.t.matrix(self.name("qkv"), sources, d, 1, None)
    }

    /// The weights of the norms of queries and keys, where there are such.
    pub fn qk_norm(&mut self) -> Result<Option<BufferId>> {
        let (c, t, i) = (self.c, &mut *self.t, self.i);
        let Heads { h, g, e } = c.heads_of(i);
        let (q, k) = match c.qk_norm {
            QkNorm::None => return Ok(None),
            QkNorm::Each | QkNorm::Late => (e, e),
            QkNorm::All => (h * e, g * e),
        };
        let room = if c.qk_norm == QkNorm::All { q } else { QK_NORM_ROOM };
        let (q_norm, k_norm) =
            (t.named(("attn_q_norm", Some(i)), "weight", &[q]), t.named(("attn_k_norm", Some(i)), "weight", &[k]));
        let mut parts = vec![(Some(q_norm), q), (None, room - q)];
        parts.push(if matches!(c.layers[i].mixer, MixerKind::Shared(_)) { (None, k) } else { (Some(k_norm), k) });
        t.vector(format!("blk.{i}.qk_norm"), parts, c.norm_offset, 1.0, 2 * QK_NORM_ROOM).map(Some)
    }

    fn short_conv(&mut self) -> Result<Mixer> {
        let (d, taps) = (self.c.width, self.c.conv_taps);
        let weight = self.flat("shortconv.conv", "weight", &[d, taps]);
        Ok(Mixer::ShortConv {
            input: self.matrix("conv_in", &[("shortconv.in_proj", 3 * d)], d, false)?,
            weight: self.vector("conv", vec![(Some(weight), d * taps)])?,
            output: self.matrix("conv_out", &[("shortconv.out_proj", d)], d, false)?,
        })
    }

    fn linear(&mut self) -> Result<Mixer> {
        let kind = self.c.linear.ok_or_else(|| Error::internal("linear attention without its sizes"))?;
        let LinearKind { heads: h, conv_bias, norm, factors, .. } = kind;
        let LinearHeads { heads, taps, .. } = h;
        let (d, channels, width) = (self.c.width, h.channels(), h.width());
        let all = |part: &'static str, n| Rows::all(self.t.named((part, Some(self.i)), "weight", &[n, d]));
        // Rows of tensors that store all parts of a key head together: a piece is (first row, rows) within a head.
        let per_head = |part: &'static str, n: usize, pieces: &[(usize, usize)]| {
            let (tensor, heads) = (self.t.named((part, Some(self.i)), "weight", &[n, d]), h.key_heads);
            let of = |&(at, rows): &(usize, usize)| {
                (0..heads).map(move |head| (head * (n / heads) + at, rows)).collect::<Vec<_>>()
            };
            pieces
                .iter()
                .flat_map(of)
                .map(|(first, rows)| Rows { tensor: tensor.clone(), first, rows })
                .collect::<Vec<_>>()
        };
        let (key, shared) = (h.key, heads / h.key_heads);
        let values = shared * h.value;
        let (input, gates) = match h.rule {
            Rule::Mamba => (vec![all("ssm_in", width + channels + heads)], vec![]),
            Rule::Delta if self.c.stored.by_key_heads => {
                let input = match self.t.names.gguf() {
                    true => vec![all("attn_qkv", channels), all("attn_gate", width)],
                    false => per_head(
                        "ssm_in",
                        channels + width,
                        &[(0, key), (key, key), (2 * key, values), (2 * key + values, values)],
                    ),
                };
                (input, per_head("ssm_ba", 2 * heads, &[(shared, shared), (0, shared)]))
            }
            Rule::Delta => (
                vec![all("attn_qkv", channels), all("attn_gate", width)],
                vec![all("ssm_alpha", heads), all("ssm_beta", heads)],
            ),
        };
        let one = self.t.alike(&input.iter().chain(&gates).map(|rows| &rows.tensor).collect::<Vec<_>>());
        let (input, gates) = if one { (input.into_iter().chain(gates).collect(), vec![]) } else { (input, gates) };
        let input = self.t.matrix(self.name("linear_in"), input, d, 1, None)?;
        let gates =
            if gates.is_empty() { None } else { Some(self.t.matrix(self.name("linear_gates"), gates, d, 1, None)?) };
        let mut conv = vec![(Some(self.flat("ssm_conv1d", "weight", &[channels, taps])), channels * taps)];
        conv.extend(conv_bias.then(|| (Some(self.flat("ssm_conv1d", "bias", &[channels])), channels)));
        let direct = (h.rule == Rule::Mamba).then(|| self.flat("ssm_d", "", &[heads]));
        let of_heads = vec![
            (Some(self.flat("ssm_a", "", &[heads])), heads),
            (Some(self.flat("ssm_dt", "bias", &[heads])), heads),
            (direct, heads),
        ];
        let conv = self.vector("linear_conv", conv)?;
        if factors != LinearFactors::NONE {
            // Values, keys and queries, as Mamba-2 has its channels.
            let parts = [width, h.key_heads * key, h.key_heads * key].into_iter().zip(factors.channels);
            self.t.multiply(parts.map(|(n, factor)| (n * taps, factor as f32)).collect());
        }
        let weights = match norm {
            GatedNorm::Heads => Some(h.value),
            GatedNorm::Groups { .. } => Some(width),
            GatedNorm::None => None,
        };
        let norm = match weights {
            Some(n) => {
                let weights = self.flat("ssm_norm", "weight", &[n]);
                Some(self.t.vector(
                    self.name("linear_norm"),
                    vec![(Some(weights), n)],
                    0.0,
                    factors.output as f32,
                    0,
                )?)
            }
            None => None,
        };
        Ok(Mixer::Linear {
            input,
            gates,
            conv,
            of_heads: self.vector("linear_heads", of_heads)?,
            norm,
            output: self.matrix("linear_out", &[("ssm_out", d)], width, false)?,
        })
    }
}

impl Mixer {
    pub fn matrices(&self) -> Vec<&Matrix> {
        match self {
            Self::Attention { qkv, o, .. } => vec![qkv, o],
            Self::ShortConv { input, output, .. } => vec![input, output],
            Self::Linear { input, gates, output, .. } => {
                [Some(input), gates.as_ref(), Some(output)].into_iter().flatten().collect()
            }
            Self::Both(both) => both.iter().flat_map(Self::matrices).collect(),
            Self::None => vec![],
            #[cfg(feature = "toy")]
            Self::RunningSum => vec![],
        }
    }

    /// The matrices of attention alone.
    pub fn attention_matrices(&self) -> Vec<&Matrix> {
        match self {
            Self::Attention { qkv, o, .. } => vec![qkv, o],
            Self::Both(both) => both.iter().flat_map(Self::attention_matrices).collect(),
            _ => vec![],
        }
    }

    /// What layer `i` adds to the residual stream, and the product that adds it; nothing where it has added it itself.
    /// `norm` comes before it.
    pub fn plan<'m>(
        &'m self,
        b: &mut Builder<'_>,
        c: &ModelConfig,
        i: usize,
        norm: Option<&Norm>,
    ) -> Result<Option<(&'m Matrix, Act)>> {
        match self {
            Self::Both(both) => {
                // Both read what was there before either has added to it.
                let [attention, linear] = &**both;
                let (of_attention, of_linear) =
                    (attention.project(b, i, norm, Scratch::Qkv)?, linear.project(b, i, norm, Scratch::Beside)?);
                if let Some((output, x)) = attention.mix(b, c, i, of_attention)? {
                    b.add(output, x, None)?;
                    // What is mixed next takes the place of what that product reads.
                    b.complete()?;
                }
                linear.mix(b, c, i, of_linear)
            }
            Self::None => Ok(None),
            #[cfg(feature = "toy")]
            Self::RunningSum => {
                b.running_sum(&format!("blk.{i}.running_sum"), i, needed(norm, i)?)?;
                Ok(None)
            }
            _ => {
                let rows = self.project(b, i, norm, Scratch::Qkv)?;
                self.mix(b, c, i, rows)
            }
        }
    }

    /// What it makes of each row alone, to that buffer.
    fn project(&self, b: &mut Builder<'_>, i: usize, norm: Option<&Norm>, to: Scratch) -> Result<Projected> {
        let (input, gates) = match self {
            Self::Attention { qkv, .. } => (qkv, None),     // (T, (H + 2 G) E)
            Self::ShortConv { input, .. } => (input, None), // (T, 3 D)
            Self::Linear { input, gates, .. } => (input, gates.as_ref()),
            _ => return Err(Error::internal(format!("layer {i} has nothing to project"))),
        };
        let rows = match (self, norm) {
            (Self::Attention { .. }, None) => {
                let x = b.unnormed(&format!("blk.{i}.attn_input"), input)?;
                b.qkv(input, x)?
            }
            _ => b.norm_linear(needed(norm, i)?, input, to)?,
        };
        let gates = match gates {
            Some(gates) => Some((b.norm_linear(needed(norm, i)?, gates, Scratch::Gates)?, gates.n)),
            None => None,
        };
        Ok(Projected { rows, width: input.n, gates })
    }

    /// What it makes of them and of what the layer remembers, and the product that reads it.
    fn mix<'m>(
        &'m self,
        b: &mut Builder<'_>,
        c: &ModelConfig,
        i: usize,
        of: Projected,
    ) -> Result<Option<(&'m Matrix, Act)>> {
        let layer = c.layers[i];
        let name = |part: &str| format!("blk.{i}.{part}");
        let Projected { rows, width, gates } = of;
        Ok(match self {
            Self::Attention { qk_norm, sinks, o, keys, .. } => {
                let rope = c.ropes.get(layer.rope).map(|rope| Rotation {
                    table: layer.rope,
                    dims: rope.dims,
                    interleaved: rope.interleaved,
                    growth: rope.growth,
                    axes: rope.axes,
                });
                let qk_norm = qk_norm.map(|weight| QkNorms {
                    weight,
                    eps: c.eps,
                    all: c.qk_norm == QkNorm::All,
                    late: c.qk_norm == QkNorm::Late,
                    values: c.value_norm,
                });
                let shape = Attention {
                    keys: *keys,
                    heads: c.heads_of(i),
                    rope,
                    qk_norm,
                    scale: c.score_scale,
                    window: layer.window,
                    softcap: c.score_cap,
                    gated: c.attention_gate,
                    factor: c.attention_scale,
                    sinks: *sinks,
                    as_f32: false,
                    pictures: c.picture_attention.mask(layer.window),
                };
                Some((o, b.attention(&name("attention"), rows, shape, o)?)) // (T, H E)
            }
            Self::ShortConv { weight, output, .. } => {
                let shape = ShortConv { layer: i, taps: c.conv_taps, weight: *weight };
                Some((output, b.short_conv(&name("conv"), rows, shape, output)?))
            }
            Self::Linear { conv, of_heads, norm, output, .. } => {
                let kind = c.linear.ok_or_else(|| Error::internal("linear attention without its sizes"))?;
                let shape = Linear { layer: i, kind, conv: *conv, of_heads: *of_heads, norm: *norm };
                b.linear(&name("linear"), (rows, width), gates, shape, output)?.map(|x| (output, x))
            }
            _ => None,
        })
    }
}

/// Rows that are projected: values, f32 between them, and the gates of those whose gates are a product of their own.
struct Projected {
    rows: Value,
    width: usize,
    gates: Option<(Value, usize)>,
}

fn needed(norm: Option<&Norm>, i: usize) -> Result<&Norm> {
    norm.ok_or_else(|| Error::internal(format!("layer {i} has no norm before what needs one")))
}
