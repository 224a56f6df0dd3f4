//! From a checkpoint's bytes to the kernels' layout, one block of 32 at a time.

use half::{bf16, f16};

use super::{BLOCK, WeightType};
use crate::error::{Error, Result};

/// Repacked rows: `wq` words, and one half scale (its bits) a block for quantized types.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Packed {
    /// Quants or plain values, `blocks * WeightType::quant_words` words.
    pub wq: Vec<u32>,
    /// Scales, one a block; empty for types without.
    pub scales: Vec<u16>,
}

/// Repacks `rows` rows of `k` elements. `raw` must be exactly those rows in the checkpoint's own layout.
pub fn repack(kind: WeightType, raw: &[u8], rows: usize, k: usize) -> Result<Packed> {
    let row_bytes = row_bytes(kind, k)?;
    let whole = rows.checked_mul(row_bytes).filter(|n| *n == raw.len());
    if whole.is_none() {
        return Err(Error::internal(format!("repacking {rows} rows of {row_bytes} bytes from {} bytes", raw.len())));
    }
    let kb = k.div_ceil(BLOCK);
    let mut out = Packed { wq: Vec::with_capacity(rows * kb * kind.quant_words()), scales: Vec::new() };
    match kind {
        WeightType::F32 | WeightType::F16 | WeightType::Bf16 => {
            for row in raw.chunks_exact(row_bytes) {
                plain_row(row, kb * kind.quant_words(), &mut out.wq);
            }
        }
        WeightType::Q8_0 => {
            out.scales.reserve(rows * kb);
            for block in raw.chunks_exact(34) {
                out.scales.push(u16::from_le_bytes([block[0], block[1]]));
                words(&block[2..], &mut out.wq);
            }
        }
        WeightType::Q4_0 => {
            out.scales.reserve(rows * kb);
            for block in raw.chunks_exact(18) {
                out.scales.push(u16::from_le_bytes([block[0], block[1]]));
                words(&block[2..], &mut out.wq);
            }
        }
    }
    Ok(out)
}

/// Bytes of a row of `k` elements in the checkpoint. Quantized types need `k` to be a multiple of 32.
pub fn row_bytes(kind: WeightType, k: usize) -> Result<usize> {
    let block = match kind {
        WeightType::F32 => return Ok(k * 4),
        WeightType::F16 | WeightType::Bf16 => return Ok(k * 2),
        WeightType::Q8_0 => 34,
        WeightType::Q4_0 => 18,
    };
    if !k.is_multiple_of(BLOCK) {
        return Err(Error::bad_model(format!("a {} row of {k} elements is not a multiple of {BLOCK}", kind.axis())));
    }
    Ok(k / BLOCK * block)
}

fn words(bytes: &[u8], out: &mut Vec<u32>) {
    out.extend(bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])));
}

/// Little-endian values as words, zero-padded to `len` words.
fn plain_row(row: &[u8], len: usize, out: &mut Vec<u32>) {
    let end = out.len() + len;
    let whole = row.chunks_exact(4);
    let rest = whole.remainder();
    out.extend(whole.map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])));
    if let [lo, hi] = rest {
        out.push(u32::from(u16::from_le_bytes([*lo, *hi])));
    }
    out.resize(end, 0);
}

/// A plain vector (norm weights, biases, frequency factors) as f32.
pub fn to_f32(kind: WeightType, raw: &[u8], tensor: &str) -> Result<Vec<f32>> {
    Ok(match kind {
        WeightType::F32 => raw.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        WeightType::F16 => raw.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect(),
        WeightType::Bf16 => raw.chunks_exact(2).map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32()).collect(),
        WeightType::Q8_0 | WeightType::Q4_0 => {
            return Err(Error::unsupported(format!("tensor {tensor} is a vector in a quantized type; this version expects F32, F16 or BF16")));
        }
    })
}
