//! Rotary positions: inverse frequencies with their scaling, and the table of rotations that the kernels read.
//!
//! The table is made in f64 on the host while loading: WGSL's `cos` is only good to 2^-11 and only within [-pi, pi].

use crate::error::{Error, Result};

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
    /// Divisors by frequency, from GGUF's `rope_freqs.weight`.
    Divisors(Vec<f32>),
}

impl Rope {
    /// Inverse frequencies, `dims / 2` of them, in radians a position.
    pub fn inverse_frequencies(&self) -> Result<Vec<f64>> {
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
                        let smooth = (original_context / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor);
                        (1.0 - smooth) * f / factor + smooth * f
                    }
                })
                .collect(),
            Scaling::Divisors(divisors) => {
                if divisors.len() != half || divisors.iter().any(|d| !d.is_finite() || *d == 0.0) {
                    return Err(Error::bad_model(format!("rope_freqs.weight must hold {half} finite divisors, none of them zero")));
                }
                plain.zip(divisors).map(|(f, d)| f / f64::from(*d)).collect()
            }
        })
    }

    /// (cos, sin) of every angle for `positions` positions: `[positions, dims / 2, 2]` f32.
    pub fn table(&self, positions: u32) -> Result<Vec<f32>> {
        let frequencies = self.inverse_frequencies()?;
        let mut table = Vec::with_capacity(positions as usize * self.dims);
        for position in 0..positions {
            for f in &frequencies {
                let (sin, cos) = (f64::from(position) * f).sin_cos();
                table.extend([cos as f32, sin as f32]);
            }
        }
        Ok(table)
    }
}
