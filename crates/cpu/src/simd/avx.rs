//! 32 bytes at a time: AVX2, and with it one of the two encodings of the instruction that multiplies bytes and adds.

use core::arch::x86_64::*;

use super::Bytes;
use super::unit::Unit;

/// AVX2 and FMA.
pub struct Avx2;
/// And AVX-VNNI.
pub struct AvxVnni;
/// And AVX-512 VNNI, with registers of 256 bits.
pub struct Avx512Vnni;

/// The instruction set of `$unit`: `$dot` multiplies unsigned bytes with signed ones, by fours.
macro_rules! unit {
    ($unit:ident, whole: $whole:expr, dot: |$sums:ident, $w:ident, $x:ident| $dot:expr) => {
        // SAFETY, of every call here: see `Unit`.
        unsafe impl Unit for $unit {
            const LANES: usize = 8;
            const WHOLE: bool = $whole;
            type Words = [u32; 8];
            type Row = [f32; 8];
            type Ints = __m256i;
            type Floats = __m256;
            type Block = __m256i;

            #[inline(always)]
            fn block([low, high]: [Bytes; 2]) -> __m256i {
                unsafe { _mm256_set_m128i(high.0, low.0) }
            }
            #[inline(always)]
            fn step(sums: __m256, x: __m256i, w: __m256i, factor: f32) -> __m256 {
                Self::add(sums, Self::floats(Self::dot(Self::ints(0), x, w)), Self::splat(factor))
            }
            #[inline(always)]
            fn step_signed(sums: __m256, x: __m256i, w: __m256i, factor: f32) -> __m256 {
                // No activation is -128, and 128 * 127 * 2 is within 16 bits.
                let (w, x) = unsafe { (_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)) };
                Self::step(sums, x, w, factor)
            }
            #[inline(always)]
            fn step_halves(sums: __m256, x: __m256i, w: __m256i, [first, second]: [f32; 2]) -> __m256 {
                let factors = unsafe { _mm256_set_m128(_mm_set1_ps(second), _mm_set1_ps(first)) };
                Self::add(sums, Self::floats(Self::dot(Self::ints(0), x, w)), factors)
            }
            #[inline(always)]
            fn total(sums: __m256) -> f32 {
                let mut eight = [0.0; 8];
                Self::write(sums, &mut eight);
                let [a, b, c, d, e, f, g, h] = eight;
                ((a + e) + (c + g)) + ((b + f) + (d + h))
            }

            #[inline(always)]
            fn ints(x: i32) -> __m256i {
                unsafe { _mm256_set1_epi32(x) }
            }
            #[inline(always)]
            fn words(words: &[u32; 8]) -> __m256i {
                unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
            }
            #[inline(always)]
            fn dot($sums: __m256i, $x: __m256i, $w: __m256i) -> __m256i {
                unsafe { $dot }
            }
            #[inline(always)]
            fn split(w: __m256i) -> [__m256i; 2] {
                unsafe {
                    [
                        _mm256_and_si256(_mm256_srli_epi16::<1>(w), _mm256_set1_epi8(127)),
                        _mm256_and_si256(w, _mm256_set1_epi8(1)),
                    ]
                }
            }
            #[inline(always)]
            fn joined(a: __m256i, b: __m256i) -> __m256i {
                unsafe { _mm256_add_epi32(_mm256_add_epi32(a, a), b) }
            }
            #[inline(always)]
            fn splat(x: f32) -> __m256 {
                unsafe { _mm256_set1_ps(x) }
            }
            #[inline(always)]
            fn row(row: &[f32; 8]) -> __m256 {
                unsafe { _mm256_loadu_ps(row.as_ptr()) }
            }
            #[inline(always)]
            fn floats(ints: __m256i) -> __m256 {
                unsafe { _mm256_cvtepi32_ps(ints) }
            }
            #[inline(always)]
            fn mul(a: __m256, b: __m256) -> __m256 {
                unsafe { _mm256_mul_ps(a, b) }
            }
            #[inline(always)]
            fn plus(a: __m256, b: __m256) -> __m256 {
                unsafe { _mm256_add_ps(a, b) }
            }
            #[inline(always)]
            fn add(sums: __m256, a: __m256, b: __m256) -> __m256 {
                unsafe { _mm256_fmadd_ps(a, b, sums) }
            }
            #[inline(always)]
            fn write(floats: __m256, to: &mut [f32; 8]) {
                unsafe { _mm256_storeu_ps(to.as_mut_ptr(), floats) }
            }
        }
    };
}

unit!(Avx2, whole: false, dot: |sums, w, x| {
    _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), _mm256_set1_epi16(1)))
});
unit!(AvxVnni, whole: true, dot: |sums, w, x| _mm256_dpbusd_avx_epi32(sums, w, x));
unit!(Avx512Vnni, whole: true, dot: |sums, w, x| _mm256_dpbusd_epi32(sums, w, x));
