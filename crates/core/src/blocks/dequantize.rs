//! From a checkpoint's blocks to f32, for the types that kernels read and for those that only files have.
//!
//! What kernels read is repacked and decoded as they do. Each function for another type names the layout of its block
//! in bytes and does the float operations of Python's gguf package in its order. Both give that package's bits. The
//! layouts are ggml's `block_*`.

use half::{bf16, f16};

use super::repack::FLOATS_IN_FILES;
use super::weight_type::unsupported;
use super::{DType, WeightType, codebook, repack, unpack};
use crate::error::{Error, Result};

/// Whether [`dequantize`] knows the type.
pub const fn dequantizes(dtype: DType) -> bool {
    WeightType::native(dtype).is_some() || codebook::reads(dtype) || matches!(dtype, DType::NVFP4)
}

/// Appends the values of `raw`, whole blocks of `dtype`, to `out`. A type that [`dequantizes`] does not know is
/// [`crate::ErrorKind::UnsupportedModel`].
pub fn dequantize(dtype: DType, raw: &[u8], out: &mut Vec<f32>) -> Result<()> {
    if !(raw.len() as u64).is_multiple_of(dtype.block_bytes()) {
        return Err(Error::internal(format!(
            "decoding {} bytes as blocks of {dtype}, which have {}",
            raw.len(),
            dtype.block_bytes()
        )));
    }
    match dtype {
        DType::F32 => each(raw, out, |bytes: &[u8; 4]| [f32::from_le_bytes(*bytes)]),
        DType::F16 => each(raw, out, |bytes: &[u8; 2]| [f16::from_le_bytes(*bytes).to_f32()]),
        DType::BF16 => each(raw, out, |bytes: &[u8; 2]| [bf16::from_le_bytes(*bytes).to_f32()]),
        DType::NVFP4 => each(raw, out, nvfp4),
        other if codebook::groups(other, raw, &mut |group| out.extend(group.values())) => {}
        other => {
            let Some(kind) = WeightType::native(other) else {
                return Err(unsupported(&format!("weights of type {other}")));
            };
            let values = raw.len() / other.block_bytes() as usize * other.block_len() as usize;
            out.append(&mut unpack(kind, &repack(kind, raw, 1, values)?, 1, values)?);
        }
    }
    Ok(())
}

/// Appends what `decode` makes of each block of `B` bytes.
fn each<const B: usize, const L: usize>(raw: &[u8], out: &mut Vec<f32>, decode: impl Fn(&[u8; B]) -> [f32; L]) {
    let (blocks, _) = raw.as_chunks::<B>();
    let start = out.len();
    out.resize(start + blocks.len() * L, 0.0);
    let (values, _) = out[start..].as_chunks_mut::<L>();
    for (block, values) in blocks.iter().zip(values) {
        *values = decode(block);
    }
}

/// Four 8-bit scales, floats of four bits of exponent and three of mantissa without a sign, then for each 16 values 8
/// bytes of nibbles that number 4-bit floats.
fn nvfp4(block: &[u8; 36]) -> [f32; 64] {
    // Half of what it means: numbers are doubled.
    let scale = |byte: u8| {
        let (exponent, mantissa) = (byte >> 3 & 15, f32::from(byte & 7));
        match (byte, exponent) {
            (0x7f, _) => 0.0,
            (_, 0) => mantissa * f32::from_bits((127 - 10) << 23),
            _ => (8.0 + mantissa) * f32::from_bits((u32::from(exponent) + 127 - 11) << 23),
        }
    };
    std::array::from_fn(|i| {
        let byte = block[4 + i / 16 * 8 + i % 8];
        scale(block[i / 16]) * f32::from(FLOATS_IN_FILES[usize::from(if i % 16 < 8 { byte & 15 } else { byte >> 4 })])
    })
}
