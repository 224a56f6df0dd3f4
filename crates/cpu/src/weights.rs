//! Blocks of weights as `millrace_core::blocks::decode` describes them: value = scale * (number - OFFSET) - least.
//! Numbers are below 128 where they are not signed, so that products with int8 activations are exact however a processor
//! adds them up.

use crate::simd::{Bytes, half, halves};

/// Elements of a block.
pub const BLOCK: usize = 32;

/// Scales and offsets of a row's blocks, for elements 0 to 15 and 16 to 31.
pub struct Scales {
    pub scale: Vec<f32>,
    /// Scales of elements 16 to 31, where they differ.
    pub second: Vec<f32>,
    pub least: Vec<f32>,
    /// Offsets of elements 16 to 31, where they differ.
    pub second_least: Vec<f32>,
}

impl Scales {
    /// Room for a row of `kb` blocks.
    pub fn of(kb: usize) -> Self {
        let room = || vec![0.0; kb];
        Self { scale: room(), second: room(), least: room(), second_least: room() }
    }

    /// From the scale and the minimum of each block: of its first and of its last 16.
    #[inline(always)]
    fn each(&mut self, first: usize, of: impl Fn(usize) -> [[f32; 2]; 2]) {
        let Self { scale, second, least, second_least } = self;
        let lists = scale.iter_mut().zip(second).zip(least.iter_mut().zip(second_least));
        for (b, ((scale, second), (least, second_least))) in lists.enumerate() {
            [[*scale, *least], [*second, *second_least]] = of(first + b);
        }
    }

    /// From scales that are f16, two a word.
    #[inline(always)]
    fn of_halves(&mut self, ws: &[u32], first: usize) {
        let bits: &[u16] = &bytemuck::cast_slice(ws)[first..][..self.scale.len()];
        self.scale.iter_mut().zip(bits).for_each(|(scale, bits)| *scale = half(u32::from(*bits)));
    }

    /// From groups of eight blocks: a signed byte for each half of a block, and their factor.
    #[inline(always)]
    fn of_sixteenths(&mut self, ws: &[u32], first: usize) {
        let groups = ws[first / 8 * 5..].as_chunks::<5>().0;
        let lists = self.scale.as_chunks_mut::<8>().0.iter_mut().zip(self.second.as_chunks_mut::<8>().0);
        for ((scale, second), group) in lists.zip(groups) {
            let (bytes, factor): (&[i8], _) = (bytemuck::cast_slice(&group[..4]), f32::from_bits(group[4]));
            for (j, pair) in bytes.as_chunks::<2>().0.iter().enumerate() {
                (scale[j], second[j]) = (factor * f32::from(pair[0]), factor * f32::from(pair[1]));
            }
        }
    }

    /// From groups of eight blocks as Q4_K and Q5_K have them.
    #[inline(always)]
    fn of_k(&mut self, ws: &[u32], first: usize) {
        let groups = ws[first / 8 * 4..].as_chunks::<4>().0;
        let lists = self.scale.as_chunks_mut::<8>().0.iter_mut().zip(self.least.as_chunks_mut::<8>().0);
        for ((scale, least), [halves, scales, mins, rest]) in lists.zip(groups) {
            let (factor, least_factor) = (half(halves & 0xffff), half(halves >> 16));
            let six = |low: u32, high: u32| (nibbles_apart(low) | pairs_apart(high) << 4).to_le_bytes().map(f32::from);
            *scale = six(*scales, rest & 0xffff).map(|six| factor * six);
            *least = six(*mins, rest >> 16).map(|six| least_factor * six);
        }
    }
}

/// Each nibble of a word in a byte of its own.
#[inline(always)]
fn nibbles_apart(word: u32) -> u64 {
    let x = u64::from(word);
    let x = (x | x << 16) & 0x0000_ffff_0000_ffff;
    let x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
    (x | x << 4) & 0x0f0f_0f0f_0f0f_0f0f
}

/// Each pair of bits of sixteen in a byte of its own.
#[inline(always)]
fn pairs_apart(bits: u32) -> u64 {
    let x = u64::from(bits);
    let x = (x | x << 24) & 0x0000_00ff_0000_00ff;
    let x = (x | x << 12) & 0x000f_000f_000f_000f;
    (x | x << 6) & 0x0303_0303_0303_0303
}

/// A quantized type.
pub trait Quantized {
    /// Whether numbers are signed: all 256 of a byte.
    const SIGNED: bool = false;
    /// Whether the two halves of a block have scales of their own.
    const HALVES: bool = false;
    /// The number that stands for zero.
    const OFFSET: i32 = 0;
    /// Whether a block has a minimum of its own, which is taken off.
    const LEAST: bool = false;

    /// Words of eight blocks, in `wq`, and in `ws` those that [`Quantized::numbers`] reads.
    const WORDS: [usize; 2];

    /// # Panics
    /// Where there are no `blocks` blocks.
    fn check(wq: &[u32], ws: &[u32], blocks: usize) {
        let [own, beside] = Self::WORDS;
        assert!((blocks * own).div_ceil(8) <= wq.len() && (blocks * beside).div_ceil(8) <= ws.len(), "too few blocks");
    }

    /// The numbers of block `b`, elements 0 to 15 and 16 to 31.
    ///
    /// # Safety
    /// [`Quantized::check`] has found that there are more than `b` blocks.
    unsafe fn numbers(wq: &[u32], ws: &[u32], b: usize) -> [Bytes; 2];

    /// Scales and minimums of a row's blocks, from block `first` on.
    fn row(ws: &[u32], first: usize, to: &mut Scales);
}

/// Word `at`, which [`Quantized::check`] has found to be there.
#[inline(always)]
fn word(words: &[u32], at: usize) -> u32 {
    debug_assert!(at < words.len());
    // SAFETY: see `Quantized::numbers`.
    unsafe { *words.get_unchecked(at) }
}

/// Four words from `at` on, likewise.
#[inline(always)]
fn four(words: &[u32], at: usize) -> &[u32; 4] {
    debug_assert!(at + 4 <= words.len());
    // SAFETY: see `Quantized::numbers`; four words have the alignment of one.
    unsafe { &*words.as_ptr().add(at).cast() }
}

#[inline(always)]
fn nibbles(words: &[u32], at: usize) -> [Bytes; 2] {
    let packed = Bytes::load(four(words, at));
    [packed.and(15), packed.high()]
}

/// Fifth bits: bit j of byte k of the word belongs to element 4j + k.
#[inline(always)]
fn fifth([low, high]: [Bytes; 2], bits: u32) -> [Bytes; 2] {
    let bits = Bytes::of([bits; 4]);
    let mask = |j: u32| 0x0101_0101 << j;
    [
        low.or(bits.sixteen_where([mask(0), mask(1), mask(2), mask(3)])),
        high.or(bits.sixteen_where([mask(4), mask(5), mask(6), mask(7)])),
    ]
}

/// Masks and factors by which each lane's pair of bits ends at the bits 6 and 7 of each byte.
const PAIRS: [[u16; 2]; 4] = [[0x0303, 64], [0x0c0c, 16], [0x3030, 4], [0xc0c0, 1 | 1 << 13]];

/// Pairs of bits of a block: bits 2i and 2i + 1 of byte k of word n belong to element 16n + 4i + k.
#[inline(always)]
fn pairs(words: &[u32], at: usize) -> [Bytes; 2] {
    [0, 1].map(|n| Bytes::spread(word(words, at + n), PAIRS).down::<6>())
}

/// The f16 scale of block `b`, two a word.
#[inline(always)]
fn half_scale(ws: &[u32], b: usize) -> f32 {
    half(ws[b / 2] >> (b % 2 * 16) & 0xffff)
}

pub struct Q8;
impl Quantized for Q8 {
    const WORDS: [usize; 2] = [64, 0];
    const SIGNED: bool = true;
    #[inline(always)]
    unsafe fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        [Bytes::load(four(wq, b * 8)), Bytes::load(four(wq, b * 8 + 4))]
    }
    #[inline(always)]
    fn row(ws: &[u32], first: usize, to: &mut Scales) {
        to.of_halves(ws, first);
    }
}

pub struct Q4;
impl Quantized for Q4 {
    const WORDS: [usize; 2] = [32, 0];
    const OFFSET: i32 = 8;
    #[inline(always)]
    unsafe fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        nibbles(wq, b * 4)
    }
    #[inline(always)]
    fn row(ws: &[u32], first: usize, to: &mut Scales) {
        to.of_halves(ws, first);
    }
}

pub struct Q5;
impl Quantized for Q5 {
    const WORDS: [usize; 2] = [32, 16];
    const OFFSET: i32 = 16;
    #[inline(always)]
    unsafe fn numbers(wq: &[u32], ws: &[u32], b: usize) -> [Bytes; 2] {
        fifth(nibbles(wq, b * 4), word(ws, b * 2 + 1))
    }
    #[inline(always)]
    fn row(ws: &[u32], first: usize, to: &mut Scales) {
        to.each(first, |b| [[f32::from_bits(ws[b * 2]), 0.0]; 2]);
    }
}

pub struct Q4K;
impl Quantized for Q4K {
    const WORDS: [usize; 2] = [32, 0];
    const LEAST: bool = true;
    #[inline(always)]
    unsafe fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        nibbles(wq, b * 4)
    }
    #[inline(always)]
    fn row(ws: &[u32], first: usize, to: &mut Scales) {
        to.of_k(ws, first);
    }
}

pub struct Q5K;
impl Quantized for Q5K {
    const WORDS: [usize; 2] = [40, 0];
    const LEAST: bool = true;
    #[inline(always)]
    unsafe fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        let (group, j) = (b / 8 * 40, b % 8);
        fifth(nibbles(wq, group + j * 4), word(wq, group + 32 + j))
    }
    #[inline(always)]
    fn row(ws: &[u32], first: usize, to: &mut Scales) {
        to.of_k(ws, first);
    }
}

pub struct Q6K;
impl Quantized for Q6K {
    const WORDS: [usize; 2] = [48, 0];
    const HALVES: bool = true;
    const OFFSET: i32 = 32;
    #[inline(always)]
    unsafe fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        let (group, j) = (b / 8 * 48, b % 8);
        // Bits 2i and 2i + 1 of byte k of word n belong to element 16n + 4i + k.
        let high = |n: usize| Bytes::spread(word(wq, group + 32 + j * 2 + n), PAIRS).down::<2>();
        let [first, last] = nibbles(wq, group + j * 4);
        [first.or(high(0)), last.or(high(1))]
    }
    #[inline(always)]
    fn row(ws: &[u32], first: usize, to: &mut Scales) {
        to.of_sixteenths(ws, first);
    }
}

pub struct Q3K;
impl Quantized for Q3K {
    const WORDS: [usize; 2] = [24, 0];
    const HALVES: bool = true;
    const OFFSET: i32 = 4;
    #[inline(always)]
    unsafe fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        let (group, j) = (b / 8 * 24, b % 8);
        // Bit i of byte k is set where element 4i + k is 4 smaller.
        let bits = !word(wq, group + 16 + j);
        let [first, last] = pairs(wq, group + j * 2);
        let third = |at: u16| {
            Bytes::spread(
                bits,
                [[1, 8], [2, 4], [4, 2], [8, 1 | 1 << 13]].map(|[bit, factor]| [(bit << at) * 0x101, factor]),
            )
        };
        [first.or(third(0).down::<1>()), last.or(third(4).down::<5>())]
    }
    #[inline(always)]
    fn row(ws: &[u32], first: usize, to: &mut Scales) {
        to.of_sixteenths(ws, first);
    }
}

pub struct Q1;
impl Quantized for Q1 {
    const WORDS: [usize; 2] = [8, 0];
    const OFFSET: i32 = 8;
    #[inline(always)]
    unsafe fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        fifth([Bytes::of([0; 4]); 2], word(wq, b))
    }
    #[inline(always)]
    fn row(ws: &[u32], first: usize, to: &mut Scales) {
        to.each(first, |b| {
            // Numbers are 0 and 16.
            [[half_scale(ws, b / 4) / 8.0, 0.0]; 2]
        });
    }
}

pub struct Q2;
impl Quantized for Q2 {
    const WORDS: [usize; 2] = [16, 0];
    const OFFSET: i32 = 1;
    #[inline(always)]
    unsafe fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        pairs(wq, b * 2)
    }
    #[inline(always)]
    fn row(ws: &[u32], first: usize, to: &mut Scales) {
        to.each(first, |b| [[half_scale(ws, b / 2), 0.0]; 2]);
    }
}

pub struct Q41;
impl Quantized for Q41 {
    const WORDS: [usize; 2] = [32, 0];
    const LEAST: bool = true;
    #[inline(always)]
    unsafe fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        nibbles(wq, b * 4)
    }
    #[inline(always)]
    fn row(ws: &[u32], first: usize, to: &mut Scales) {
        to.each(first, |b| [[half_scale(ws, 2 * b), -half_scale(ws, 2 * b + 1)]; 2]);
    }
}

pub struct Q51;
impl Quantized for Q51 {
    const WORDS: [usize; 2] = [32, 16];
    const LEAST: bool = true;
    #[inline(always)]
    unsafe fn numbers(wq: &[u32], ws: &[u32], b: usize) -> [Bytes; 2] {
        // SAFETY: Q5_0 has as many words.
        unsafe { Q5::numbers(wq, ws, b) }
    }
    #[inline(always)]
    fn row(ws: &[u32], first: usize, to: &mut Scales) {
        to.each(first, |b| [[half_scale(ws, 4 * b), -half_scale(ws, 4 * b + 1)]; 2]);
    }
}

pub struct Q2K;
impl Quantized for Q2K {
    const WORDS: [usize; 2] = [16, 0];
    const HALVES: bool = true;
    const LEAST: bool = true;
    #[inline(always)]
    unsafe fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        pairs(wq, b * 2)
    }
    #[inline(always)]
    fn row(ws: &[u32], first: usize, to: &mut Scales) {
        to.each(first, |b| {
            let (group, j) = (b / 8 * 5, b % 8);
            let (two, factors) = (ws[group + j / 2] >> (j % 2 * 16), ws[group + 4]);
            let of = |bits: u32| {
                [half(factors & 0xffff) * (bits & 15) as f32, half(factors >> 16) * (bits >> 4 & 15) as f32]
            };
            [of(two), of(two >> 8)]
        });
    }
}

/// The sixteen values of IQ4_NL and IQ4_XS, signed bytes.
const NON_LINEAR: [u32; 4] = [0xbfad_9881, 0xf6ea_ddcf, 0x2619_0d01, 0x7159_4535];

pub struct Iq4Nl;
impl Quantized for Iq4Nl {
    const WORDS: [usize; 2] = [32, 0];
    const SIGNED: bool = true;
    #[inline(always)]
    unsafe fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        nibbles(wq, b * 4).map(|n| n.of_table(NON_LINEAR))
    }
    #[inline(always)]
    fn row(ws: &[u32], first: usize, to: &mut Scales) {
        to.of_halves(ws, first);
    }
}

pub struct Iq4Xs;
impl Quantized for Iq4Xs {
    const WORDS: [usize; 2] = [32, 0];
    const SIGNED: bool = true;
    #[inline(always)]
    unsafe fn numbers(wq: &[u32], ws: &[u32], b: usize) -> [Bytes; 2] {
        // SAFETY: IQ4_NL has as many words.
        unsafe { Iq4Nl::numbers(wq, ws, b) }
    }
    #[inline(always)]
    fn row(ws: &[u32], first: usize, to: &mut Scales) {
        to.each(first, |b| {
            let (head, low) = (ws[b / 8 * 2], ws[b / 8 * 2 + 1]);
            let six = low >> (b % 8 * 4) & 15 | (head >> (16 + b % 8 * 2) & 3) << 4;
            [[half(head & 0xffff) * (six as f32 - 32.0), 0.0]; 2]
        });
    }
}

pub struct Mxfp4;
impl Quantized for Mxfp4 {
    const WORDS: [usize; 2] = [32, 0];
    const OFFSET: i32 = 12;
    #[inline(always)]
    unsafe fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        // Twice the value of each nibble, and 12: so none is negative.
        nibbles(wq, b * 4).map(|n| n.of_table([0x0908_0006, 0x0d0c_040a, 0x0e14_0c0b, 0x1218_100f]))
    }
    #[inline(always)]
    fn row(ws: &[u32], first: usize, to: &mut Scales) {
        to.each(first, |b| {
            // 2 ^ (exponent - 128), subnormal below an exponent of 2.
            let exponent = ws[b / 4] >> (b % 4 * 8) & 0xff;
            let scale = f32::from_bits(match exponent {
                0 => 1 << 21,
                1 => 1 << 22,
                _ => (exponent - 1) << 23,
            });
            [[scale, 0.0]; 2]
        });
    }
}

/// `Some` of an expression with `$kind` as the quantized type of that name; `None` where the name is not one of theirs.
macro_rules! of_type {
    (@$of:ident, $kind:ident, $body:expr) => {{
        type $kind = $crate::weights::$of;
        Some($body)
    }};
    ($weight:expr, $kind:ident => $body:expr) => {
        match $weight {
            "q8_0" => of_type!(@Q8, $kind, $body),
            "q4_0" => of_type!(@Q4, $kind, $body),
            "mxfp4" => of_type!(@Mxfp4, $kind, $body),
            "q5_0" => of_type!(@Q5, $kind, $body),
            "q4_k" => of_type!(@Q4K, $kind, $body),
            "q5_k" => of_type!(@Q5K, $kind, $body),
            "q6_k" => of_type!(@Q6K, $kind, $body),
            "q1_0" => of_type!(@Q1, $kind, $body),
            "q2_0" => of_type!(@Q2, $kind, $body),
            "q4_1" => of_type!(@Q41, $kind, $body),
            "q5_1" => of_type!(@Q51, $kind, $body),
            "q2_k" => of_type!(@Q2K, $kind, $body),
            "q3_k" => of_type!(@Q3K, $kind, $body),
            "iq4_nl" => of_type!(@Iq4Nl, $kind, $body),
            "iq4_xs" => of_type!(@Iq4Xs, $kind, $body),
            _ => None,
        }
    };
}
pub(crate) use of_type;

/// Whether products of a type with int8 are written here.
pub fn knows(weight: &str) -> bool {
    of_type!(weight, Kind => Kind::HALVES).is_some()
}

/// A row of a type that is not quantized, or of one that is, as floats.
pub fn floats(weight: &str, wq: &[u32], ws: &[u32], row: usize, kb: usize, out: &mut Vec<f32>) {
    out.resize(kb * BLOCK, 0.0);
    match weight {
        "f32" => out.copy_from_slice(bytemuck::cast_slice(&wq[row * kb * 32..][..kb * 32])),
        "f16" => halves(&wq[row * kb * 16..][..kb * 16], out),
        "bf16" => {
            for (pair, word) in out.as_chunks_mut::<2>().0.iter_mut().zip(&wq[row * kb * 16..]) {
                *pair = [f32::from_bits(word << 16), f32::from_bits(word & 0xffff_0000)];
            }
        }
        _ => {
            for (b, values) in out.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
                *values = millrace_core::blocks::decode::decode_block(weight, wq, ws, row * kb + b);
            }
        }
    }
}
