//! From a checkpoint's blocks to f32, for the types that kernels read and for those that only files have.
//!
//! Each function names the layout of its block in bytes and does the float operations of Python's gguf package in its order, so that both give
//! the same bits. The layouts are ggml's `block_*`.

use half::{bf16, f16};

use super::DType;
use crate::error::{Error, Result};

/// The sixteen values of IQ4_NL and IQ4_XS.
const NON_LINEAR: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
/// Twice the sixteen values of a 4-bit float: a sign, two bits of exponent, one of mantissa.
const E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Whether [`dequantize`] knows the type.
pub const fn dequantizes(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::F32
            | DType::F16
            | DType::BF16
            | DType::Q4_0
            | DType::Q4_1
            | DType::Q5_0
            | DType::Q5_1
            | DType::Q8_0
            | DType::Q2_K
            | DType::Q3_K
            | DType::Q4_K
            | DType::Q5_K
            | DType::Q6_K
            | DType::IQ4_NL
            | DType::IQ4_XS
            | DType::MXFP4
    )
}

/// Appends the values of `raw`, whole blocks of `dtype`, to `out`. A type that [`dequantizes`] does not know is
/// [`crate::ErrorKind::UnsupportedModel`].
pub fn dequantize(dtype: DType, raw: &[u8], out: &mut Vec<f32>) -> Result<()> {
    if !(raw.len() as u64).is_multiple_of(dtype.block_bytes()) {
        return Err(Error::internal(format!("decoding {} bytes as blocks of {dtype}, which have {}", raw.len(), dtype.block_bytes())));
    }
    match dtype {
        DType::F32 => each(raw, out, |bytes: &[u8; 4]| [f32::from_le_bytes(*bytes)]),
        DType::F16 => each(raw, out, |bytes: &[u8; 2]| [f16::from_le_bytes(*bytes).to_f32()]),
        DType::BF16 => each(raw, out, |bytes: &[u8; 2]| [bf16::from_le_bytes(*bytes).to_f32()]),
        DType::Q4_0 => each(raw, out, q4_0),
        DType::Q4_1 => each(raw, out, q4_1),
        DType::Q5_0 => each(raw, out, q5_0),
        DType::Q5_1 => each(raw, out, q5_1),
        DType::Q8_0 => each(raw, out, q8_0),
        DType::Q2_K => each(raw, out, q2_k),
        DType::Q3_K => each(raw, out, q3_k),
        DType::Q4_K => each(raw, out, q4_k),
        DType::Q5_K => each(raw, out, q5_k),
        DType::Q6_K => each(raw, out, q6_k),
        DType::IQ4_NL => each(raw, out, iq4_nl),
        DType::IQ4_XS => each(raw, out, iq4_xs),
        DType::MXFP4 => each(raw, out, mxfp4),
        other => {
            let known: Vec<_> = DType::ALL.iter().filter(|t| dequantizes(**t)).map(|t| t.name()).collect();
            return Err(Error::unsupported(format!("weights of type {other}; this version runs {}", known.join(", "))));
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

/// The half at byte `at`.
fn half(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Number `i` of 32: 16 bytes hold 0 to 15 in their low and 16 to 31 in their high nibbles.
fn nibble(bytes: &[u8], i: usize) -> u8 {
    if i < 16 { bytes[i] & 15 } else { bytes[i - 16] >> 4 }
}

/// Bit `i` of 32 in 4 bytes, as the fifth bit of a number.
fn fifth(bytes: &[u8], i: usize) -> u8 {
    (bytes[i / 8] >> (i % 8) & 1) << 4
}

/// d, 16 bytes of nibbles.
fn q4_0(block: &[u8; 18]) -> [f32; 32] {
    let d = half(block, 0);
    std::array::from_fn(|i| d * f32::from(nibble(&block[2..], i) as i8 - 8))
}

/// d, m, 16 bytes of nibbles.
fn q4_1(block: &[u8; 20]) -> [f32; 32] {
    let (d, m) = (half(block, 0), half(block, 2));
    std::array::from_fn(|i| d * f32::from(nibble(&block[4..], i)) + m)
}

/// d, 4 bytes of fifth bits, 16 of nibbles.
fn q5_0(block: &[u8; 22]) -> [f32; 32] {
    let d = half(block, 0);
    std::array::from_fn(|i| d * f32::from((nibble(&block[6..], i) | fifth(&block[2..6], i)) as i8 - 16))
}

/// d, m, 4 bytes of fifth bits, 16 of nibbles.
fn q5_1(block: &[u8; 24]) -> [f32; 32] {
    let (d, m) = (half(block, 0), half(block, 2));
    std::array::from_fn(|i| d * f32::from(nibble(&block[8..], i) | fifth(&block[4..8], i)) + m)
}

/// d, 32 signed bytes.
fn q8_0(block: &[u8; 34]) -> [f32; 32] {
    let d = half(block, 0);
    std::array::from_fn(|i| f32::from(block[2 + i] as i8) * d)
}

/// 16 bytes of a 4-bit scale (low) and min (high) for each 16 values, 64 bytes of 2-bit numbers, d, dmin. Two halves of 128 values; bits 2n and
/// 2n + 1 of a half's byte l are those of its value 32n + l.
fn q2_k(block: &[u8; 84]) -> [f32; 256] {
    let (d, dmin) = (half(block, 80), half(block, 82));
    let mut out = [0.0; 256];
    for (g, values) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let (scale, min) = (d * f32::from(block[g] & 15), dmin * f32::from(block[g] >> 4));
        let (bytes, shift) = (&block[16 + g / 8 * 32 + g % 2 * 16..][..16], g % 8 / 2 * 2);
        for (value, byte) in values.iter_mut().zip(bytes) {
            *value = scale * f32::from(byte >> shift & 3) - min;
        }
    }
    out
}

/// 32 bytes of third bits, 64 of 2-bit numbers as in [`q2_k`], 12 of 6-bit scales for each 16 values, d. Bit n of third-bit byte l belongs to
/// value 32n + l; where it is not set, the number is 4 smaller. Scales are 32 too large: their low nibbles are those of the first 8 bytes, low
/// ones first, and bits 2n and 2n + 1 of byte 8 + i are the high bits of scale 4n + i.
fn q3_k(block: &[u8; 110]) -> [f32; 256] {
    let d = half(block, 108);
    let scales = &block[96..108];
    let mut out = [0.0; 256];
    for (g, values) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let six = scales[g % 8] >> (g / 8 * 4) & 15 | (scales[8 + g % 4] >> (g / 4 * 2) & 3) << 4;
        let scale = d * f32::from(six as i8 - 32);
        let (low, shift) = (&block[32 + g / 8 * 32 + g % 2 * 16..][..16], g % 8 / 2 * 2);
        let third = &block[g % 2 * 16..][..16];
        for ((value, low), third) in values.iter_mut().zip(low).zip(third) {
            *value = scale * f32::from((low >> shift & 3 | (third >> (g / 2) & 1) << 2) as i8 - 4);
        }
    }
    out
}

/// Scale and min of each 32 values: d, dmin, and 12 bytes of 6-bit numbers. Scales and mins 0 to 3 are the low bits of bytes 0 to 3 and 4 to 7;
/// 4 to 7 have their low nibbles in bytes 8 to 11 (scales low, mins high) and their upper two bits above the others'.
fn scales_k(head: &[u8]) -> [(f32, f32); 8] {
    let (d, dmin, q) = (half(head, 0), half(head, 2), &head[4..16]);
    std::array::from_fn(|g| {
        let (scale, min) = match g {
            0..4 => (q[g] & 63, q[4 + g] & 63),
            _ => (q[4 + g] & 15 | q[g - 4] >> 6 << 4, q[4 + g] >> 4 | q[g] >> 6 << 4),
        };
        (d * f32::from(scale), dmin * f32::from(min))
    })
}

/// d, dmin and [`scales_k`], 128 bytes of nibbles: the low ones of 32 bytes are a group of 32 values, their high ones the next.
fn q4_k(block: &[u8; 144]) -> [f32; 256] {
    let mut out = [0.0; 256];
    for ((g, values), (scale, min)) in out.as_chunks_mut::<32>().0.iter_mut().enumerate().zip(scales_k(block)) {
        for (value, byte) in values.iter_mut().zip(&block[16 + g / 2 * 32..][..32]) {
            *value = scale * f32::from(byte >> (g % 2 * 4) & 15) - min;
        }
    }
    out
}

/// As [`q4_k`], and before the nibbles 32 bytes of fifth bits: bit g of byte l belongs to value 32g + l.
fn q5_k(block: &[u8; 176]) -> [f32; 256] {
    let mut out = [0.0; 256];
    for ((g, values), (scale, min)) in out.as_chunks_mut::<32>().0.iter_mut().enumerate().zip(scales_k(block)) {
        let low = &block[48 + g / 2 * 32..][..32];
        for ((value, low), high) in values.iter_mut().zip(low).zip(&block[16..48]) {
            *value = scale * f32::from(low >> (g % 2 * 4) & 15 | (high >> g & 1) << 4) - min;
        }
    }
    out
}

/// 128 bytes of nibbles, 64 of pairs of high bits, 16 signed scales for each 16 values, d. In each half of 128 values, number 32n + l has its
/// nibble in byte 32 (n % 2) + l, low where n < 2, and its high bits at 2n of byte l.
fn q6_k(block: &[u8; 210]) -> [f32; 256] {
    let d = half(block, 208);
    let mut out = [0.0; 256];
    for (g, values) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = d * f32::from(block[192 + g] as i8);
        let (h, n, l) = (g / 8, g % 8 / 2, g % 2 * 16);
        let low = &block[64 * h + 32 * (n % 2) + l..][..16];
        let high = &block[128 + 32 * h + l..][..16];
        for ((value, low), high) in values.iter_mut().zip(low).zip(high) {
            *value = scale * f32::from((low >> (n / 2 * 4) & 15 | (high >> (2 * n) & 3) << 4) as i8 - 32);
        }
    }
    out
}

/// d, 16 bytes of nibbles that number the values of [`NON_LINEAR`].
fn iq4_nl(block: &[u8; 18]) -> [f32; 32] {
    let d = half(block, 0);
    std::array::from_fn(|i| d * f32::from(NON_LINEAR[usize::from(nibble(&block[2..], i))]))
}

/// d, a 6-bit scale for each 32 values, 32 too large, and nibbles as [`iq4_nl`]'s, 16 bytes for each 32 values. 2 bytes hold the scales' high
/// bits, 4 their low nibbles.
fn iq4_xs(block: &[u8; 136]) -> [f32; 256] {
    let d = half(block, 0);
    let high = u16::from_le_bytes([block[2], block[3]]);
    let mut out = [0.0; 256];
    for (g, values) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let six = block[4 + g / 2] >> (g % 2 * 4) & 15 | ((high >> (2 * g) & 3) as u8) << 4;
        let scale = d * f32::from(six as i8 - 32);
        let bytes = &block[8 + 16 * g..][..16];
        *values = std::array::from_fn(|i| scale * f32::from(NON_LINEAR[usize::from(nibble(bytes, i))]));
    }
    out
}

/// An exponent of 8 bits, 16 bytes of nibbles that number the values of [`E2M1`]. The scale is 2^(exponent - 128): half of what the format means,
/// since the values are doubled.
fn mxfp4(block: &[u8; 17]) -> [f32; 32] {
    let scale = f32::from_bits(match block[0] {
        exponent @ (0 | 1) => 0x0020_0000 << exponent,
        exponent => u32::from(exponent - 1) << 23,
    });
    std::array::from_fn(|i| scale * f32::from(E2M1[usize::from(nibble(&block[1..], i))]))
}
