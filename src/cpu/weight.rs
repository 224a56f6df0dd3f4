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
//! `ws` holds the f16 scale of each block, two a word: block b is half b & 1 (0 is the low one) of word b >> 1.

use half::f16;

/// Elements of a block along K.
pub const BLOCK: usize = 32;

/// Words of a block in `wq`. `None` for a type that no kernel reads.
pub fn block_words(weight: &str) -> Option<usize> {
    match weight {
        "f32" => Some(32),
        "f16" | "bf16" => Some(16),
        "q8_0" => Some(8),
        "q4_0" => Some(4),
        _ => None,
    }
}

/// Whether the type keeps f16 scales in `ws`.
pub fn has_scales(weight: &str) -> bool {
    matches!(weight, "q8_0" | "q4_0")
}

/// The 32 values of block `b`. `ws` is empty for types without scales.
///
/// # Panics
/// For a type that no kernel reads, or a block beyond the end.
pub fn decode_block(weight: &str, wq: &[u32], ws: &[u32], b: usize) -> [f32; BLOCK] {
    let words = block_words(weight).unwrap_or_else(|| panic!("no kernel reads weights of type {weight}"));
    let block = &wq[b * words..(b + 1) * words];
    let mut out = [0.0; BLOCK];
    match weight {
        "f32" => out = std::array::from_fn(|i| f32::from_bits(block[i])),
        "f16" => out = std::array::from_fn(|i| f16::from_bits(upper_or_lower(block, i)).to_f32()),
        "bf16" => out = std::array::from_fn(|i| f32::from_bits(u32::from(upper_or_lower(block, i)) << 16)),
        _ => {
            let scale = scale(ws, b);
            for (value, int) in out.iter_mut().zip(decode_ints(weight, block)) {
                *value = f32::from(int) * scale;
            }
        }
    }
    out
}

/// The f16 scale of block `b`.
pub fn scale(ws: &[u32], b: usize) -> f32 {
    f16::from_bits(upper_or_lower(ws, b)).to_f32()
}

/// The 32 integers of a quantized block, before scaling. `block` is its words of `wq`.
///
/// # Panics
/// For a type that is not quantized.
pub fn decode_ints(weight: &str, block: &[u32]) -> [i8; BLOCK] {
    let byte = |i: usize| block[i / 4].to_le_bytes()[i % 4];
    match weight {
        "q8_0" => std::array::from_fn(|i| byte(i) as i8),
        "q4_0" => std::array::from_fn(|i| if i < 16 { (byte(i) & 15) as i8 - 8 } else { (byte(i - 16) >> 4) as i8 - 8 }),
        _ => panic!("weights of type {weight} are not quantized"),
    }
}

/// Element `i` of an array of 16-bit values, two a word, the low half first.
fn upper_or_lower(words: &[u32], i: usize) -> u16 {
    (words[i / 2] >> (i % 2 * 16)) as u16
}
