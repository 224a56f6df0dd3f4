//! Blocks of weights as `millrace_core::blocks::decode` describes them: value = scale * number - least. Numbers of all
//! types but one are below 128, so that products with int8 activations are exact however a processor adds them up.

use crate::simd::{Bytes, half, halves};

/// Elements of a block.
pub const BLOCK: usize = 32;

/// Scales and offsets of a row's blocks, for elements 0 to 15 and 16 to 31.
#[derive(Default)]
pub struct Scales {
    pub scale: Vec<f32>,
    /// Scales of elements 16 to 31, where they differ.
    pub second: Vec<f32>,
    pub least: Vec<f32>,
    /// Offsets of elements 16 to 31, where they differ.
    pub second_least: Vec<f32>,
}

/// A quantized type.
pub trait Quantized {
    /// Whether numbers are signed: all 256 of a byte.
    const SIGNED: bool = false;
    /// Whether the two halves of a block have scales of their own.
    const HALVES: bool = false;
    /// Whether something is taken off.
    const LEAST: bool = true;

    /// The numbers of block `b`, elements 0 to 15 and 16 to 31.
    fn numbers(wq: &[u32], ws: &[u32], b: usize) -> [Bytes; 2];

    /// The scale and what is taken off, of block `b`: of the first and of the last 16.
    fn scales(ws: &[u32], b: usize) -> [[f32; 2]; 2];

    /// [`Quantized::scales`] of `kb` blocks from block `first` on, into `to`.
    #[inline(always)]
    fn row(ws: &[u32], first: usize, kb: usize, to: &mut Scales) {
        let Scales { scale, second, least, second_least } = to;
        for list in [&mut *scale, &mut *second, &mut *least, &mut *second_least] {
            list.resize(kb, 0.0);
        }
        for b in 0..kb {
            let [one, two] = Self::scales(ws, first + b);
            scale[b] = one[0];
            if Self::LEAST {
                least[b] = one[1];
            }
            if Self::HALVES {
                (second[b], second_least[b]) = (two[0], two[1]);
            }
        }
    }
}

#[inline(always)]
fn four(words: &[u32], at: usize) -> &[u32; 4] {
    words[at..].first_chunk().unwrap_or(&[0; 4])
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

/// Pairs of bits of a block: bits 2i and 2i + 1 of byte k of word n belong to element 16n + 4i + k.
#[inline(always)]
fn pairs(words: &[u32], at: usize) -> [Bytes; 2] {
    [0, 1].map(|n| {
        let bits = words[at + n];
        Bytes::of([bits, bits >> 2, bits >> 4, bits >> 6]).and(3)
    })
}

/// The f16 scale of block `b`, two a word.
#[inline(always)]
fn half_scale(ws: &[u32], b: usize) -> f32 {
    half(ws[b / 2] >> (b % 2 * 16) & 0xffff)
}

/// The signed bytes of a group of eight blocks that scale the halves of block `b`, times their factor.
#[inline(always)]
fn sixteenths(ws: &[u32], b: usize) -> [f32; 2] {
    let (group, j) = (b / 8 * 5, b % 8);
    let (two, factor) = (ws[group + j / 2] >> (j % 2 * 16), f32::from_bits(ws[group + 4]));
    [two, two >> 8].map(|byte| factor * f32::from(byte as i8))
}

/// Scales of q4_k and q5_k.
#[inline(always)]
fn scales_k(ws: &[u32], b: usize) -> [[f32; 2]; 2] {
    let [halves, scales, mins, rest] = *four(ws, b / 8 * 4);
    let j = b % 8;
    let six = |low: u32, high: u32| (low >> (4 * j) & 15 | (high & 3) << 4) as f32;
    let one =
        [half(halves & 0xffff) * six(scales, rest >> (2 * j)), half(halves >> 16) * six(mins, rest >> (16 + 2 * j))];
    [one, one]
}

pub struct Q8;
impl Quantized for Q8 {
    const SIGNED: bool = true;
    const LEAST: bool = false;
    #[inline(always)]
    fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        [Bytes::load(four(wq, b * 8)), Bytes::load(four(wq, b * 8 + 4))]
    }
    #[inline(always)]
    fn scales(ws: &[u32], b: usize) -> [[f32; 2]; 2] {
        [[half_scale(ws, b), 0.0]; 2]
    }
}

pub struct Q4;
impl Quantized for Q4 {
    #[inline(always)]
    fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        nibbles(wq, b * 4)
    }
    #[inline(always)]
    fn scales(ws: &[u32], b: usize) -> [[f32; 2]; 2] {
        let scale = half_scale(ws, b);
        [[scale, 8.0 * scale]; 2]
    }
}

pub struct Q5;
impl Quantized for Q5 {
    #[inline(always)]
    fn numbers(wq: &[u32], ws: &[u32], b: usize) -> [Bytes; 2] {
        fifth(nibbles(wq, b * 4), ws[b * 2 + 1])
    }
    #[inline(always)]
    fn scales(ws: &[u32], b: usize) -> [[f32; 2]; 2] {
        let scale = f32::from_bits(ws[b * 2]);
        [[scale, 16.0 * scale]; 2]
    }
}

pub struct Q4K;
impl Quantized for Q4K {
    #[inline(always)]
    fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        nibbles(wq, b * 4)
    }
    #[inline(always)]
    fn scales(ws: &[u32], b: usize) -> [[f32; 2]; 2] {
        scales_k(ws, b)
    }
}

pub struct Q5K;
impl Quantized for Q5K {
    #[inline(always)]
    fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        let (group, j) = (b / 8 * 40, b % 8);
        fifth(nibbles(wq, group + j * 4), wq[group + 32 + j])
    }
    #[inline(always)]
    fn scales(ws: &[u32], b: usize) -> [[f32; 2]; 2] {
        scales_k(ws, b)
    }
}

pub struct Q6K;
impl Quantized for Q6K {
    const HALVES: bool = true;
    #[inline(always)]
    fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        let (group, j) = (b / 8 * 48, b % 8);
        // Bits 2i and 2i + 1 of byte k of word n belong to element 16n + 4i + k.
        let high = |n: usize| {
            let bits = wq[group + 32 + j * 2 + n];
            Bytes::of([bits << 4, bits << 2, bits, bits >> 2]).and(0x30)
        };
        let [first, last] = nibbles(wq, group + j * 4);
        [first.or(high(0)), last.or(high(1))]
    }
    #[inline(always)]
    fn scales(ws: &[u32], b: usize) -> [[f32; 2]; 2] {
        sixteenths(ws, b).map(|scale| [scale, 32.0 * scale])
    }
}

pub struct Q3K;
impl Quantized for Q3K {
    const HALVES: bool = true;
    #[inline(always)]
    fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        let (group, j) = (b / 8 * 24, b % 8);
        // Bit i of byte k is set where element 4i + k is 4 smaller.
        let bits = !wq[group + 16 + j];
        let [first, last] = pairs(wq, group + j * 2);
        let third = [
            Bytes::of([bits << 2, bits << 1, bits, bits >> 1]),
            Bytes::of([bits >> 2, bits >> 3, bits >> 4, bits >> 5]),
        ];
        [first.or(third[0].and(4)), last.or(third[1].and(4))]
    }
    #[inline(always)]
    fn scales(ws: &[u32], b: usize) -> [[f32; 2]; 2] {
        sixteenths(ws, b).map(|scale| [scale, 4.0 * scale])
    }
}

pub struct Q1;
impl Quantized for Q1 {
    #[inline(always)]
    fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        fifth([Bytes::of([0; 4]); 2], wq[b])
    }
    #[inline(always)]
    fn scales(ws: &[u32], b: usize) -> [[f32; 2]; 2] {
        // Numbers are 0 and 16.
        let scale = half_scale(ws, b / 4);
        [[scale / 8.0, scale]; 2]
    }
}

pub struct Q2;
impl Quantized for Q2 {
    #[inline(always)]
    fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        pairs(wq, b * 2)
    }
    #[inline(always)]
    fn scales(ws: &[u32], b: usize) -> [[f32; 2]; 2] {
        [[half_scale(ws, b / 2); 2]; 2]
    }
}

pub struct Q41;
impl Quantized for Q41 {
    #[inline(always)]
    fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        nibbles(wq, b * 4)
    }
    #[inline(always)]
    fn scales(ws: &[u32], b: usize) -> [[f32; 2]; 2] {
        [[half_scale(ws, 2 * b), -half_scale(ws, 2 * b + 1)]; 2]
    }
}

pub struct Q51;
impl Quantized for Q51 {
    #[inline(always)]
    fn numbers(wq: &[u32], ws: &[u32], b: usize) -> [Bytes; 2] {
        Q5::numbers(wq, ws, b)
    }
    #[inline(always)]
    fn scales(ws: &[u32], b: usize) -> [[f32; 2]; 2] {
        [[half_scale(ws, 4 * b), -half_scale(ws, 4 * b + 1)]; 2]
    }
}

pub struct Q2K;
impl Quantized for Q2K {
    const HALVES: bool = true;
    #[inline(always)]
    fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        pairs(wq, b * 2)
    }
    #[inline(always)]
    fn scales(ws: &[u32], b: usize) -> [[f32; 2]; 2] {
        let (group, j) = (b / 8 * 5, b % 8);
        let (two, factors) = (ws[group + j / 2] >> (j % 2 * 16), ws[group + 4]);
        let of =
            |bits: u32| [half(factors & 0xffff) * (bits & 15) as f32, half(factors >> 16) * (bits >> 4 & 15) as f32];
        [of(two), of(two >> 8)]
    }
}

/// The sixteen values of IQ4_NL and IQ4_XS, signed bytes.
const NON_LINEAR: [u32; 4] = [0xbfad_9881, 0xf6ea_ddcf, 0x2619_0d01, 0x7159_4535];

pub struct Iq4Nl;
impl Quantized for Iq4Nl {
    const SIGNED: bool = true;
    const LEAST: bool = false;
    #[inline(always)]
    fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        nibbles(wq, b * 4).map(|n| n.of_table(NON_LINEAR))
    }
    #[inline(always)]
    fn scales(ws: &[u32], b: usize) -> [[f32; 2]; 2] {
        [[half_scale(ws, b), 0.0]; 2]
    }
}

pub struct Iq4Xs;
impl Quantized for Iq4Xs {
    const SIGNED: bool = true;
    const LEAST: bool = false;
    #[inline(always)]
    fn numbers(wq: &[u32], ws: &[u32], b: usize) -> [Bytes; 2] {
        Iq4Nl::numbers(wq, ws, b)
    }
    #[inline(always)]
    fn scales(ws: &[u32], b: usize) -> [[f32; 2]; 2] {
        let (head, low) = (ws[b / 8 * 2], ws[b / 8 * 2 + 1]);
        let six = low >> (b % 8 * 4) & 15 | (head >> (16 + b % 8 * 2) & 3) << 4;
        [[half(head & 0xffff) * (six as f32 - 32.0), 0.0]; 2]
    }
}

pub struct Mxfp4;
impl Quantized for Mxfp4 {
    #[inline(always)]
    fn numbers(wq: &[u32], _: &[u32], b: usize) -> [Bytes; 2] {
        // Twice the value of each nibble, and 12: so none is negative.
        nibbles(wq, b * 4).map(|n| n.of_table([0x0908_0006, 0x0d0c_040a, 0x0e14_0c0b, 0x1218_100f]))
    }
    #[inline(always)]
    fn scales(ws: &[u32], b: usize) -> [[f32; 2]; 2] {
        // 2 ^ (exponent - 128), subnormal below an exponent of 2.
        let exponent = ws[b / 4] >> (b % 4 * 8) & 0xff;
        let scale = f32::from_bits(match exponent {
            0 => 1 << 21,
            1 => 1 << 22,
            _ => (exponent - 1) << 23,
        });
        [[scale, 12.0 * scale]; 2]
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

/// Whether the halves of a type's blocks have scales of their own, so that products need the sums of both.
pub fn halves_apart(weight: &str) -> bool {
    of_type!(weight, Kind => Kind::HALVES).unwrap_or(false)
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
