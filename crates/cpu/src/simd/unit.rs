//! What multiplies int8 activations with numbers of weights: the instructions of one generation of processors.

use bytemuck::Pod;

use super::{Bytes, Floats, Ints};

/// Instructions for products of int8. Two ways: a block of 32 numbers with 32 activations at a time, whose partial sums
/// lie in lanes; and a lane for each row of weights, four numbers of each at a time.
///
/// # Safety
/// Methods are only called where the processor has the instructions.
pub unsafe trait Unit {
    /// Rows of a panel: a lane each.
    const LANES: usize;
    /// Whether `dot` takes unsigned bytes up to 255; else up to 127.
    const WHOLE: bool;
    /// An array of `LANES` words.
    type Words: Pod;
    /// An array of `LANES` floats.
    type Row: Pod;
    type Ints: Copy;
    type Floats: Copy;
    /// 32 bytes.
    type Block: Copy;

    fn block(bytes: [Bytes; 2]) -> Self::Block;
    /// sums + factor * (x . w). Numbers `w` are below 128.
    fn step(sums: Self::Floats, x: Self::Block, w: Self::Block, factor: f32) -> Self::Floats;
    /// [`Unit::step`] with signed numbers.
    fn step_signed(sums: Self::Floats, x: Self::Block, w: Self::Block, factor: f32) -> Self::Floats;
    /// [`Unit::step`] with a factor for each half of the block.
    fn step_halves(sums: Self::Floats, x: Self::Block, w: Self::Block, factors: [f32; 2]) -> Self::Floats;
    fn total(sums: Self::Floats) -> f32;

    fn ints(x: i32) -> Self::Ints;
    fn words(words: &Self::Words) -> Self::Ints;
    /// Adds to each lane the product of four signed bytes `x` with four unsigned ones `w`.
    fn dot(sums: Self::Ints, x: Self::Ints, w: Self::Ints) -> Self::Ints;
    /// Bytes as twice a number below 128, and 0 or 1.
    fn split(w: Self::Ints) -> [Self::Ints; 2];
    /// 2a + b
    fn joined(a: Self::Ints, b: Self::Ints) -> Self::Ints;
    fn splat(x: f32) -> Self::Floats;
    fn row(row: &Self::Row) -> Self::Floats;
    fn floats(ints: Self::Ints) -> Self::Floats;
    fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    fn plus(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// sums + a * b
    fn add(sums: Self::Floats, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    fn write(floats: Self::Floats, to: &mut Self::Row);
}

/// Sixteen bytes at a time: what all processors of the architecture have.
pub struct Base;

// SAFETY: each processor of the architecture has them.
unsafe impl Unit for Base {
    const LANES: usize = 4;
    const WHOLE: bool = false;
    type Words = [u32; 4];
    type Row = [f32; 4];
    type Ints = Ints;
    type Floats = Floats;
    type Block = [Bytes; 2];

    #[inline(always)]
    fn block(bytes: [Bytes; 2]) -> [Bytes; 2] {
        bytes
    }
    #[inline(always)]
    fn step(sums: Floats, x: [Bytes; 2], w: [Bytes; 2], factor: f32) -> Floats {
        let ints = Ints::zero().add_products(x[0], w[0]).add_products(x[1], w[1]);
        Self::add(sums, ints.floats(), Floats::splat(factor))
    }
    #[inline(always)]
    fn step_signed(sums: Floats, x: [Bytes; 2], w: [Bytes; 2], factor: f32) -> Floats {
        let ints = Ints::zero().add_signed(x[0], w[0]).add_signed(x[1], w[1]);
        Self::add(sums, ints.floats(), Floats::splat(factor))
    }
    #[inline(always)]
    fn step_halves(sums: Floats, x: [Bytes; 2], w: [Bytes; 2], factors: [f32; 2]) -> Floats {
        let [first, second] = [0, 1].map(|i| Ints::zero().add_products(x[i], w[i]).floats());
        let sums = Self::add(sums, first, Floats::splat(factors[0]));
        Self::add(sums, second, Floats::splat(factors[1]))
    }
    #[inline(always)]
    fn total(sums: Floats) -> f32 {
        sums.sum()
    }

    #[inline(always)]
    fn ints(x: i32) -> Ints {
        Ints::splat(x)
    }
    #[inline(always)]
    fn words(words: &[u32; 4]) -> Ints {
        Ints::load(words)
    }
    #[inline(always)]
    fn dot(sums: Ints, x: Ints, w: Ints) -> Ints {
        sums.add_fours(x, w)
    }
    #[inline(always)]
    fn split(w: Ints) -> [Ints; 2] {
        w.split()
    }
    #[inline(always)]
    fn joined(a: Ints, b: Ints) -> Ints {
        a.add(a).add(b)
    }
    #[inline(always)]
    fn splat(x: f32) -> Floats {
        Floats::splat(x)
    }
    #[inline(always)]
    fn row(row: &[f32; 4]) -> Floats {
        Floats::load(row)
    }
    #[inline(always)]
    fn floats(ints: Ints) -> Floats {
        ints.floats()
    }
    #[inline(always)]
    fn mul(a: Floats, b: Floats) -> Floats {
        a.mul(b)
    }
    #[inline(always)]
    fn plus(a: Floats, b: Floats) -> Floats {
        a.add(b)
    }
    #[inline(always)]
    fn add(sums: Floats, a: Floats, b: Floats) -> Floats {
        sums.add(a.mul(b))
    }
    #[inline(always)]
    fn write(floats: Floats, to: &mut [f32; 4]) {
        floats.store(to);
    }
}
