//! Which type each matrix of a model gets when it is quantized: what llama.cpp's quantizer makes of a model.

use crate::blocks::DType;
use crate::error::{Error, Result};

/// A mix of types, by its usual name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipe {
    /// Q4_0, but the head Q6_K, also where it is the embedding.
    Q4_0,
    /// Q4_K, with Q6_K for the head and for V and the down product of half of the layers.
    Q4KM,
    /// Q8_0.
    Q8_0,
    /// Halves.
    F16,
}

impl Recipe {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Q4_0, Self::Q4KM, Self::Q8_0, Self::F16];

    /// The recipe of that name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "q4_0" => Ok(Self::Q4_0),
            "q4_k" | "q4_k_m" => Ok(Self::Q4KM),
            "q8_0" => Ok(Self::Q8_0),
            "f16" => Ok(Self::F16),
            other => Err(Error::bad_option(format!(
                "quantization {other:?} does not exist; there are q4_0, q4_k (also called q4_k_m), q8_0 and f16"
            ))),
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Q4_0 => "q4_0",
            Self::Q4KM => "q4_k_m",
            Self::Q8_0 => "q8_0",
            Self::F16 => "f16",
        }
    }

    /// The type of a matrix with rows of `k`. `part` is llama.cpp's name of it, `tied` whether the embedding is the
    /// head.
    pub fn of(self, part: &str, layer: usize, layers: usize, k: usize, tied: bool) -> DType {
        // llama.cpp's use_more_bits.
        let more = layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
        let head = part == "output" || (tied && part == "token_embd");
        let wanted = match self {
            // A router's weights are small, and its choice is hard.
            _ if matches!(part, "ffn_gate_inp" | "ffn_gate_inp_shexp" | "position_embd" | "token_types") => DType::F32,
            // Small compared with the embedding table per layer, and F16 in published files.
            _ if part == "per_layer_model_proj" => DType::F16,
            Self::F16 => DType::F16,
            Self::Q8_0 => DType::Q8_0,
            Self::Q4_0 | Self::Q4KM if head => DType::Q6_K,
            Self::Q4_0 => DType::Q4_0,
            Self::Q4KM if matches!(part, "attn_v" | "ffn_down" | "ffn_down_exps") && more => DType::Q6_K,
            Self::Q4KM if part == "attn_qkv" => DType::Q5_K,
            Self::Q4KM => DType::Q4_K,
        };
        let narrower = if wanted == DType::Q6_K { DType::Q8_0 } else { DType::Q5_0 };
        let fits = |dtype: &DType| k.is_multiple_of(dtype.block_len() as usize);
        [wanted, narrower].into_iter().find(fits).unwrap_or(DType::F16)
    }
}
