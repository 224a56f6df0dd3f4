//! Decodes weights as `shaders/common/weight_*.wgsl` do, and says how they lie: this is the one description of the
//! layouts.
//!
//! A weight is a matrix (N, K), row-major, in blocks of 32 along K: block b = row * ceil(K / 32) + k / 32, rows padded
//! with zeros. Its buffers are `wq`, vec4 of u32 on the GPU, and, for quantized types, `ws`:
//!
//! | type | words of `wq` a block | content |
//! |---|---|---|
//! | f32 | 32 | one value a word |
//! | f16, bf16 | 16 | two values a word, the low half first |
//! | q8_0 | 8 | four signed bytes a word, in element order |
//! | q4_0 | 4 | GGUF's own 16 bytes: byte i holds element i in its low and element 16 + i in its high nibble, 8 too large |
//! | mxfp4 | 4 | nibbles as q4_0's, which number the values of [`E2M1`] |
//! | iq4_nl, iq4_xs | 4 | nibbles as q4_0's, which number the values of [`NON_LINEAR`] |
//! | q1_0 | 1 | bit j of byte k is set where element 4j + k is positive |
//! | q2_0 | 2 | bits 2i and 2i + 1 of byte k of word n are element 16n + 4i + k, 1 too large |
//! | q3_k | 3 | eight blocks together: 16 words as q2_0's, then 8 of bits as q1_0's, where elements are 4 smaller |
//! | q2_k | 2 | as q2_0's, none too large |
//! | q4_1, q5_1 | 4 | nibbles as q4_0's |
//! | q5_0 | 4 | nibbles as q4_0's |
//! | q4_k | 4 | nibbles as q4_0's |
//! | q5_k | 5 | eight blocks together: 32 words of nibbles, then 8 of fifth bits |
//! | q6_k | 6 | eight blocks together: 32 words of nibbles, then 16 of high bits |
//!
//! `ws` of q8_0 and q4_0 holds the f16 scale of each block, two a word: block b is half b & 1 (0 is the low one) of
//! word b >> 1. That of mxfp4 holds the exponent of each block, four a word; those of iq4_nl, q2_0 and q1_0 a half for
//! each one, two and four blocks; that of q4_1 two halves, what is multiplied and what is added. That of the others is
//! in their shaders (weight_q5_0, weight_q5_1, weight_q2_k, scales_k, scales_16, weight_iq4_xs).

use half::f16;

pub use super::BLOCK;

/// Twice the values of 4-bit floats (a sign, two bits of exponent, one of mantissa), in the order in which the kernels
/// number them: value u is (u & 7) + 7 m + 12 b - 13, where b is the highest bit of u and m says whether of its lowest
/// bit's opposite, its next one, and b's opposite most are set. That is a third of the work that the file's order
/// takes. Zero is there twice.
pub const E2M1: [i8; 16] = [-6, -12, -4, -3, -2, -8, 0, 1, -1, 0, 8, 2, 3, 4, 12, 6];

/// The sixteen values of IQ4_NL and IQ4_XS.
pub const NON_LINEAR: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The 32 values of block `b`. `ws` is empty for types without scales.
///
/// # Panics
/// For a type that no kernel reads, or a block beyond the end.
pub fn decode_block(weight: &str, wq: &[u32], ws: &[u32], b: usize) -> [f32; BLOCK] {
    let plain = |words: usize| &wq[b * words..(b + 1) * words];
    match weight {
        "f32" => std::array::from_fn(|i| f32::from_bits(plain(32)[i])),
        "f16" => std::array::from_fn(|i| f16::from_bits(upper_or_lower(plain(16), i)).to_f32()),
        "bf16" => std::array::from_fn(|i| f32::from_bits(u32::from(upper_or_lower(plain(16), i)) << 16)),
        _ => {
            let Quantized { ints, scales, mins } = decode_quantized(weight, wq, ws, b);
            std::array::from_fn(|i| f32::from(ints[i]) * scales[i / 16] - mins[i / 16])
        }
    }
}

/// A quantized block: value = scale of its half * integer - min of its half.
pub struct Quantized {
    pub ints: [i8; BLOCK],
    pub scales: [f32; 2],
    pub mins: [f32; 2],
}

/// Block `b` before scaling.
///
/// # Panics
/// For a type that is not quantized.
pub fn decode_quantized(weight: &str, wq: &[u32], ws: &[u32], b: usize) -> Quantized {
    let byte = |words: &[u32], i: usize| words[i / 4].to_le_bytes()[i % 4];
    let nibble = |words: &[u32], i: usize| if i < 16 { byte(words, i) & 15 } else { byte(words, i - 16) >> 4 };
    let fifth = |bits: u32, i: usize| (bits >> (8 * (i % 4) + i / 4) & 1) as u8 * 16;
    let pair = |words: &[u32], i: usize| (words[i / 16] >> (8 * (i % 4) + 2 * (i % 16 / 4)) & 3) as u8;
    let one = |ints, scale| Quantized { ints, scales: [scale; 2], mins: [0.0; 2] };
    let (group, j) = (b / 8, b % 8);
    match weight {
        "q8_0" => one(std::array::from_fn(|i| byte(&wq[b * 8..], i) as i8), half_scale(ws, b)),
        "q4_0" => one(std::array::from_fn(|i| nibble(&wq[b * 4..], i) as i8 - 8), half_scale(ws, b)),
        "mxfp4" => one(std::array::from_fn(|i| E2M1[usize::from(nibble(&wq[b * 4..], i))]), half_power(byte(ws, b))),
        "q1_0" => one(std::array::from_fn(|i| fifth(wq[b], i) as i8 / 8 - 1), half_scale(ws, b / 4)),
        "q2_0" => one(std::array::from_fn(|i| pair(&wq[b * 2..], i) as i8 - 1), half_scale(ws, b / 2)),
        "iq4_nl" => one(std::array::from_fn(|i| NON_LINEAR[usize::from(nibble(&wq[b * 4..], i))]), half_scale(ws, b)),
        "iq4_xs" => {
            let (head, low) = (ws[group * 2], ws[group * 2 + 1] >> (4 * j) & 15);
            let six = (low | (head >> (16 + 2 * j) & 3) << 4) as i32 - 32;
            one(
                std::array::from_fn(|i| NON_LINEAR[usize::from(nibble(&wq[b * 4..], i))]),
                f16::from_bits(head as u16).to_f32() * six as f32,
            )
        }
        "q4_1" => {
            let added = half_scale(ws, 2 * b + 1);
            Quantized {
                mins: [-added; 2],
                ..one(std::array::from_fn(|i| nibble(&wq[b * 4..], i) as i8), half_scale(ws, 2 * b))
            }
        }
        "q5_1" => {
            let (bits, added) = (ws[b * 2 + 1], half_scale(ws, 4 * b + 1));
            Quantized {
                mins: [-added; 2],
                ..one(std::array::from_fn(|i| (nibble(&wq[b * 4..], i) | fifth(bits, i)) as i8), half_scale(ws, 4 * b))
            }
        }
        "q2_k" => {
            let s = &ws[group * 5..][..5];
            let [scales, mins] = [0, 1].map(|which| {
                let factor = half_scale(s, 8 + which);
                [0, 1].map(|half| factor * f32::from(byte(s, 2 * j + half) >> (4 * which) & 15))
            });
            Quantized { ints: std::array::from_fn(|i| pair(&wq[b * 2..], i) as i8), scales, mins }
        }
        "q3_k" => {
            let words = &wq[group * 24..][..24];
            let ints = std::array::from_fn(|i| pair(&words[j * 2..], i) as i8 - fifth(words[16 + j], i) as i8 / 4);
            Quantized { ints, scales: sixteenths(ws, b), mins: [0.0; 2] }
        }
        "q5_0" => {
            let bits = ws[b * 2 + 1];
            one(
                std::array::from_fn(|i| (nibble(&wq[b * 4..], i) | fifth(bits, i)) as i8 - 16),
                f32::from_bits(ws[b * 2]),
            )
        }
        "q4_k" | "q5_k" => {
            let s = &ws[group * 4..][..4];
            let six = |low: u32, high: u32| ((low >> (4 * j) & 15) | (high & 3) << 4) as f32;
            let half = |i| f16::from_bits(upper_or_lower(s, i)).to_f32();
            let scale = half(0) * six(s[1], s[3] >> (2 * j));
            let ints = if weight == "q4_k" {
                std::array::from_fn(|i| nibble(&wq[b * 4..], i) as i8)
            } else {
                let words = &wq[group * 40..][..40];
                std::array::from_fn(|i| (nibble(&words[j * 4..], i) | fifth(words[32 + j], i)) as i8)
            };
            Quantized { ints, scales: [scale; 2], mins: [half(1) * six(s[2], s[3] >> (16 + 2 * j)); 2] }
        }
        "q6_k" => {
            let words = &wq[group * 48..][..48];
            let ints =
                std::array::from_fn(|i| (nibble(&words[j * 4..], i) | pair(&words[32 + j * 2..], i) << 4) as i8 - 32);
            Quantized { ints, scales: sixteenths(ws, b), mins: [0.0; 2] }
        }
        _ => panic!("weights of type {weight} are not quantized"),
    }
}

/// 2 ^ (exponent - 128): half of what MXFP4's exponent means, since [`E2M1`] is doubled.
fn half_power(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        0 | 1 => 0x0020_0000 << exponent,
        _ => u32::from(exponent - 1) << 23,
    })
}

/// The scales of the halves of block `b` of q6_k and q3_k.
fn sixteenths(ws: &[u32], b: usize) -> [f32; 2] {
    let group = &ws[b / 8 * 5..][..5];
    let two = group[b % 8 / 2].to_le_bytes();
    [0, 1].map(|n| f32::from_bits(group[4]) * f32::from(two[b % 2 * 2 + n] as i8))
}

/// Half `b` of `ws`.
fn half_scale(ws: &[u32], b: usize) -> f32 {
    f16::from_bits(upper_or_lower(ws, b)).to_f32()
}

/// Element `i` of an array of 16-bit values, two a word, the low half first.
fn upper_or_lower(words: &[u32], i: usize) -> u16 {
    (words[i / 2] >> (i % 2 * 16)) as u16
}
