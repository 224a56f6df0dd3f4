//! From a checkpoint's bytes to the kernels' layout, one block of 32 at a time.

use half::{bf16, f16};

use super::{BLOCK, WeightType};
use crate::error::{Error, Result};

/// Repacked rows: words of `wq`, and for quantized types the 16-bit units of `ws`, the low half of a word first.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Packed {
    /// Quants or plain values, `blocks * WeightType::quant_words` words.
    pub wq: Vec<u32>,
    /// What `ws` holds; empty for types without.
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
        WeightType::Q5_0 => {
            out.scales.reserve(rows * kb * 4);
            for block in raw.chunks_exact(22) {
                let bits = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
                push_word(f16_bits(&block[..2]), &mut out.scales);
                push_word(fifth_bits(|e| bits >> e & 1), &mut out.scales);
                words(&block[6..], &mut out.wq);
            }
        }
        WeightType::Q4K => {
            out.scales.reserve(rows * kb);
            for group in raw.chunks_exact(144) {
                scales_k(&group[..16], &mut out.scales);
                nibbles_k(&group[16..], &mut out.wq);
            }
        }
        WeightType::Q5K => {
            out.scales.reserve(rows * kb);
            for group in raw.chunks_exact(176) {
                scales_k(&group[..16], &mut out.scales);
                nibbles_k(&group[48..], &mut out.wq);
                // Bit b of byte e is the fifth bit of element e of block b.
                let bits = &group[16..48];
                out.wq.extend((0..8).map(|b| fifth_bits(|e| u32::from(bits[e] >> b & 1))));
            }
        }
        WeightType::Q6K => {
            out.scales.reserve(rows * kb * 10 / 8);
            for group in raw.chunks_exact(210) {
                six_bits(group, &mut out.wq);
                out.scales.extend(group[192..208].chunks_exact(2).map(|s| u16::from_le_bytes([s[0], s[1]])));
                push_word(f16_bits(&group[208..]), &mut out.scales);
            }
        }
    }
    Ok(out)
}

/// A half as the bits of the f32 of the same value.
fn f16_bits(bytes: &[u8]) -> u32 {
    f16::from_le_bytes([bytes[0], bytes[1]]).to_f32().to_bits()
}

fn push_word(word: u32, out: &mut Vec<u16>) {
    out.extend([word as u16, (word >> 16) as u16]);
}

/// The fifth bits of a block, as shaders/common/weight_q5_0.wgsl reads them: bit j of byte k belongs to element 4j + k.
fn fifth_bits(of: impl Fn(usize) -> u32) -> u32 {
    (0..BLOCK).fold(0, |word, e| word | of(e) << (8 * (e % 4) + e / 4))
}

/// 128 bytes of nibbles of 256 elements: byte e of the c-th 32 holds element e of block 2c in its low and of block 2c + 1 in its high nibble.
/// Written block by block as Q4_0 has them.
fn nibbles_k(bytes: &[u8], out: &mut Vec<u32>) {
    for pair in bytes.chunks_exact(32) {
        for shift in [0, 4] {
            let nibble = |e: usize| u32::from(pair[e] >> shift & 15);
            out.extend((0..4).map(|i| (0..4).fold(0, |word, k| word | (nibble(4 * i + k) | nibble(16 + 4 * i + k) << 4) << (8 * k))));
        }
    }
}

/// d, dmin and the twelve bytes of 6-bit scales and mins, as shaders/common/scales_k.wgsl reads them.
fn scales_k(bytes: &[u8], out: &mut Vec<u16>) {
    let q = &bytes[4..16];
    let (mut scales, mut mins, mut high) = (0u32, 0u32, 0u32);
    for j in 0..8 {
        let (scale, min) = if j < 4 { (q[j] & 63, q[j + 4] & 63) } else { (q[j + 4] & 15 | q[j - 4] >> 6 << 4, q[j + 4] >> 4 | q[j] >> 6 << 4) };
        scales |= u32::from(scale & 15) << (4 * j);
        mins |= u32::from(min & 15) << (4 * j);
        high |= u32::from(scale >> 4) << (2 * j) | u32::from(min >> 4) << (16 + 2 * j);
    }
    out.extend(bytes[..4].chunks_exact(2).map(|h| u16::from_le_bytes([h[0], h[1]])));
    for word in [scales, mins, high] {
        push_word(word, out);
    }
}

/// 256 numbers of 6 bits: 128 bytes of nibbles and 64 of high bits, in two halves of 128 elements; as shaders/common/weight_q6_k.wgsl reads them.
fn six_bits(bytes: &[u8], out: &mut Vec<u32>) {
    let number = |e: usize| {
        let (half, quarter, l) = (e / 128, e % 128 / 32, e % 32);
        let low = bytes[64 * half + 32 * (quarter % 2) + l] >> (4 * (quarter / 2)) & 15;
        let high = bytes[128 + 32 * half + l] >> (2 * quarter) & 3;
        (u32::from(low), u32::from(high))
    };
    for b in 0..8 {
        let low = |e: usize| number(32 * b + e).0;
        out.extend((0..4).map(|i| (0..4).fold(0, |word, k| word | (low(4 * i + k) | low(16 + 4 * i + k) << 4) << (8 * k))));
    }
    for b in 0..8 {
        let high = |e: usize| number(32 * b + e).1;
        out.extend((0..2).map(|n| (0..16).fold(0, |word, e| word | high(16 * n + e) << (8 * (e % 4) + 2 * (e / 4)))));
    }
}

/// Bytes of a row of `k` elements in the checkpoint. Quantized types need `k` to be a multiple of [`WeightType::group`].
pub fn row_bytes(kind: WeightType, k: usize) -> Result<usize> {
    let block = match kind {
        WeightType::F32 => return Ok(k * 4),
        WeightType::F16 | WeightType::Bf16 => return Ok(k * 2),
        WeightType::Q8_0 => 34,
        WeightType::Q4_0 => 18,
        WeightType::Q5_0 => 22,
        WeightType::Q4K => 144,
        WeightType::Q5K => 176,
        WeightType::Q6K => 210,
    };
    let group = kind.group();
    if !k.is_multiple_of(group) {
        return Err(Error::bad_model(format!("a {} row of {k} elements is not a multiple of {group}", kind.axis())));
    }
    Ok(k / group * block)
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
        _ => {
            return Err(Error::unsupported(format!("tensor {tensor} is a vector in a quantized type; this version expects F32, F16 or BF16")));
        }
    })
}
