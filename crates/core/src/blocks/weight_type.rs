//! The types that kernels read, and how much room their blocks take.

use super::{DType, dequantize};
use crate::error::{Error, Result};

/// Elements of a block along K.
pub const BLOCK: usize = 32;

/// A weight type that kernels read natively.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WeightType {
    /// 32-bit floats.
    F32,
    /// IEEE halves, two a word.
    F16,
    /// bfloat16, two a word.
    Bf16,
    /// 32 signed bytes and one half scale a block.
    Q8_0,
    /// 32 nibbles, offset 8, and one half scale a block.
    Q4_0,
    /// 32 numbers of 5 bits, offset 16, and one scale a block.
    Q5_0,
    /// 256 nibbles; a 6-bit scale and a 6-bit min for each 32.
    Q4K,
    /// 256 numbers of 5 bits; scales as [`WeightType::Q4K`].
    Q5K,
    /// 256 numbers of 6 bits, offset 32; an 8-bit scale for each 16.
    Q6K,
}

impl WeightType {
    /// The type that kernels read a checkpoint's type as without loss.
    pub const fn native(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F32 => Some(Self::F32),
            DType::F16 => Some(Self::F16),
            DType::BF16 => Some(Self::Bf16),
            DType::Q8_0 => Some(Self::Q8_0),
            DType::Q4_0 => Some(Self::Q4_0),
            DType::Q5_0 => Some(Self::Q5_0),
            DType::Q4_K => Some(Self::Q4K),
            DType::Q5_K => Some(Self::Q5K),
            DType::Q6_K => Some(Self::Q6K),
            _ => None,
        }
    }

    /// The checkpoint's type that it is without loss: the inverse of [`WeightType::native`].
    pub const fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::BF16,
            Self::Q8_0 => DType::Q8_0,
            Self::Q4_0 => DType::Q4_0,
            Self::Q5_0 => DType::Q5_0,
            Self::Q4K => DType::Q4_K,
            Self::Q5K => DType::Q5_K,
            Self::Q6K => DType::Q6_K,
        }
    }

    /// The type that a tensor of a checkpoint has on the GPU: its own where kernels read it, Q8_0 for the others that can be decoded.
    ///
    /// # Errors
    /// `UNSUPPORTED_MODEL`, which lists the types that run.
    pub fn of(dtype: DType, tensor: &str) -> Result<Self> {
        match Self::native(dtype) {
            Some(kind) => Ok(kind),
            None if dequantize::dequantizes(dtype) => Ok(Self::Q8_0),
            None => Err(Error::unsupported(format!(
                "tensor {tensor} has type {dtype}; this version runs F32, F16, BF16, Q8_0, Q4_0, Q5_0, Q4_K, Q5_K and Q6_K, and as Q8_0 also Q4_1, Q5_1, Q2_K, Q3_K, \
                 IQ4_NL, IQ4_XS and MXFP4: use a file in one of these"
            ))),
        }
    }

    /// The value of the kernels' `weight` axis.
    pub const fn axis(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
            Self::Q5_0 => "q5_0",
            Self::Q4K => "q4_k",
            Self::Q5K => "q5_k",
            Self::Q6K => "q6_k",
        }
    }

    /// Whether blocks have a scale of their own, in `ws`, and int8 activations apply.
    pub const fn quantized(self) -> bool {
        !matches!(self, Self::F32 | Self::F16 | Self::Bf16)
    }

    /// Elements that share scales: rows are whole numbers of them.
    pub const fn group(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q8_0 | Self::Q4_0 | Self::Q5_0 => BLOCK,
            Self::Q4K | Self::Q5K | Self::Q6K => 256,
        }
    }

    /// 32-bit words of a block in `wq`; of the types with groups of 256, the eighth part of a group's.
    pub const fn quant_words(self) -> usize {
        match self {
            Self::F32 => 32,
            Self::F16 | Self::Bf16 => 16,
            Self::Q8_0 => 8,
            Self::Q4_0 | Self::Q5_0 | Self::Q4K => 4,
            Self::Q5K => 5,
            Self::Q6K => 6,
        }
    }

    /// Bytes on the GPU of `blocks` blocks: quants and scales.
    pub const fn bytes(self, blocks: u64) -> u64 {
        blocks * (self.quant_words() as u64 * 4) + self.scale_bytes(blocks)
    }

    /// Bytes on the GPU of the scales of `blocks` blocks, in `ws`: whole words.
    pub const fn scale_bytes(self, blocks: u64) -> u64 {
        self.scale_halves(blocks).div_ceil(2) * 4
    }

    /// Half-words that the scales of `blocks` blocks take.
    pub const fn scale_halves(self, blocks: u64) -> u64 {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 0,
            Self::Q8_0 | Self::Q4_0 | Self::Q4K | Self::Q5K => blocks,
            Self::Q5_0 => blocks * 4,
            Self::Q6K => blocks / 8 * 10,
        }
    }
}
