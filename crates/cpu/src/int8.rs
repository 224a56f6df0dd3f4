//! Products of quantized weights with int8 activations. A few rows of activations: a block of each row of weights at a
//! time, as it lies. Many rows of activations: rows of weights are unpacked into a panel, a lane of the processor's
//! registers for each, which all activations pass.

use std::ops::Range;

use crate::parallel::{Shared, parallel};
use crate::simd::unit::{Base, Unit};
use crate::simd::{Bytes, Ints, dot};
use crate::weights::{BLOCK, Quantized, Scales, of_type};

/// Rows of int8 activations.
#[derive(Default)]
pub struct Int8 {
    pub rows: usize,
    /// Eight words a block.
    ints: Vec<u32>,
    /// A scale a block.
    scales: Vec<f32>,
    /// Sums of the ints of each half of a block.
    sums: Vec<[i32; 2]>,
}

impl Int8 {
    /// Takes one more row of blocks: eight words and a scale each.
    pub fn push(&mut self, ints: &[u32], scales: impl Iterator<Item = f32>) {
        self.rows += 1;
        self.ints.extend_from_slice(ints);
        self.scales.extend(scales);
        let ones = Bytes::of([0x0101_0101; 4]);
        let sum = |words: &[u32; 4]| Ints::zero().add_products(Bytes::load(words), ones).sum();
        let halves = ints.as_chunks::<4>().0.as_chunks::<2>().0;
        self.sums.extend(halves.iter().map(|[first, second]| [sum(first), sum(second)]));
    }
}

/// A quantized matrix.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    pub weight: &'a str,
    pub wq: &'a [u32],
    pub ws: &'a [u32],
    pub kb: usize,
}

/// Instructions that the processor has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    Base,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
}

impl Level {
    /// All that this processor has, the best last.
    pub fn all() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            let mut all = vec![Self::Base];
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                all.push(Self::Avx2);
                if is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512vl") {
                    all.push(Self::Avx512Vnni);
                }
                if is_x86_feature_detected!("avxvnni") {
                    all.push(Self::AvxVnni);
                }
            }
            all
        }
        #[cfg(not(target_arch = "x86_64"))]
        vec![Self::Base]
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Base => std::env::consts::ARCH,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => "AVX-VNNI",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => "AVX-512 VNNI",
        }
    }

    /// The best.
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            static BEST: std::sync::OnceLock<Level> = std::sync::OnceLock::new();
            *BEST.get_or_init(|| Self::all().pop().unwrap_or(Self::Base))
        }
        #[cfg(not(target_arch = "x86_64"))]
        Self::Base
    }
}

/// Rows of activations from which on rows of weights are unpacked: all activations pass in tiles of so many.
const MANY: usize = 4;
/// The products of `n` rows of the matrix from `row0` on with all rows of activations: `out[t][n]`.
pub fn products(level: Level, matrix: Matrix, row0: usize, n: usize, x: &Int8, out: &mut [f32]) {
    of_type!(matrix.weight, Kind => of::<Kind>(level, matrix, row0, n, x, out))
        .unwrap_or_else(|| panic!("weights of type {} do not meet int8", matrix.weight));
}

fn of<W: Quantized>(level: Level, matrix: Matrix, row0: usize, n: usize, x: &Int8, out: &mut [f32]) {
    W::check(matrix.wq, matrix.ws, (row0 + n) * matrix.kb);
    let offset = if W::SIGNED { 128 } else { W::OFFSET };
    let passes = x.rows >= MANY;
    // Sums of each group of numbers that share a scale.
    let whole: Vec<i32>;
    let (groups, each) = if W::HALVES {
        (x.sums.as_flattened(), 2)
    } else {
        whole = x.sums.iter().map(|[first, second]| first + second).collect();
        (&whole[..], 1)
    };
    let offsets: Vec<i32> = if passes { groups.iter().map(|sum| -offset * sum).collect() } else { Vec::new() };
    let of_blocks = x.scales.iter().zip(groups.chunks_exact(each));
    let sums: Vec<f32> = of_blocks.flat_map(|(scale, sums)| sums.iter().map(move |sum| scale * *sum as f32)).collect();
    let given = Given { x, offsets: &offsets, sums: &sums };
    let shared = Shared::new(out);
    parallel(n, 16, n * x.rows * matrix.kb * BLOCK, &|part| {
        let part = Part { matrix, row0, rows: part, n, out: &shared };
        match level {
            Level::Base if passes => panels::<W, Base>(&part, &given),
            Level::Base => rows::<W, Base>(&part, &given),
            // SAFETY: the processor has what the level says.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { x86::avx2::<W>(&part, &given, passes) },
            #[cfg(target_arch = "x86_64")]
            Level::AvxVnni => unsafe { x86::avx_vnni::<W>(&part, &given, passes) },
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Vnni => unsafe { x86::avx512_vnni::<W>(&part, &given, passes) },
        }
    });
}

/// The loops, compiled for processors that have more than all have.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Given, Part, panels, rows};
    use crate::simd::avx::{Avx2, Avx512Vnni, AvxVnni};
    use crate::weights::Quantized;

    macro_rules! compiled {
        ($name:ident, $unit:ty, $features:literal) => {
            #[target_feature(enable = $features)]
            pub fn $name<W: Quantized>(part: &Part, given: &Given, passes: bool) {
                if passes { panels::<W, $unit>(part, given) } else { rows::<W, $unit>(part, given) }
            }
        };
    }
    compiled!(avx2, Avx2, "avx2,fma");
    compiled!(avx_vnni, AvxVnni, "avx2,fma,avxvnni");
    compiled!(avx512_vnni, Avx512Vnni, "avx2,fma,avx512vnni,avx512vl");
}

/// Activations, and what follows from them and a type of weights: for each group of numbers with a scale of its own.
struct Given<'a> {
    x: &'a Int8,
    /// The sum of the ints times the number that stands for zero, negative.
    offsets: &'a [i32],
    /// The sum of the ints times their scale.
    sums: &'a [f32],
}

/// Some of the rows of `n`.
struct Part<'a> {
    matrix: Matrix<'a>,
    row0: usize,
    rows: Range<usize>,
    n: usize,
    out: &'a Shared,
}

/// A row of weights at a time, as it lies in memory, with each row of activations.
#[inline(always)]
fn rows<W: Quantized, U: Unit>(part: &Part, given: &Given) {
    let kb = part.matrix.kb;
    let mut scales = Scales::of(kb);
    let mut factors = Scales::of(kb);
    for n in part.rows.clone() {
        W::row(part.matrix.ws, (part.row0 + n) * kb, &mut scales);
        for t in 0..given.x.rows {
            part.out.part(t * part.n + n..t * part.n + n + 1)[0] =
                row::<W, U>(part, given, n, t, &scales, &mut factors);
        }
    }
}

/// Blocks that are multiplied at a time.
const BLOCKS: usize = 4;

/// Row `n` of the weights with row `t` of the activations. `factors`: room for what blocks are multiplied with.
#[inline(always)]
fn row<W: Quantized, U: Unit>(
    part: &Part,
    given: &Given,
    n: usize,
    t: usize,
    scales: &Scales,
    factors: &mut Scales,
) -> f32 {
    let Matrix { wq, ws, kb, .. } = part.matrix;
    let (ints, of) = (&given.x.ints.as_chunks::<8>().0[t * kb..][..kb], &given.x.scales[t * kb..][..kb]);
    let product = |to: &mut [f32], scales: &[f32]| {
        to.iter_mut().zip(scales).zip(of).for_each(|((to, scale), of)| *to = scale * of);
    };
    product(&mut factors.scale, &scales.scale);
    if W::HALVES {
        product(&mut factors.second, &scales.second);
    }
    let (first, second) = (&factors.scale[..kb], &factors.second[..kb]);
    let start = (part.row0 + n) * kb;
    let mut made = [U::splat(0.0); BLOCKS];
    let mut b = 0;
    while b + BLOCKS <= kb {
        for i in 0..BLOCKS {
            made[i] = block::<W, U>(made[i], wq, ws, start + b + i, &ints[b + i], [first[b + i], second[b + i]]);
        }
        b += BLOCKS;
    }
    while b < kb {
        made[0] = block::<W, U>(made[0], wq, ws, start + b, &ints[b], [first[b], second[b]]);
        b += 1;
    }
    let [a, b, c, d] = made;
    let each = if W::HALVES { 2 } else { 1 };
    let sums = &given.sums[t * kb * each..][..kb * each];
    U::total(U::plus(U::plus(a, b), U::plus(c, d))) - taken_off::<W>(scales, sums)
}

/// sums + factors * (x . block `b`)
#[inline(always)]
fn block<W: Quantized, U: Unit>(
    sums: U::Floats,
    wq: &[u32],
    ws: &[u32],
    b: usize,
    ints: &[u32; 8],
    factors: [f32; 2],
) -> U::Floats {
    let halves = ints.as_chunks::<4>().0;
    let x = U::block([Bytes::load(&halves[0]), Bytes::load(&halves[1])]);
    // SAFETY: checked by `of`.
    let w = U::block(unsafe { W::numbers(wq, ws, b) });
    match (W::HALVES, W::SIGNED) {
        (true, _) => U::step_halves(sums, x, w, factors),
        (_, true) => U::step_signed(sums, x, w, factors[0]),
        _ => U::step(sums, x, w, factors[0]),
    }
}

/// What the offset and the minimums of a row of weights take off.
#[inline(always)]
fn taken_off<W: Quantized>(scales: &Scales, sums: &[f32]) -> f32 {
    let mut off = 0.0;
    let whole = |of: &[f32], second: &[f32]| {
        if !W::HALVES {
            return dot(of, sums);
        }
        let pairs = of.iter().zip(second).zip(sums.as_chunks::<2>().0);
        pairs.map(|((first, second), sums)| first * sums[0] + second * sums[1]).sum()
    };
    if W::OFFSET != 0 {
        off += W::OFFSET as f32 * whole(&scales.scale, &scales.second);
    }
    if W::LEAST {
        off += whole(&scales.least, &scales.second_least);
    }
    off
}

/// Rows of weights, unpacked: a lane each.
struct Panel<U: Unit> {
    /// Eight a block: the numbers as unsigned bytes.
    words: Vec<U::Words>,
    /// Scales and minimums of each group of numbers.
    scales: Vec<U::Row>,
    least: Vec<U::Row>,
}

#[inline(always)]
fn panels<W: Quantized, U: Unit>(part: &Part, given: &Given) {
    let kb = part.matrix.kb;
    let groups = kb * if W::HALVES { 2 } else { 1 };
    let mut panel = Panel::<U> {
        words: vec![bytemuck::Zeroable::zeroed(); kb * 8],
        scales: vec![bytemuck::Zeroable::zeroed(); groups],
        least: vec![bytemuck::Zeroable::zeroed(); if W::LEAST { groups } else { 0 }],
    };
    let mut scales = Scales::of(kb);
    for n in part.rows.clone().step_by(U::LANES) {
        let count = U::LANES.min(part.rows.end - n);
        for lane in 0..count {
            unpack::<W, U>(part, n + lane, lane, &mut scales, &mut panel);
        }
        let mut t = 0;
        while t < given.x.rows {
            // The last tile has rows of the one before where it would not be full.
            t = t.min(given.x.rows - MANY);
            if W::HALVES {
                tile::<W, U, 4>(part, given, &panel, n..n + count, t);
            } else {
                tile::<W, U, 8>(part, given, &panel, n..n + count, t);
            }
            t += MANY;
        }
    }
}

/// A row of weights into its lane.
#[inline(always)]
fn unpack<W: Quantized, U: Unit>(part: &Part, n: usize, lane: usize, scales: &mut Scales, panel: &mut Panel<U>) {
    let Matrix { wq, ws, kb, .. } = part.matrix;
    let first = (part.row0 + n) * kb;
    W::row(ws, first, scales);
    let words: &mut [u32] = bytemuck::cast_slice_mut(&mut panel.words);
    for (b, to) in words.chunks_exact_mut(8 * U::LANES).enumerate() {
        let mut numbers = [[0; 4]; 2];
        // SAFETY: checked by `of`.
        for (to, numbers) in numbers.iter_mut().zip(unsafe { W::numbers(wq, ws, first + b) }) {
            *to = numbers.words();
        }
        for (q, word) in numbers.as_flattened().iter().enumerate() {
            to[q * U::LANES + lane] = if W::SIGNED { word ^ 0x8080_8080 } else { *word };
        }
    }
    let copy = |to: &mut [U::Row], first: &[f32], second: &[f32]| {
        let to: &mut [f32] = bytemuck::cast_slice_mut(to);
        let lanes = to[lane..].iter_mut().step_by(U::LANES);
        if W::HALVES {
            lanes.zip(first.iter().zip(second).flat_map(|(a, b)| [*a, *b])).for_each(|(to, v)| *to = v);
        } else {
            lanes.zip(first).for_each(|(to, v)| *to = *v);
        }
    };
    copy(&mut panel.scales, &scales.scale, &scales.second);
    if W::LEAST {
        copy(&mut panel.least, &scales.least, &scales.second_least);
    }
}

/// A panel with [`MANY`] rows of activations from `t0` on; Q words of four numbers have one scale.
#[inline(always)]
fn tile<W: Quantized, U: Unit, const Q: usize>(
    part: &Part,
    given: &Given,
    panel: &Panel<U>,
    rows: Range<usize>,
    t0: usize,
) {
    let split = W::SIGNED && !U::WHOLE;
    let groups = panel.scales.len();
    let words = &panel.words.as_chunks::<Q>().0[..groups];
    let mut ints: [&[[u32; Q]]; MANY] = [&[]; MANY];
    let mut offsets: [&[i32]; MANY] = [&[]; MANY];
    let mut sums: [&[f32]; MANY] = [&[]; MANY];
    let mut scales: [&[f32]; MANY] = [&[]; MANY];
    for t in 0..MANY {
        ints[t] = &given.x.ints.as_chunks::<Q>().0[(t0 + t) * groups..][..groups];
        offsets[t] = &given.offsets[(t0 + t) * groups..][..groups];
        sums[t] = &given.sums[(t0 + t) * groups..][..groups];
        scales[t] = &given.x.scales[(t0 + t) * part.matrix.kb..][..part.matrix.kb];
    }
    let mut made = [U::splat(0.0); MANY];
    for g in 0..groups {
        let mut low = [U::ints(0); MANY];
        let mut high = [U::ints(0); MANY];
        for t in 0..MANY {
            low[t] = U::ints(offsets[t][g]);
        }
        for q in 0..Q {
            let w = U::words(&words[g][q]);
            if split {
                let [half, odd] = U::split(w);
                for t in 0..MANY {
                    let x = U::ints(ints[t][g][q] as i32);
                    high[t] = U::dot(high[t], x, half);
                    low[t] = U::dot(low[t], x, odd);
                }
            } else {
                for t in 0..MANY {
                    low[t] = U::dot(low[t], U::ints(ints[t][g][q] as i32), w);
                }
            }
        }
        let scale = U::row(&panel.scales[g]);
        for t in 0..MANY {
            let ints = if split { U::joined(high[t], low[t]) } else { low[t] };
            let of = if W::HALVES { scales[t][g / 2] } else { scales[t][g] };
            made[t] = U::add(made[t], U::floats(ints), U::mul(scale, U::splat(of)));
            if W::LEAST {
                made[t] = U::add(made[t], U::row(&panel.least[g]), U::splat(-sums[t][g]));
            }
        }
    }
    for (t, made) in made.into_iter().enumerate() {
        let mut row: U::Row = bytemuck::Zeroable::zeroed();
        U::write(made, &mut row);
        let at = (t0 + t) * part.n + rows.start;
        let lanes: &[f32] = bytemuck::cast_slice(std::slice::from_ref(&row));
        part.out.part(at..at + rows.len()).copy_from_slice(&lanes[..rows.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_core::blocks::decode::decode_block;

    /// Words by a generator of chance.
    fn words(n: usize, seed: u32) -> Vec<u32> {
        let mut state = seed;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        };
        (0..n).map(|_| next()).collect()
    }

    const TYPES: &[&str] = &[
        "q8_0", "q4_0", "mxfp4", "q5_0", "q4_k", "q5_k", "q6_k", "q1_0", "q2_0", "q4_1", "q5_1", "q2_k", "q3_k",
        "iq4_nl", "iq4_xs",
    ];

    #[test]
    fn products_are_the_sums_of_decoded_weights_with_each_processors_instructions() {
        for weight in TYPES {
            for (kb, n, rows) in [(8, 21, 1), (8, 40, 3), (16, 37, 4), (24, 21, 5), (8, 16, 11)] {
                let (wq, mut ws) = (words((n + 3) * kb * 8, 1), words((n + 3) * kb * 4, 2));
                // No scale is infinite, or more than 2.
                ws.iter_mut().for_each(|word| *word &= 0xbbff_bbff);
                if *weight == "mxfp4" {
                    ws.iter_mut().for_each(|word| *word = *word & 0x0303_0303 | 0x7c7c_7c7c);
                }
                let mut x = Int8::default();
                for t in 0..rows {
                    let ints: Vec<u32> = words(kb * 8, 3 + t as u32);
                    let bytes: Vec<i8> =
                        bytemuck::cast_slice(&ints).iter().map(|byte: &i8| (*byte).max(-127)).collect();
                    let scales = (0..kb).map(|b| 0.01 + b as f32 / 100.0);
                    x.push(bytemuck::cast_slice(&bytes).to_vec().as_slice(), scales);
                }
                let matrix = Matrix { weight, wq: &wq, ws: &ws, kb };
                for level in Level::all() {
                    let mut made = vec![f32::NAN; n * rows];
                    products(level, matrix, 3, n, &x, &mut made);
                    for t in 0..rows {
                        for i in 0..n {
                            let (mut want, mut size) = (0.0f64, 0.0f64);
                            for b in 0..kb {
                                let w = decode_block(weight, &wq, &ws, (i + 3) * kb + b);
                                let ints: &[i8] = bytemuck::cast_slice(&x.ints[(t * kb + b) * 8..][..8]);
                                for (w, x8) in w.iter().zip(ints) {
                                    let product = f64::from(*w) * f64::from(*x8) * f64::from(x.scales[t * kb + b]);
                                    want += product;
                                    size += product.abs();
                                }
                            }
                            let got = f64::from(made[t * n + i]);
                            // Offsets and minimums are summed apart, so that sums are larger than products.
                            let near = (got - want).abs() <= 1e-5 * size.max(1e-6);
                            assert!(near, "{weight} {level:?} {kb} {n} {rows}: row {t}, {i}: {got}, not {want}");
                        }
                    }
                }
            }
        }
    }
}
