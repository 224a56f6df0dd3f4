//! By WebAssembly's SIMD, relaxed where the module is built so.

use core::arch::wasm32::*;

/// Sixteen bytes.
#[derive(Clone, Copy)]
pub struct Bytes(v128);
/// Four integers.
#[derive(Clone, Copy)]
pub struct Ints(v128);
/// Four floats.
#[derive(Clone, Copy)]
pub struct Floats(v128);

impl Bytes {
    #[inline(always)]
    pub fn load(words: &[u32; 4]) -> Self {
        // SAFETY: sixteen bytes are there, and loads need no alignment.
        Self(unsafe { v128_load(words.as_ptr().cast()) })
    }
    #[inline(always)]
    pub fn of([a, b, c, d]: [u32; 4]) -> Self {
        Self(u32x4(a, b, c, d))
    }
    #[inline(always)]
    pub fn and(self, byte: u8) -> Self {
        Self(v128_and(self.0, u8x16_splat(byte)))
    }
    #[inline(always)]
    pub fn or(self, other: Self) -> Self {
        Self(v128_or(self.0, other.0))
    }
    /// The high nibbles.
    #[inline(always)]
    pub fn high(self) -> Self {
        Self(u8x16_shr(self.0, 4))
    }
    /// For each byte, which is below 16, that byte of a table.
    #[inline(always)]
    pub fn of_table(self, table: [u32; 4]) -> Self {
        Self(u8x16_swizzle(Self::of(table).0, self.0))
    }
    /// 16 where a byte has a bit of its mask, else 0.
    #[inline(always)]
    pub fn sixteen_where(self, masks: [u32; 4]) -> Self {
        let [a, b, c, d] = masks;
        let zero = i8x16_eq(v128_and(self.0, u32x4(a, b, c, d)), u8x16_splat(0));
        Self(v128_andnot(u8x16_splat(16), zero))
    }
}

impl Ints {
    #[inline(always)]
    pub fn zero() -> Self {
        Self(i32x4_splat(0))
    }
    /// Adds products of signed bytes with bytes below 128.
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    pub fn add_products(self, signed: Bytes, small: Bytes) -> Self {
        Self(i32x4_relaxed_dot_i8x16_i7x16_add(signed.0, small.0, self.0))
    }
    #[cfg(not(target_feature = "relaxed-simd"))]
    #[inline(always)]
    pub fn add_products(self, signed: Bytes, small: Bytes) -> Self {
        self.add_signed(signed, small)
    }
    /// Adds products of signed bytes.
    #[inline(always)]
    pub fn add_signed(self, a: Bytes, b: Bytes) -> Self {
        let low = i32x4_dot_i16x8(i16x8_extend_low_i8x16(a.0), i16x8_extend_low_i8x16(b.0));
        let high = i32x4_dot_i16x8(i16x8_extend_high_i8x16(a.0), i16x8_extend_high_i8x16(b.0));
        Self(i32x4_add(self.0, i32x4_add(low, high)))
    }
    #[inline(always)]
    pub fn floats(self) -> Floats {
        Floats(f32x4_convert_i32x4(self.0))
    }
    #[inline(always)]
    pub fn sum(self) -> i32 {
        let v = i32x4_add(self.0, i32x4_shuffle::<2, 3, 0, 1>(self.0, self.0));
        i32x4_extract_lane::<0>(v) + i32x4_extract_lane::<1>(v)
    }
}

impl Floats {
    #[inline(always)]
    pub fn load(four: &[f32; 4]) -> Self {
        // SAFETY: sixteen bytes are there, and loads need no alignment.
        Self(unsafe { v128_load(four.as_ptr().cast()) })
    }
    #[inline(always)]
    pub fn splat(x: f32) -> Self {
        Self(f32x4_splat(x))
    }
    #[inline(always)]
    pub fn add(self, other: Self) -> Self {
        Self(f32x4_add(self.0, other.0))
    }
    #[inline(always)]
    pub fn mul(self, other: Self) -> Self {
        Self(f32x4_mul(self.0, other.0))
    }
    #[inline(always)]
    pub fn sum(self) -> f32 {
        let v = f32x4_add(self.0, i32x4_shuffle::<2, 3, 0, 1>(self.0, self.0));
        f32x4_extract_lane::<0>(v) + f32x4_extract_lane::<1>(v)
    }
}
