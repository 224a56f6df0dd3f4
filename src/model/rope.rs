//! Rotary positions: inverse frequencies with their scaling, and the table of rotations that the kernels read.
//!
//! The table is made in f64 on the host while loading: WGSL's `cos` is only good to 2^-11 and only within [-pi, pi].

use serde_json::{Map, Value};

use super::config::ModelConfig;
use super::keys::{Keys, MOST, positive};
use crate::error::{Error, Result};
use crate::plan::{Axes, AxesOrder, Growth};

/// How a model rotates queries and keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Base of the frequencies, theta.
    pub base: f64,
    /// Rotated elements of a head.
    pub dims: usize,
    /// Pairs are `(2i, 2i + 1)`, as GGUF's llama stores them; otherwise `(i, i + dims / 2)`.
    pub interleaved: bool,
    /// How long contexts are reached.
    pub scaling: Scaling,
    /// Factor of cosines and sines, which makes scores of long contexts sharper.
    pub factor: f64,
    /// How queries grow with their positions: Ministral 3's do.
    pub growth: Option<Growth>,
    /// How pairs take the axes of positions that have three: Qwen's do, which differ within pictures only.
    pub axes: Option<Axes>,
}

/// Scaling of the frequencies.
#[derive(Debug, Clone, PartialEq)]
pub enum Scaling {
    /// As trained.
    None,
    /// All frequencies divided by the factor (position interpolation).
    Linear { factor: f64 },
    /// Llama 3.1: low frequencies divided, high ones kept, smooth between (Meta's reference; `rope_type: llama3`).
    Llama3 { factor: f64, low_freq_factor: f64, high_freq_factor: f64, original_context: f64 },
    /// YaRN (Peng et al. 2023): the same between two numbers of turns within the original context, by a ramp over the
    /// dimensions.
    Yarn { factor: f64, fast: f64, slow: f64, original_context: f64, truncate: bool },
    /// Divisors by frequency, from GGUF's `rope_freqs.weight`.
    Divisors(Vec<f32>),
    /// The frequencies of `pairs` pairs, repeated for each axis of a position.
    EachAxis { pairs: usize },
    /// As trained, in another order: first every second one, from the first on, then the others.
    EvenThenOdd,
    /// LongRoPE (Ding et al. 2024): divisors by frequency, others for texts longer than the original context.
    LongRope { short: Vec<f32>, long: Vec<f32>, original: u32 },
}

/// The tensor in which GGUF files keep the divisors of Llama 3.1's scaling.
pub const ROPE_FREQS: &str = "rope_freqs.weight";
/// The divisor of what does not turn, as llama.cpp has it.
const STILL: f32 = 1e30;
/// Tensors of LongRoPE's divisors: for short and for long texts.
pub const ROPE_FACTORS: [&str; 2] = ["rope_factors_short.weight", "rope_factors_long.weight"];

impl Rope {
    /// As in most checkpoints, for heads of `e` elements and a context of `context` positions.
    pub fn read(keys: &Keys<'_>, e: usize, context: usize) -> Result<Self> {
        if keys.is_gguf() {
            return Self::of_gguf(keys, e, context);
        }
        let theta = keys.positive("", "rope_theta")?;
        let partial = keys.positive("", "partial_rotary_factor")?;
        let original = keys.size("", "original_max_position_embeddings")?;
        // transformers 5 writes rope_parameters, which holds what rope_theta and rope_scaling held before.
        let (parameters, scaling) = (keys.object("rope_parameters")?, keys.object("rope_scaling")?);
        // Nested objects are parameters by kind of layer, which [`Rope::by_kind`] reads.
        let parameters = parameters.filter(|p| p.values().all(|v| !v.is_object())).or(scaling);
        Self::of_hf(parameters, theta, partial, original, e, context)
    }

    /// Rotations by kinds of layers, as transformers 5 has them: of full and of sliding ones.
    pub fn by_kind(keys: &Keys<'_>, c: &ModelConfig) -> Result<Option<(Self, Self)>> {
        Self::by_kind_of(keys, c, [c.heads.e; 2])
    }

    /// As [`Rope::by_kind`], with head widths of full and sliding layers.
    pub fn by_kind_of(keys: &Keys<'_>, c: &ModelConfig, [full, sliding]: [usize; 2]) -> Result<Option<(Self, Self)>> {
        let Some(kinds) = keys.object("rope_parameters")?.filter(|p| p.values().any(Value::is_object)) else {
            return Ok(None);
        };
        let of = |kind: &str, e: usize| {
            let parameters = kinds.get(kind).and_then(|v| v.as_object());
            let parameters =
                parameters.ok_or_else(|| Error::bad_model(format!("config.json: rope_parameters has no {kind}")))?;
            Self::of_hf(Some(parameters), None, None, None, e, c.context as usize)
        };
        Ok(Some((of("full_attention", full)?, of("sliding_attention", sliding)?)))
    }

    /// From `rope_parameters` or `rope_scaling`, and what may stand beside it.
    pub fn of_hf(
        parameters: Option<&Map<String, Value>>,
        theta: Option<f64>,
        partial: Option<f64>,
        original: Option<usize>,
        e: usize,
        context: usize,
    ) -> Result<Self> {
        const KNOWN: &[&str] = &[
            "rope_type",
            "type",
            "rope_theta",
            "partial_rotary_factor",
            "factor",
            "low_freq_factor",
            "high_freq_factor",
            "original_max_position_embeddings",
            "attention_factor",
            "beta_fast",
            "beta_slow",
            "mscale",
            "mscale_all_dim",
            "truncate",
            "alpha",
            "short_factor",
            "long_factor",
            // How the three coordinates of a picture's positions share the frequencies: of text they are the same.
            "mrope_section",
            "mrope_interleaved",
            // Ministral 3's; the second is said beside these.
            "llama_4_scaling_beta",
            "max_position_embeddings",
        ];
        let empty = Map::new();
        let r = parameters.unwrap_or(&empty);
        if let Some(key) = r.keys().find(|k| !KNOWN.contains(&k.as_str())) {
            return Err(Error::unsupported(format!("config.json: RoPE key {key} is not known to this version")));
        }
        let get = |k: &str| r.get(k).filter(|v| !v.is_null());
        let wrong = |k: &str| Error::bad_model(format!("config.json: RoPE {k} is missing or no number"));
        let number =
            |k: &str| get(k).map(|v| v.as_f64().ok_or_else(|| wrong(k)).and_then(|x| positive(x, k))).transpose();
        let need = |k: &str| number(k)?.ok_or_else(|| wrong(k));
        let list = |k: &str| match get(k).and_then(Value::as_array) {
            Some(list) => {
                list.iter().map(|v| v.as_f64().map(|x| x as f32).ok_or_else(|| wrong(k))).collect::<Result<Vec<f32>>>()
            }
            None => Err(Error::bad_model(format!("config.json: RoPE {k} is missing or no list"))),
        };
        let original_context = || match (number("original_max_position_embeddings")?, original) {
            (Some(n), _) => Ok(n),
            (None, Some(n)) => Ok(n as f64),
            (None, None) => Err(wrong("original_max_position_embeddings")),
        };
        let kind = match get("rope_type").or(get("type")) {
            None => None,
            Some(v) => Some(v.as_str().ok_or_else(|| Error::bad_model("config.json: rope_type is no text"))?),
        };
        let mut attention = number("attention_factor")?;
        let scaling = match kind {
            None | Some("default") => Scaling::None,
            // Hunyuan's base grows once for all by `alpha`. What others mean changes texts that are longer than the
            // context, and no text is.
            Some("dynamic") => Scaling::None,
            Some("linear") => Scaling::Linear { factor: need("factor")? },
            // Frequencies of the whole head, of which only the first turn.
            Some("proportional") => {
                let (factor, turning) = (
                    number("factor")?.unwrap_or(1.0),
                    number("partial_rotary_factor")?.unwrap_or(1.0) * e as f64 / 2.0,
                );
                Scaling::Divisors(
                    (0..e / 2).map(|i| if i < turning as usize { factor as f32 } else { STILL }).collect(),
                )
            }
            Some("llama3") => Scaling::Llama3 {
                factor: need("factor")?,
                low_freq_factor: need("low_freq_factor")?,
                high_freq_factor: need("high_freq_factor")?,
                original_context: need("original_max_position_embeddings")?,
            },
            Some("yarn") => {
                // Where nothing says, the context is the original one.
                let original_context =
                    number("original_max_position_embeddings")?.unwrap_or(original.unwrap_or(context) as f64);
                let factor = number("factor")?.unwrap_or(context as f64 / original_context);
                let sharper = |m: f64| if factor > 1.0 { 0.1 * m * factor.ln() + 1.0 } else { 1.0 };
                attention = attention.or(match (number("mscale")?, number("mscale_all_dim")?) {
                    (Some(a), Some(b)) => Some(sharper(a) / sharper(b)),
                    _ => Some(sharper(1.0)),
                });
                let truncate = get("truncate").and_then(Value::as_bool).unwrap_or(true);
                Scaling::Yarn {
                    factor,
                    fast: number("beta_fast")?.unwrap_or(32.0),
                    slow: number("beta_slow")?.unwrap_or(1.0),
                    original_context,
                    truncate,
                }
            }
            Some("longrope" | "su") => {
                let original = original_context()?;
                let factor = number("factor")?.unwrap_or(context as f64 / original);
                attention =
                    attention.or(Some(if factor > 1.0 { (1.0 + factor.ln() / original.ln()).sqrt() } else { 1.0 }));
                Scaling::LongRope {
                    short: list("short_factor")?,
                    long: list("long_factor")?,
                    original: original as u32,
                }
            }
            Some(other) => {
                return Err(Error::unsupported(format!(
                    "config.json: rope_type {other:?}; this version knows default, linear, dynamic, llama3, yarn, longrope and proportional"
                )));
            }
        };
        let growth = number("llama_4_scaling_beta")?
            .map(|factor| Ok(Growth { factor, every: original_context()? as u32 }))
            .transpose()?;
        let base = number("rope_theta")?.or(theta).unwrap_or(10_000.0);
        let alpha = if kind == Some("dynamic") { number("alpha")?.unwrap_or(1.0) } else { 1.0 };
        Ok(Self {
            growth,
            base: base * alpha.powf(e as f64 / (e as f64 - 2.0)),
            dims: match kind {
                Some("proportional") => e,
                _ => (e as f64 * number("partial_rotary_factor")?.or(partial).unwrap_or(1.0)) as usize,
            },
            interleaved: false,
            scaling,
            factor: attention.unwrap_or(1.0),
            axes: None,
        })
    }

    fn of_gguf(keys: &Keys<'_>, e: usize, context: usize) -> Result<Self> {
        let factor = keys
            .number("rope.scaling.factor", "")?
            .filter(|factor| *factor != 0.0)
            .map(|factor| positive(factor, "rope.scaling.factor"))
            .transpose()?;
        let original = keys.size("rope.scaling.original_context_length", "")?;
        let attention = keys.positive("rope.scaling.attn_factor", "")?;
        let kind = keys.text("rope.scaling.type", "")?;
        // The second is how the first converters described the order of rows, which this version knows.
        keys.ignore_gguf(&["rope.scaling.finetuned", "tensor_data_layout"]);
        // What they called a linear scaling's factor.
        let linear = keys.positive_unless_0("rope.scale_linear", "")?.filter(|factor| *factor != 1.0);
        let yarn = ["rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow", "rope.scaling.yarn_log_multiplier"]
            .map(|key| keys.positive_unless_0(key, ""));
        let [fast, slow, log] = yarn;
        let grows = keys.positive_unless_0("attention.temperature_scale", "")?;
        // Where nothing says, the context is the original one.
        let original_context = original.unwrap_or(context);
        let mut sharper = 1.0;
        let scaling = match kind {
            // llama.cpp's converter stores Llama 3.1's scaling as a tensor of divisors; the loader of the model fills
            // it in.
            _ if keys.has_tensor(ROPE_FREQS) => Scaling::Divisors(Vec::new()),
            _ if keys.has_tensor(ROPE_FACTORS[1]) => {
                let original = original_context as f64;
                let factor = context as f64 / original;
                sharper = if factor > 1.0 { (1.0 + factor.ln() / original.ln()).sqrt() } else { 1.0 };
                Scaling::LongRope { short: Vec::new(), long: Vec::new(), original: original as u32 }
            }
            Some("none") => Scaling::None,
            // As in llama.cpp: with a factor the scaling is linear unless another type is named; `none` ignores the
            // factor.
            None | Some("linear") => factor
                .or(linear)
                .filter(|factor| *factor != 1.0)
                .map_or(Scaling::None, |factor| Scaling::Linear { factor }),
            Some("yarn") => {
                let factor = factor.or(linear).unwrap_or(1.0);
                let log = log?;
                if log.is_some_and(|x| x != 0.1 && !(x == 1.0 && keys.is("mistral3"))) {
                    return Err(Error::unsupported(format!(
                        "{}; this version knows 0.1",
                        keys.name("rope.scaling.yarn_log_multiplier", "")
                    )));
                }
                // Ministral 3's multiplier divides by what the factor would be.
                sharper = if factor > 1.0 && log != Some(1.0) { 0.1 * factor.ln() + 1.0 } else { 1.0 };
                Scaling::Yarn {
                    factor,
                    fast: fast?.unwrap_or(32.0),
                    slow: slow?.unwrap_or(1.0),
                    original_context: original_context as f64,
                    truncate: true,
                }
            }
            Some(other) => {
                return Err(Error::unsupported(format!(
                    "{} {other:?}; this version knows none, linear and yarn",
                    keys.name("rope.scaling.type", "")
                )));
            }
        };
        let growth = grows.map(|factor| Growth { factor, every: original_context as u32 });
        Ok(Self {
            growth,
            base: keys.positive("rope.freq_base", "")?.unwrap_or(10_000.0),
            dims: keys.size("rope.dimension_count", "")?.unwrap_or(e),
            interleaved: false,
            scaling,
            factor: attention.unwrap_or(sharper),
            axes: None,
        })
    }

    /// Has positions have three axes where the checkpoint says how pairs take them; `in_turn` as GGUF files do, which
    /// do not say whether they take them in turn.
    pub fn read_axes(&mut self, keys: &Keys<'_>, in_turn: bool) -> Result<()> {
        let hf = match keys.object("rope_parameters")? {
            Some(parameters) => Some(parameters),
            None => keys.object("rope_scaling")?,
        };
        let of_hf = hf.and_then(|parameters| parameters.get("mrope_section")).and_then(Value::as_array);
        let of_hf = of_hf.map(|list| list.iter().map(|n| n.as_u64().unwrap_or(MOST)).collect());
        let in_turn = hf.map_or(in_turn, |parameters| parameters.get("mrope_interleaved") == Some(&Value::Bool(true)));
        let Some(pairs) = keys.counts_of_gguf("rope.dimension_sections")?.or(of_hf) else { return Ok(()) };
        let (first, further) = pairs.split_at(pairs.len().min(3));
        let half = self.dims as u64 / 2;
        if first.len() < 3
            || first.iter().any(|n| *n > half)
            || first.iter().sum::<u64>() != half
            || further.iter().any(|n| *n != 0)
        {
            return Err(Error::bad_model(format!(
                "configuration: {pairs:?} rotated pairs for time, rows and columns, but a head has {half}"
            )));
        }
        let order = if in_turn { AxesOrder::InTurn } else { AxesOrder::Apart };
        self.axes = Some(Axes { rows: first[1] as usize, columns: first[2] as usize, order });
        Ok(())
    }

    /// Checks that the numbers make sense for heads of `e` elements; divisors that are tensors are not there yet.
    pub fn check(&self, e: usize) -> Result<()> {
        if self.dims == 0 || self.dims > e || !self.dims.is_multiple_of(2) {
            return Err(Error::bad_model(format!("configuration: {} rotated elements of a head of {e}", self.dims)));
        }
        if let Scaling::LongRope { original, .. } = &self.scaling
            && (*original == 0 || u64::from(*original) > MOST)
        {
            return Err(Error::bad_model(format!("configuration: an original context of {original} positions")));
        }
        if let Some(Growth { factor, every }) = self.growth
            && (every == 0 || !factor.is_finite())
        {
            return Err(Error::bad_model(format!(
                "configuration: queries that grow by {factor} every {every} positions"
            )));
        }
        if !(self.base.is_finite() && self.base > 1.0 && self.factor.is_finite() && self.factor > 0.0) {
            return Err(Error::bad_model(format!(
                "configuration: RoPE base {} or factor {} is out of range",
                self.base, self.factor
            )));
        }
        match &self.scaling {
            Scaling::Divisors(list) if list.is_empty() => Ok(()),
            Scaling::LongRope { short, long, .. } if short.is_empty() && long.is_empty() => Ok(()),
            _ => self.inverse_frequencies(false).and(self.inverse_frequencies(true)).map(drop),
        }
    }

    /// Inverse frequencies, `dims / 2` of them, in radians a position; `long`: of texts longer than the original
    /// context.
    pub fn inverse_frequencies(&self, long: bool) -> Result<Vec<f64>> {
        let half = self.dims / 2;
        let plain = (0..half).map(|i| self.base.powf(-2.0 * i as f64 / self.dims as f64));
        Ok(match &self.scaling {
            Scaling::None => plain.collect(),
            Scaling::Linear { factor } => plain.map(|f| f / factor).collect(),
            Scaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => plain
                .map(|f| {
                    let wavelength = std::f64::consts::TAU / f;
                    if wavelength < original_context / high_freq_factor {
                        f
                    } else if wavelength > original_context / low_freq_factor {
                        f / factor
                    } else {
                        let smooth =
                            (original_context / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor);
                        (1.0 - smooth) * f / factor + smooth * f
                    }
                })
                .collect(),
            Scaling::Yarn { factor, fast, slow, original_context, truncate } => {
                // The dimension that turns `turns` times within the original context.
                let turning = |turns: f64| {
                    self.dims as f64 * (original_context / (turns * std::f64::consts::TAU)).ln()
                        / (2.0 * self.base.ln())
                };
                let (mut low, mut high) = (turning(*fast), turning(*slow));
                if *truncate {
                    (low, high) = (low.floor(), high.ceil());
                }
                let (low, high) = (low.max(0.0), high.min(self.dims as f64 - 1.0));
                let width = if low == high { 0.001 } else { high - low };
                let kept = |i: usize| 1.0 - ((i as f64 - low) / width).clamp(0.0, 1.0);
                plain.enumerate().map(|(i, f)| f / factor * (1.0 - kept(i)) + f * kept(i)).collect()
            }
            Scaling::EachAxis { pairs } => {
                (0..half).map(|i| self.base.powf(-((i % pairs) as f64) / *pairs as f64)).collect()
            }
            Scaling::EvenThenOdd => plain.clone().step_by(2).chain(plain.skip(1).step_by(2)).collect(),
            Scaling::Divisors(divisors) => divided(plain, divisors, half, ROPE_FREQS)?,
            Scaling::LongRope { short, long: beyond, .. } => {
                divided(plain, if long { beyond } else { short }, half, "the list of RoPE factors")?
            }
        })
    }

    /// (cos, sin) of every angle for `positions` positions: `[positions, dims / 2, 2]` f32; `long`: of texts longer
    /// than the original context.
    pub fn table(&self, positions: u32, long: bool) -> Result<Vec<f32>> {
        let frequencies = self.inverse_frequencies(long)?;
        let mut table = Vec::with_capacity(positions as usize * self.dims);
        for position in 0..positions {
            for f in &frequencies {
                let (sin, cos) = (f64::from(position) * f).sin_cos();
                table.extend([cos * self.factor, sin * self.factor].map(|x| x as f32));
            }
        }
        Ok(table)
    }
}

fn divided(plain: impl Iterator<Item = f64>, divisors: &[f32], half: usize, what: &str) -> Result<Vec<f64>> {
    if divisors.len() != half || divisors.iter().any(|d| !d.is_finite() || *d == 0.0) {
        return Err(Error::bad_model(format!("{what} must hold {half} finite divisors, none of them zero")));
    }
    Ok(plain.zip(divisors).map(|(f, d)| f / f64::from(*d)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What transformers 5.17 computes for the same configuration.
    #[test]
    fn yarn_is_transformers() {
        let parameters = serde_json::json!({ "rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0, "original_max_position_embeddings": 1024 });
        let rope = Rope::of_hf(parameters.as_object(), None, None, None, 16, 4096).unwrap();
        let expected =
            [1.0, 0.316_227_76, 0.081_250_004, 0.019_764_237, 0.004_375, 0.000_790_569_47, 0.000_25, 0.000_079_056_94];
        for (ours, theirs) in rope.inverse_frequencies(false).unwrap().into_iter().zip(expected) {
            assert!((ours / theirs - 1.0).abs() < 1e-6, "{ours} {theirs}");
        }
        assert!((rope.factor - 1.138_629_436).abs() < 1e-9, "{}", rope.factor);
    }

    #[test]
    fn what_longrope_says_must_fit() {
        let of = |short: &[f64], original: f64| {
            let parameters = serde_json::json!({ "type": "longrope", "short_factor": short, "long_factor": [1.0, 2.0], "original_max_position_embeddings": original });
            Rope::of_hf(parameters.as_object(), Some(10_000.0), None, None, 4, 512).and_then(|rope| rope.check(4))
        };
        of(&[1.0, 1.5], 64.0).unwrap();
        for wrong in [&[1.0][..], &[1.0, 0.0]] {
            assert_eq!(of(wrong, 64.0).unwrap_err().code(), "BAD_MODEL");
        }
        for context in [0.5, 1e300] {
            let error = of(&[1.0, 1.5], context).unwrap_err();
            assert!(error.code() == "BAD_MODEL" && error.message().contains("original context"), "{error}");
        }
    }
}
