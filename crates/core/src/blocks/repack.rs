//! From a checkpoint's bytes to the kernels' layout, and back to values. Bits move a word at a time, four elements or
//! more.

use half::f16;

use super::decode::{E2M1, decode_block};
use super::{BLOCK, WeightType};
use crate::error::{Error, Result};

/// Repacked rows: words of `wq`, and for quantized types the bytes of `ws`.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Packed {
    /// Quants or plain values, `blocks * WeightType::quant_words` words.
    pub wq: Vec<u32>,
    /// What `ws` holds, [`WeightType::scale_len`] bytes; empty for types without.
    pub scales: Vec<u8>,
}

impl Packed {
    /// What `ws` holds as the words that kernels read.
    pub fn scale_words(&self) -> Vec<u32> {
        self.scales.chunks(4).map(|some| some.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))).collect()
    }
}

/// Repacks `rows` rows of `k` elements. `raw` must be exactly those rows in the checkpoint's own layout.
pub fn repack(kind: WeightType, raw: &[u8], rows: usize, k: usize) -> Result<Packed> {
    let row_bytes = row_bytes(kind, k)?;
    let whole = rows.checked_mul(row_bytes).filter(|n| *n == raw.len());
    if whole.is_none() {
        return Err(Error::internal(format!("repacking {rows} rows of {row_bytes} bytes from {} bytes", raw.len())));
    }
    let kb = k.div_ceil(BLOCK);
    if !kind.quantized() {
        let words = kb * kind.quant_words();
        let mut wq = Vec::with_capacity(rows * words);
        raw.chunks_exact(row_bytes).for_each(|row| plain_row(row, words, &mut wq));
        return Ok(Packed { wq, scales: Vec::new() });
    }
    let blocks = rows * kb;
    let mut out =
        Packed { wq: vec![0; blocks * kind.quant_words()], scales: vec![0; kind.scale_len(blocks as u64) as usize] };
    let (wq, scales) = (&mut out.wq, &mut out.scales);
    match kind {
        WeightType::F32 | WeightType::F16 | WeightType::Bf16 => {}
        WeightType::Q8_0 => each(raw, wq, scales, |block: &[u8; 34], words: &mut [u32; 8], scale: &mut [u8; 2]| {
            *scale = [block[0], block[1]];
            *words = words_at(block, 2);
        }),
        WeightType::Q4_0 => each(raw, wq, scales, |block: &[u8; 18], words: &mut [u32; 4], scale: &mut [u8; 2]| {
            *scale = [block[0], block[1]];
            *words = words_at(block, 2);
        }),
        WeightType::Mxfp4 => each(raw, wq, scales, |block: &[u8; 17], words: &mut [u32; 4], scale: &mut [u8; 1]| {
            *scale = [block[0]];
            *words = words_at(block, 1)
                .map(|word| u32::from_le_bytes(word.to_le_bytes().map(|pair| FLOATS[usize::from(pair)])));
        }),
        WeightType::Q1_0 => each(raw, wq, scales, |block: &[u8; 18], words: &mut [u32; 4], scale: &mut [u8; 2]| {
            *scale = [block[0], block[1]];
            *words = words_at(block, 2).map(fifth_bits);
        }),
        WeightType::Q2_0 => each(raw, wq, scales, |block: &[u8; 18], words: &mut [u32; 4], scale: &mut [u8; 2]| {
            *scale = [block[0], block[1]];
            // A word has sixteen numbers, of which each two bits of a number's number are exchanged.
            *words = words_at(block, 2).map(|word| swap(swap(word, 6, 0x00cc_00cc), 12, 0x0000_f0f0));
        }),
        WeightType::Q4_1 => each(raw, wq, scales, |block: &[u8; 20], words: &mut [u32; 4], scale: &mut [u8; 4]| {
            scale.copy_from_slice(&block[..4]);
            *words = words_at(block, 4);
        }),
        WeightType::Q5_1 => each(raw, wq, scales, |block: &[u8; 24], words: &mut [u32; 4], scale: &mut [u8; 8]| {
            let [halves, bits] = words_at(block, 0);
            *scale = bytes([halves, fifth_bits(bits)]);
            *words = words_at(block, 8);
        }),
        WeightType::Q2K => each(raw, wq, scales, |group: &[u8; 84], words: &mut [u32; 16], scales: &mut [u8; 20]| {
            high_pairs(&group[16..], words);
            scales[..16].copy_from_slice(&group[..16]);
            scales[16..].copy_from_slice(&group[80..]);
        }),
        WeightType::Iq4Nl => each(raw, wq, scales, |block: &[u8; 18], words: &mut [u32; 4], scale: &mut [u8; 2]| {
            *scale = [block[0], block[1]];
            *words = words_at(block, 2);
        }),
        WeightType::Iq4Xs => each(raw, wq, scales, |group: &[u8; 136], words: &mut [u32; 32], scales: &mut [u8; 8]| {
            scales.copy_from_slice(&group[..8]);
            *words = words_at(group, 8);
        }),
        WeightType::Q3K => each(raw, wq, scales, |group: &[u8; 110], words: &mut [u32; 24], scales: &mut [u8; 20]| {
            let (pairs, bits) = words.split_at_mut(16);
            high_pairs(&group[32..], pairs);
            // Where the third bit is not set a number is 4 smaller.
            bits.copy_from_slice(&turned_bits(words_at(group, 0)).map(|word| !word));
            for (i, scale) in scales[..16].iter_mut().enumerate() {
                let six = group[96 + i % 8] >> (i / 8 * 4) & 15 | (group[104 + i % 4] >> (i / 4 * 2) & 3) << 4;
                *scale = six.wrapping_sub(32);
            }
            scales[16..].copy_from_slice(&f16_bits(half_at(group, 108)).to_le_bytes());
        }),
        WeightType::Q5_0 => each(raw, wq, scales, |block: &[u8; 22], words: &mut [u32; 4], scale: &mut [u8; 8]| {
            let [bits] = words_at(block, 2);
            *scale = bytes([f16_bits(half_at(block, 0)), fifth_bits(bits)]);
            *words = words_at(block, 6);
        }),
        WeightType::Q4K => each(raw, wq, scales, |group: &[u8; 144], words: &mut [u32; 32], scales: &mut [u8; 16]| {
            *scales = scales_k(group);
            nibbles_k(words_at::<32>(group, 16), words);
        }),
        WeightType::Q5K => each(raw, wq, scales, |group: &[u8; 176], words: &mut [u32; 40], scales: &mut [u8; 16]| {
            *scales = scales_k(group);
            let (nibbles, fifth) = words.split_at_mut(32);
            nibbles_k(words_at::<32>(group, 48), nibbles);
            // Bit b of byte e is the fifth bit of element e of block b.
            fifth.copy_from_slice(&turned_bits(words_at(group, 16)));
        }),
        WeightType::Q6K => each(raw, wq, scales, |group: &[u8; 210], words: &mut [u32; 48], scales: &mut [u8; 20]| {
            six_bits(group, words);
            let [a, b, c, d] = words_at(group, 192);
            *scales = bytes([a, b, c, d, f16_bits(half_at(group, 208))]);
        }),
    }
    Ok(out)
}

/// Repacks each block or group of `B` bytes into `W` words and `S` bytes of scales.
fn each<const B: usize, const W: usize, const S: usize>(
    raw: &[u8],
    wq: &mut [u32],
    scales: &mut [u8],
    one: impl Fn(&[u8; B], &mut [u32; W], &mut [u8; S]),
) {
    let (raw, wq, scales) = (raw.as_chunks().0, wq.as_chunks_mut().0, scales.as_chunks_mut().0);
    for ((block, words), scales) in raw.iter().zip(wq).zip(scales) {
        one(block, words, scales);
    }
}

/// `N` little-endian words from byte `at` on.
fn words_at<const N: usize>(bytes: &[u8], at: usize) -> [u32; N] {
    let (words, _) = bytes[at..at + 4 * N].as_chunks();
    std::array::from_fn(|i| u32::from_le_bytes(words[i]))
}

/// The bits of the half at byte `at`.
fn half_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Words as bytes.
fn bytes<const W: usize, const S: usize>(words: [u32; W]) -> [u8; S] {
    std::array::from_fn(|i| words[i / 4].to_le_bytes()[i % 4])
}

/// Twice the values of 4-bit floats, in the order of files.
pub(super) const FLOATS_IN_FILES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Two nibbles that number 4-bit floats as files do, as [`E2M1`] numbers them. Files tell two zeros apart, which are
/// the same number.
const FLOATS: [u8; 256] = {
    let mut numbers = [0; 16];
    let (mut file, mut kernel) = (0, 0);
    while file < 16 {
        if E2M1[kernel] == FLOATS_IN_FILES[file] {
            numbers[file] = kernel as u8;
            (file, kernel) = (file + 1, 0);
        } else {
            kernel += 1;
        }
    }
    let (mut pairs, mut i) = ([0; 256], 0);
    while i < 256 {
        pairs[i] = numbers[i % 16] | numbers[i / 16] << 4;
        i += 1;
    }
    pairs
};

/// A half as the bits of the f32 of the same value.
fn f16_bits(half: u16) -> u32 {
    f16::from_bits(half).to_f32().to_bits()
}

/// Exchanges the bits of `x` under `mask` with those `shift` above them.
fn swap(x: u32, shift: u32, mask: u32) -> u32 {
    let t = (x >> shift ^ x) & mask;
    x ^ t ^ t << shift
}

/// Exchanges the bits of `low` under `mask << shift` with those of `high` under `mask`.
fn swap_between(low: &mut u32, high: &mut u32, shift: u32, mask: u32) {
    let t = (*low >> shift ^ *high) & mask;
    *high ^= t;
    *low ^= t << shift;
}

/// The fifth bits of a block, bit e that of element e, as shaders/common/weight_q5_0.wgsl reads them: bit j of byte k
/// belongs to element 4j + k. That turns the five bits of an element's number by three; each swap exchanges two of
/// them.
fn fifth_bits(bits: u32) -> u32 {
    let bits = swap(bits, 7, 0x00aa_00aa);
    let bits = swap(bits, 1, 0x2222_2222);
    let bits = swap(bits, 15, 0x0000_aaaa);
    swap(bits, 3, 0x0a0a_0a0a)
}

/// The fifth bits of eight blocks, bit b of byte k of word j that of element 4j + k of block b: bit j of byte k of word
/// b then.
fn turned_bits(mut words: [u32; 8]) -> [u32; 8] {
    for (span, mask) in [(4, 0x0f0f_0f0f), (2, 0x3333_3333), (1, 0x5555_5555)] {
        for pair in words.chunks_exact_mut(2 * span) {
            let (low, high) = pair.split_at_mut(span);
            for (low, high) in low.iter_mut().zip(high) {
                swap_between(low, high, span as u32, mask);
            }
        }
    }
    words
}

/// 32 words of nibbles of 256 elements: byte e of the c-th 32 holds element e of block 2c in its low and of block 2c +
/// 1 in its high nibble. Written block by block as Q4_0 has them.
fn nibbles_k(from: [u32; 32], to: &mut [u32]) {
    for (pair, blocks) in from.as_chunks::<8>().0.iter().zip(to.as_chunks_mut::<8>().0) {
        *blocks = split_nibbles(pair);
    }
}

/// 32 bytes of nibbles as two blocks in Q4_0's order, that of the low ones first.
fn split_nibbles(bytes: &[u32; 8]) -> [u32; 8] {
    const LOW: u32 = 0x0f0f_0f0f;
    std::array::from_fn(|i| match i {
        0..4 => bytes[i] & LOW | (bytes[i + 4] & LOW) << 4,
        _ => bytes[i - 4] >> 4 & LOW | bytes[i] & !LOW,
    })
}

/// d, dmin and the twelve bytes of 6-bit scales and mins, as shaders/common/scales_k.wgsl reads them.
fn scales_k(block: &[u8]) -> [u8; 16] {
    /// The low nibbles of four bytes, next to each other.
    fn nibbles(x: u32) -> u32 {
        let x = x & 0x0f0f_0f0f;
        let x = (x | x >> 4) & 0x00ff_00ff;
        (x | x >> 8) & 0xffff
    }
    /// The low two bits of four bytes, next to each other.
    fn pairs(x: u32) -> u32 {
        let x = x & 0x0303_0303;
        let x = (x | x >> 6) & 0x000f_000f;
        (x | x >> 12) & 0xff
    }
    // Groups 0 to 3 have a byte each; those of 4 to 7 have their upper two bits above them.
    let [halves, scales, mins, rest] = words_at(block, 0);
    bytes([
        halves,
        nibbles(scales) | nibbles(rest) << 16,
        nibbles(mins) | nibbles(rest >> 4) << 16,
        pairs(scales >> 4) | pairs(scales >> 6) << 8 | pairs(mins >> 4) << 16 | pairs(mins >> 6) << 24,
    ])
}

/// 256 numbers of 6 bits: 128 bytes of nibbles and 64 of high bits, in two halves of 128 elements; as
/// shaders/common/weight_q6_k.wgsl reads them.
fn six_bits(bytes: &[u8; 210], out: &mut [u32; 48]) {
    let (nibbles, high) = out.split_at_mut(32);
    // A half is four quarters of 32: 0 and 2, and 1 and 3, share bytes of nibbles; all four share those of high bits.
    for (h, quarters) in nibbles.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        for odd in 0..2 {
            let blocks = split_nibbles(&words_at(bytes, 64 * h + 32 * odd));
            quarters[4 * odd..][..4].copy_from_slice(&blocks[..4]);
            quarters[8 + 4 * odd..][..4].copy_from_slice(&blocks[4..]);
        }
    }
    high_pairs(&bytes[128..], high);
}

/// 64 bytes of pairs of bits of 256 numbers, in two halves, the four quarters of each in one byte: 16 words as
/// shaders/common/weight_q6_k.wgsl reads them.
fn high_pairs(bytes: &[u8], out: &mut [u32]) {
    for (h, quarters) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        for n in 0..2 {
            let turned = turned_pairs(words_at(bytes, 32 * h + 16 * n));
            for (quarter, word) in turned.into_iter().enumerate() {
                quarters[2 * quarter + n] = word;
            }
        }
    }
}

/// Bits 2q and 2q + 1 of byte k of word i, at 2i of byte k of word q.
fn turned_pairs([mut a, mut b, mut c, mut d]: [u32; 4]) -> [u32; 4] {
    swap_between(&mut a, &mut c, 4, 0x0f0f_0f0f);
    swap_between(&mut b, &mut d, 4, 0x0f0f_0f0f);
    swap_between(&mut a, &mut b, 2, 0x3333_3333);
    swap_between(&mut c, &mut d, 2, 0x3333_3333);
    [a, b, c, d]
}

/// The values of `rows` rows of `k` elements, `[rows, k]`: what kernels take [`repack`]'s output for.
pub fn unpack(kind: WeightType, packed: &Packed, rows: usize, k: usize) -> Result<Vec<f32>> {
    let kb = k.div_ceil(BLOCK);
    let blocks = rows * kb;
    if !k.is_multiple_of(kind.group())
        || packed.wq.len() != blocks * kind.quant_words()
        || packed.scales.len() != kind.scale_len(blocks as u64) as usize
    {
        return Err(Error::internal(format!(
            "unpacking {rows} rows of {k} elements from {} words of {}",
            packed.wq.len(),
            kind.axis()
        )));
    }
    let ws = packed.scale_words();
    let mut out = Vec::with_capacity(rows * k);
    for b in 0..blocks {
        let len = (k - b % kb * BLOCK).min(BLOCK);
        out.extend_from_slice(&decode_block(kind.axis(), &packed.wq, &ws, b)[..len]);
    }
    Ok(out)
}

/// Bytes of a row of `k` elements in the checkpoint. Quantized types need `k` to be a multiple of
/// [`WeightType::group`].
pub fn row_bytes(kind: WeightType, k: usize) -> Result<usize> {
    let group = kind.group();
    if !k.is_multiple_of(group) {
        return Err(Error::bad_model(format!("a {} row of {k} elements is not a multiple of {group}", kind.axis())));
    }
    let dtype = kind.dtype();
    Ok(k / dtype.block_len() as usize * dtype.block_bytes() as usize)
}

/// Little-endian values as words, zero-padded to `len` words.
fn plain_row(row: &[u8], len: usize, out: &mut Vec<u32>) {
    let end = out.len() + len;
    let (whole, rest) = row.as_chunks();
    out.extend(whole.iter().map(|word| u32::from_le_bytes(*word)));
    if let [lo, hi] = rest {
        out.push(u32::from(u16::from_le_bytes([*lo, *hi])));
    }
    out.resize(end, 0);
}
