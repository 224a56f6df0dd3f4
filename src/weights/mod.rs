//! Weights on the GPU: which types the kernels read, how a checkpoint's bytes are repacked for them, and where they lie.
//!
//! A matrix is `[N, K]`, row-major, cut along K into blocks of 32 that are numbered `row * KB + kb`, `KB = ceil(K / 32)`; short rows are
//! padded with zeros. Quants and scales live in arrays of their own (`wq`, `ws`), since GGUF's blocks are misaligned for a GPU.

mod dequantize;
mod quantize;
mod load;
mod matrix;
mod repack;

pub use dequantize::{dequantize, dequantizes};
pub use load::{Sink, bytes_to_read, load};
pub use matrix::{Matrix, Part, RowSlice, VectorPart, VectorSource, expect};
pub use quantize::quantize;
pub use repack::{Packed, repack, row_bytes, to_f32, unpack};

use crate::error::{Error, Result};
use crate::format::DType;

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
    /// The native type for a checkpoint's type. A type without kernels is [`crate::ErrorKind::UnsupportedModel`].
    pub fn of(dtype: DType, tensor: &str) -> Result<Self> {
        match dtype {
            DType::F32 => Ok(Self::F32),
            DType::F16 => Ok(Self::F16),
            DType::BF16 => Ok(Self::Bf16),
            DType::Q8_0 => Ok(Self::Q8_0),
            DType::Q4_0 => Ok(Self::Q4_0),
            DType::Q5_0 => Ok(Self::Q5_0),
            DType::Q4_K => Ok(Self::Q4K),
            DType::Q5_K => Ok(Self::Q5K),
            DType::Q6_K => Ok(Self::Q6K),
            other => Err(Error::unsupported(format!(
                "tensor {tensor} has type {}; this version runs F32, F16, BF16, Q8_0, Q4_0, Q5_0, Q4_K, Q5_K and Q6_K",
                other.name()
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

    /// 16-bit units of the scales of `blocks` blocks, before they fill words.
    const fn scale_units(self, blocks: usize) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 0,
            Self::Q8_0 | Self::Q4_0 | Self::Q4K | Self::Q5K => blocks,
            Self::Q5_0 => blocks * 4,
            Self::Q6K => blocks / 8 * 10,
        }
    }

    /// Bytes on the GPU of the scales of `blocks` blocks, in `ws`.
    pub const fn scale_bytes(self, blocks: u64) -> u64 {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 0,
            Self::Q8_0 | Self::Q4_0 => blocks.div_ceil(2) * 4,
            Self::Q5_0 => blocks * 8,
            Self::Q4K | Self::Q5K => blocks * 2,
            Self::Q6K => blocks / 8 * 20,
        }
    }
}
