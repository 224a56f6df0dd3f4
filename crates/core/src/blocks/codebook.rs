//! Types that only files have, in super-blocks of 256 values that are a factor times a small scale, one for each 16,
//! times a number: those whose numbers a codebook has (IQ1, IQ2, IQ3), and the ternary ones. No product of the three is
//! rounded, so that what has room for factor, scales and numbers loses nothing.

use half::f16;

use super::{DType, Packed, WeightType};

/// A super-block: value i = factor * scales[i / 16] * numbers[i].
pub struct Group {
    pub factor: f32,
    pub scales: [i8; 16],
    pub numbers: [i8; 256],
}

impl Group {
    /// Its values.
    pub fn values(&self) -> [f32; 256] {
        std::array::from_fn(|i| self.factor * f32::from(self.scales[i / 16]) * f32::from(self.numbers[i]))
    }
}

/// A codebook: rows of numbers, each row's digits being numbers of `digits`. Read as a number whose first digit counts
/// least, row after row is larger: the file has the differences, divided by `step`.
struct Book {
    digits: &'static [i8],
    rows: usize,
    step: usize,
}

/// The differences of all books. Written by scripts/oracle/fixtures/quants.py.
static DIFFERENCES: &[u8] = include_bytes!("codebooks.bin");

/// In the order of [`DIFFERENCES`]: of IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS (halved), IQ3_S, and of both IQ1 (8 times as
/// much).
const BOOKS: [Book; 6] = [
    Book { digits: &[8, 25, 43], rows: 256, step: 2 },
    Book { digits: &[8, 25, 43], rows: 512, step: 2 },
    Book { digits: &[8, 25, 43], rows: 1024, step: 2 },
    Book { digits: &[2, 6, 10, 14, 18, 22, 26, 31], rows: 256, step: 1 },
    Book { digits: &[1, 3, 5, 7, 9, 11, 13, 15], rows: 512, step: 1 },
    Book { digits: &[-8, 0, 8], rows: 2048, step: 1 },
];

/// The rows of book `n`, eight numbers each, of which IQ3 have four.
fn book(n: usize) -> Vec<[i8; 8]> {
    let Book { digits, rows, step } = BOOKS[n];
    let before: usize = BOOKS[..n].iter().map(|book| book.rows).sum();
    let mut row = 0;
    let read = |difference: &u8| {
        row += usize::from(*difference) * step;
        let mut rest = row;
        std::array::from_fn(|_| {
            let digit = digits[rest % digits.len()];
            rest /= digits.len();
            digit
        })
    };
    DIFFERENCES[before..before + rows].iter().map(read).collect()
}

/// Whether [`groups`] reads the type.
pub const fn reads(dtype: DType) -> bool {
    room(dtype).is_some() || matches!(dtype, DType::IQ2_S | DType::IQ2_XS | DType::IQ2_XXS)
}

/// The type that has room for all that a type of [`groups`] says. The numbers of IQ2 are larger than those of any with
/// scales for 16.
pub const fn room(dtype: DType) -> Option<WeightType> {
    match dtype {
        DType::TQ1_0 | DType::TQ2_0 => Some(WeightType::Q2_0),
        DType::IQ1_M | DType::IQ1_S | DType::IQ3_S | DType::IQ3_XXS => Some(WeightType::Q6K),
        _ => None,
    }
}

/// Super-blocks in the layout of the type that has [`room`] for them, without loss; `None` for any other two types.
pub fn transcode(kind: WeightType, dtype: DType, raw: &[u8]) -> Option<Packed> {
    room(dtype).filter(|room| *room == kind)?;
    let mut out = Packed::default();
    let mut words = |words: usize, bits: &dyn Fn(usize) -> u32| out.wq.extend((0..words).map(bits));
    let mut scales = Vec::new();
    groups(dtype, raw, &mut |Group { factor, scales: of_sixteen, numbers }| {
        // Four bytes of a word, each put together of some numbers' bits.
        let word = |byte: &dyn Fn(usize) -> u8| u32::from_le_bytes([0, 1, 2, 3].map(byte));
        let pairs = |of: &dyn Fn(i8) -> u8, n: usize| {
            word(&|k| (0..4).fold(0, |byte, i| byte | of(numbers[16 * n + 4 * i + k]) << (2 * i)))
        };
        if kind == WeightType::Q2_0 {
            words(16, &|n| pairs(&|number| (number + 1) as u8, n));
            scales.extend([f16::from_f32(factor).to_le_bytes(); 4].as_flattened());
        } else {
            let low = |i: usize| (numbers[i] + 32) as u8 & 15;
            words(32, &|n| word(&|k| low(n / 4 * 32 + n % 4 * 4 + k) | low(n / 4 * 32 + 16 + n % 4 * 4 + k) << 4));
            words(16, &|n| pairs(&|number| (number + 32) as u8 >> 4, n));
            scales.extend(of_sixteen.map(|scale| scale as u8));
            scales.extend(factor.to_le_bytes());
        }
    });
    out.scales = scales;
    Some(out)
}

/// Reads a super-block by the rows of its book.
type Decode = fn(&[u8], &[[i8; 8]]) -> Group;

/// Hands each super-block of `raw` to `take`. False for types that it does not read.
pub fn groups(dtype: DType, raw: &[u8], take: &mut dyn FnMut(Group)) -> bool {
    let (n, decode): (usize, Decode) = match dtype {
        DType::IQ2_XXS => (0, iq2_xxs),
        DType::IQ2_XS => (1, iq2_xs),
        DType::IQ2_S => (2, iq2_s),
        DType::IQ3_XXS => (3, iq3_xxs),
        DType::IQ3_S => (4, iq3_s),
        DType::IQ1_S => (5, iq1_s),
        DType::IQ1_M => (5, iq1_m),
        DType::TQ1_0 => (0, tq1_0),
        DType::TQ2_0 => (0, tq2_0),
        _ => return false,
    };
    let book = book(n);
    raw.chunks_exact(dtype.block_bytes() as usize).for_each(|block| take(decode(block, &book)));
    true
}

fn u16_at(block: &[u8], i: usize) -> u16 {
    u16::from_le_bytes([block[i], block[i + 1]])
}

fn half(bits: u16) -> f32 {
    f16::from_bits(bits).to_f32()
}

/// Number `i` of 4 bits, the low one of a byte first.
fn nibble(bytes: &[u8], i: usize) -> usize {
    usize::from(bytes[i / 2] >> (i % 2 * 4) & 15)
}

/// 32 rows of eight numbers. `row(l)`: the numbers, and a bit for each that is negative; `scale(g)`: of the g-th 16
/// numbers.
fn group(factor: f32, scale: impl Fn(usize) -> usize, row: impl Fn(usize) -> ([i8; 8], u8)) -> Group {
    let mut numbers = [0; 256];
    for (l, numbers) in numbers.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let (row, signs) = row(l);
        *numbers = std::array::from_fn(|i| if signs >> i & 1 == 0 { row[i] } else { -row[i] });
    }
    Group { factor, scales: std::array::from_fn(|g| scale(g) as i8), numbers }
}

/// Seven signs, and an eighth that makes their number even.
fn eight(signs: u32) -> u8 {
    let seven = signs as u8 & 127;
    seven | (seven.count_ones() as u8 & 1) << 7
}

/// Two rows of four as one.
fn joined(a: [i8; 8], b: [i8; 8]) -> [i8; 8] {
    std::array::from_fn(|i| if i < 4 { a[i] } else { b[i - 4] })
}

/// The word at byte `at`: four times seven signs, then a 4-bit scale.
fn signs_and_scale(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

/// d; for each 32 values four rows' numbers, then signs and a scale.
fn iq2_xxs(block: &[u8], book: &[[i8; 8]]) -> Group {
    let word = |of: usize| signs_and_scale(block, 6 + 8 * of);
    group(
        half(u16_at(block, 0)) / 8.0,
        |g| 2 * (word(g / 2) >> 28) as usize + 1,
        |l| (book[usize::from(block[2 + l / 4 * 8 + l % 4])], eight(word(l / 4) >> (l % 4 * 7))),
    )
}

/// d, 32 times 9 bits of a row's number and 7 signs, a scale for each 16 values.
fn iq2_xs(block: &[u8], book: &[[i8; 8]]) -> Group {
    group(
        half(u16_at(block, 0)) / 8.0,
        |g| 2 * nibble(&block[66..], g) + 1,
        |l| {
            let both = u16_at(block, 2 + 2 * l);
            (book[usize::from(both & 511)], eight(u32::from(both >> 9)))
        },
    )
}

/// d, 32 low bytes of rows' numbers, 32 bytes of signs, the numbers' high pairs of bits, a scale for each 16 values.
fn iq2_s(block: &[u8], book: &[[i8; 8]]) -> Group {
    let high = |l: usize| usize::from(block[66 + l / 4] >> (l % 4 * 2) & 3) << 8;
    group(
        half(u16_at(block, 0)) / 8.0,
        |g| 2 * nibble(&block[74..], g) + 1,
        |l| (book[usize::from(block[2 + l]) | high(l)], block[34 + l]),
    )
}

/// d, 64 rows' numbers, then signs and a scale for each 32 values.
fn iq3_xxs(block: &[u8], book: &[[i8; 8]]) -> Group {
    let word = |of: usize| signs_and_scale(block, 66 + 4 * of);
    let row = |i: usize| book[usize::from(block[2 + i])];
    group(
        half(u16_at(block, 0)) / 2.0,
        |g| 2 * (word(g / 2) >> 28) as usize + 1,
        |l| (joined(row(2 * l), row(2 * l + 1)), eight(word(l / 4) >> (l % 4 * 7))),
    )
}

/// d, 64 low bytes of rows' numbers, their high bits, 32 bytes of signs, a scale for each 32 values.
fn iq3_s(block: &[u8], book: &[[i8; 8]]) -> Group {
    let row = |i: usize| book[usize::from(block[2 + i]) | usize::from(block[66 + i / 8] >> (i % 8) & 1) << 8];
    group(
        half(u16_at(block, 0)),
        |g| 2 * nibble(&block[106..], g / 2) + 1,
        |l| (joined(row(2 * l), row(2 * l + 1)), block[74 + l]),
    )
}

/// A row of either IQ1: all numbers are an eighth larger, or smaller.
fn shifted(row: [i8; 8], smaller: bool) -> ([i8; 8], u8) {
    (row.map(|n| n + if smaller { -1 } else { 1 }), 0)
}

/// d, 32 low bytes of rows' numbers; for each 32 values four times the numbers' high bits, a 3-bit scale, and whether
/// they are smaller.
fn iq1_s(block: &[u8], book: &[[i8; 8]]) -> Group {
    let high = |of: usize| usize::from(u16_at(block, 34 + 2 * of));
    group(
        half(u16_at(block, 0)) / 8.0,
        |g| 2 * (high(g / 2) >> 12 & 7) + 1,
        |l| shifted(book[usize::from(block[2 + l]) | (high(l / 4) >> (l % 4 * 3) & 7) << 8], high(l / 4) >> 15 == 1),
    )
}

/// 32 low bytes of rows' numbers; a nibble for each row of the number's high bits and whether they are smaller; four
/// times four 3-bit scales and a quarter of d.
fn iq1_m(block: &[u8], book: &[[i8; 8]]) -> Group {
    let scales = |i: usize| u16_at(block, 48 + 2 * i);
    let d = (0..4).fold(0, |d, i| d | scales(i) >> 12 << (4 * i));
    let high = |l: usize| nibble(&block[32..], l);
    group(
        half(d) / 8.0,
        |g| 2 * usize::from(scales(g / 4) >> (g % 4 * 3) & 7) + 1,
        |l| shifted(book[usize::from(block[l]) | (high(l) & 7) << 8], high(l) >> 3 == 1),
    )
}

/// Numbers 0 to 2, one too large: 48 bytes of five and 4 of four, then d. A byte is the fraction of 256 that its digits
/// in base 3 make, the first ones of 32 bytes, of 16, and of 4 following each other.
fn tq1_0(block: &[u8], _: &[[i8; 8]]) -> Group {
    let number = |i: usize| {
        let (byte, digit) = match i {
            0..160 => (i % 32, i / 32),
            160..240 => (32 + i % 16, (i - 160) / 16),
            _ => (48 + i % 4, (i - 240) / 4),
        };
        let shifted = block[byte].wrapping_mul([1, 3, 9, 27, 81][digit]);
        ((u16::from(shifted) * 3) >> 8) as i8 - 1
    };
    Group { factor: half(u16_at(block, 52)), scales: [1; 16], numbers: std::array::from_fn(number) }
}

/// Numbers of 2 bits, one too large, then d. Two halves of 128: bits 2n and 2n + 1 of a half's byte l are number 32n +
/// l.
fn tq2_0(block: &[u8], _: &[[i8; 8]]) -> Group {
    let number = |i: usize| (block[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) as i8 - 1;
    Group { factor: half(u16_at(block, 64)), scales: [1; 16], numbers: std::array::from_fn(number) }
}
