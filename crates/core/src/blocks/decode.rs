//! Decodes weights as `shaders/common/weight_*.wgsl` do.
//!
//! A weight is a matrix (N, K), row-major, in blocks of 32 along K: block b = row * ceil(K / 32) + k / 32, rows padded with
//! zeros. Its buffers are `wq`, vec4 of u32 on the GPU, and, for quantized types, `ws`:
//!
//! | type | words of `wq` a block | content |
//! |---|---|---|
//! | f32 | 32 | one value a word |
//! | f16, bf16 | 16 | two values a word, the low half first |
//! | q8_0 | 8 | four signed bytes a word, in element order |
//! | q4_0 | 4 | GGUF's own 16 bytes: byte i holds element i in its low and element 16 + i in its high nibble, 8 too large |
//!
//! | q5_0 | 4 | nibbles as q4_0's |
//! | q4_k | 4 | nibbles as q4_0's |
//! | q5_k | 5 | eight blocks together: 32 words of nibbles, then 8 of fifth bits |
//! | q6_k | 6 | eight blocks together: 32 words of nibbles, then 16 of high bits |
//!
//! `ws` of q8_0 and q4_0 holds the f16 scale of each block, two a word: block b is half b & 1 (0 is the low one) of word b >> 1. That of
//! the others is in their shaders (weight_q5_0, scales_k, weight_q6_k).

use half::f16;

/// Elements of a block along K.
pub const BLOCK: usize = 32;

/// Words of a block in `wq`, on average over a group of eight. `None` for a type that no kernel reads.
pub fn block_words(weight: &str) -> Option<usize> {
    match weight {
        "f32" => Some(32),
        "f16" | "bf16" => Some(16),
        "q8_0" => Some(8),
        "q4_0" | "q5_0" | "q4_k" => Some(4),
        "q5_k" => Some(5),
        "q6_k" => Some(6),
        _ => None,
    }
}

/// Blocks that are stored together.
pub fn group_blocks(weight: &str) -> usize {
    if weight.ends_with("_k") { 8 } else { 1 }
}

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
            let Quantized { ints, scales, min } = decode_quantized(weight, wq, ws, b);
            std::array::from_fn(|i| f32::from(ints[i]) * scales[i / 16] - min)
        }
    }
}

/// A quantized block: value = scale of its half * integer - min.
pub struct Quantized {
    pub ints: [i8; BLOCK],
    pub scales: [f32; 2],
    pub min: f32,
}

/// Block `b` before scaling.
///
/// # Panics
/// For a type that is not quantized.
pub fn decode_quantized(weight: &str, wq: &[u32], ws: &[u32], b: usize) -> Quantized {
    let byte = |words: &[u32], i: usize| words[i / 4].to_le_bytes()[i % 4];
    let nibble = |words: &[u32], i: usize| if i < 16 { byte(words, i) & 15 } else { byte(words, i - 16) >> 4 };
    let fifth = |bits: u32, i: usize| (bits >> (8 * (i % 4) + i / 4) & 1) as u8 * 16;
    let one = |ints, scale| Quantized { ints, scales: [scale; 2], min: 0.0 };
    let (group, j) = (b / 8, b % 8);
    match weight {
        "q8_0" => one(std::array::from_fn(|i| byte(&wq[b * 8..], i) as i8), half_scale(ws, b)),
        "q4_0" => one(std::array::from_fn(|i| nibble(&wq[b * 4..], i) as i8 - 8), half_scale(ws, b)),
        "q5_0" => {
            let bits = ws[b * 2 + 1];
            one(std::array::from_fn(|i| (nibble(&wq[b * 4..], i) | fifth(bits, i)) as i8 - 16), f32::from_bits(ws[b * 2]))
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
            Quantized { ints, scales: [scale; 2], min: half(1) * six(s[2], s[3] >> (16 + 2 * j)) }
        }
        "q6_k" => {
            let words = &wq[group * 48..][..48];
            let high = |i: usize| (words[32 + j * 2 + i / 16] >> (8 * (i % 4) + 2 * (i % 16 / 4)) & 3) as u8;
            let s = &ws[group * 5..][..5];
            let scale = |n: usize| f32::from_bits(s[4]) * f32::from(byte(s, 2 * j + n) as i8);
            Quantized { ints: std::array::from_fn(|i| (nibble(&words[j * 4..], i) | high(i) << 4) as i8 - 32), scales: [scale(0), scale(1)], min: 0.0 }
        }
        _ => panic!("weights of type {weight} are not quantized"),
    }
}

/// The f16 scale of block `b` of q8_0 and q4_0.
fn half_scale(ws: &[u32], b: usize) -> f32 {
    f16::from_bits(upper_or_lower(ws, b)).to_f32()
}

/// Element `i` of an array of 16-bit values, two a word, the low half first.
fn upper_or_lower(words: &[u32], i: usize) -> u16 {
    (words[i / 2] >> (i % 2 * 16)) as u16
}
