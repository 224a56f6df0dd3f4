//! Random inputs that are the same everywhere.

use std::ops::Range;

use half::{bf16, f16};
use millrace_core::blocks::{BLOCK, Packed, WeightType};

use crate::quantize::quantize_block;

/// What outputs hold before a kernel runs, and after it where it must not write: a NaN that no arithmetic makes.
pub const UNTOUCHED: u32 = 0x7fc0_dead;

/// A generator of random inputs: splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
pub struct Random(u64);

impl Random {
    /// A generator seeded by a name.
    pub fn new(name: &str) -> Self {
        Self(name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)))
    }

    /// 32 random bits.
    pub fn u32(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 32) as u32
    }

    /// An integer below `n`.
    pub fn below(&mut self, n: u32) -> u32 {
        self.u32() % n
    }

    /// Uniform in (-1, 1).
    pub fn f32(&mut self) -> f32 {
        (self.u32() >> 8) as f32 / (1 << 23) as f32 - 1.0
    }

    /// `n` values uniform in (-size, size).
    pub fn f32s(&mut self, n: usize, size: f32) -> Vec<f32> {
        (0..n).map(|_| self.f32() * size).collect()
    }

    /// Rows of `width` random values, zero padded to `stride`.
    pub fn padded(&mut self, rows: usize, width: usize, stride: usize) -> Vec<f32> {
        (0..rows * stride).map(|i| if i % stride < width { self.f32() } else { 0.0 }).collect()
    }

    /// `blocks` blocks of a weight type as the buffers `wq` and, where the type has scales, `ws`. With `small`, values
    /// so small that f16 scales are subnormal.
    pub fn weights(&mut self, weight: &str, blocks: usize, small: bool) -> Vec<(&'static str, Vec<u32>)> {
        let kind = WeightType::of_axis(weight).unwrap_or_else(|| panic!("no kernel reads weights of type {weight}"));
        let words = blocks * kind.quant_words();
        let size = if small { 1e-3 } else { 0.1 };
        let wq = match weight {
            "f32" => (0..words).map(|_| (self.f32() * size).to_bits()).collect(),
            "f16" => (0..words).map(|_| self.pair(|r| f16::from_f32(r.f32() * size).to_bits())).collect(),
            "bf16" => (0..words).map(|_| self.pair(|r| bf16::from_f32(r.f32() * size).to_bits())).collect(),
            _ => (0..words).map(|_| self.u32()).collect(),
        };
        if !kind.quantized() {
            return vec![("wq", wq)];
        }
        let mut scales = Vec::new();
        for content in kind.scales().bytes().cycle().take(kind.scales().len() * (blocks / kind.group_blocks())) {
            match content {
                b'h' if small => scales.extend((self.below(0x3ff) as u16 + 1).to_le_bytes()),
                b'h' => scales.extend(f16::from_f32(self.f32() * 0.02).to_le_bytes()),
                b'f' => scales.extend((self.f32() * if small { 1e-6 } else { 0.02 }).to_le_bytes()),
                b'e' => scales.push(if small { 104 } else { 118 } + self.below(4) as u8),
                b'b' => scales.push(self.u32() as u8),
                _ => scales.extend(self.u32().to_le_bytes()),
            }
        }
        vec![("wq", wq), ("ws", Packed { wq: Vec::new(), scales }.scale_words())]
    }

    /// A buffer of keys or values [SLOTS][G][CAP][row] in words, for a cache of this type: the positions that `held`
    /// says of the sequences in the slots `own` are random, and zero beyond `e`; all others are `rest`. With `scales` it
    /// is the buffer of scales of a cache of eight bits.
    pub fn cache(
        &mut self,
        (kv, scales): (&str, bool),
        (slots, own): (usize, Range<usize>),
        (g, row, e): (usize, usize, usize),
        held: &[bool],
        rest: u32,
    ) -> Vec<u32> {
        let per_word = match kv {
            "q8" => 4,
            "f16" => 2,
            _ => 1,
        };
        let cap = held.len();
        let word = |i: usize| {
            if !held[i / row % cap] || !own.contains(&(i / row / cap / g)) {
                return rest;
            }
            if scales {
                return (self.f32().abs() / 64.0 + 1e-3).to_bits();
            }
            let mut element = || match kv {
                "q8" => self.below(255).wrapping_sub(127) & 0xff,
                "f16" => u32::from(f16::from_f32(self.f32()).to_bits()),
                _ => self.f32().to_bits(),
            };
            let inside = (0..per_word).filter(|k| i % row * per_word + k < e);
            inside.fold(0, |word, k| word | element() << (32 / per_word * k))
        };
        (0..slots * g * cap * row).map(word).collect()
    }

    /// Two 16-bit values in a word.
    fn pair(&mut self, mut make: impl FnMut(&mut Self) -> u16) -> u32 {
        u32::from(make(self)) | u32::from(make(self)) << 16
    }
}

/// The words of a buffer of f32.
pub fn words(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// An output of `n` words.
pub fn untouched(n: usize) -> Vec<u32> {
    vec![UNTOUCHED; n]
}

/// Activations as the buffers of the `act` axis: `x`, or `xq` and `xs`. The values are a multiple of 32.
pub fn activations(act: &str, x: &[f32]) -> Vec<(&'static str, Vec<u32>)> {
    if act == "f32" {
        return vec![("x", words(x))];
    }
    if act == "f16" {
        let halves = x.as_chunks::<2>().0.iter().map(|pair| pair.map(|v| u32::from(f16::from_f32(v).to_bits())));
        return vec![("x", halves.map(|[low, high]| low | high << 16).collect())];
    }
    let (blocks, _) = x.as_chunks::<BLOCK>();
    let (mut xq, mut xs) = (Vec::new(), Vec::new());
    for block in blocks.iter().map(quantize_block) {
        xq.extend(block.ints.as_chunks::<4>().0.iter().map(|q| u32::from_le_bytes(q.map(|v| v as u8))));
        xs.extend([block.scale.to_bits(), block.scaled_sum.to_bits()]);
    }
    vec![("xq", xq), ("xs", xs)]
}
