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
    /// The word in each lane: of each of its halves what the lane's mask leaves, times the lane's factor. A factor of 1
    /// has a second bit that moves all that its mask leaves out of the half: multiplication by powers of two in all
    /// lanes would be compiled to shifts, one lane at a time where a processor cannot shift each by its own count.
    #[inline(always)]
    pub fn spread(word: u32, lanes: [[u16; 2]; 4]) -> Self {
        let [[a, e], [b, f], [c, g], [d, h]] = lanes;
        let masked = v128_and(u32x4_splat(word), u16x8(a, a, b, b, c, c, d, d));
        Self(i16x8_mul(masked, u16x8(e, e, f, f, g, g, h, h)))
    }
    /// Halves of lanes, shifted to the right.
    #[inline(always)]
    pub fn down<const N: u32>(self) -> Self {
        Self(u16x8_shr(self.0, N))
    }
    #[inline(always)]
    pub fn words(self) -> [u32; 4] {
        let v = self.0;
        [u32x4_extract_lane::<0>(v), u32x4_extract_lane::<1>(v), u32x4_extract_lane::<2>(v), u32x4_extract_lane::<3>(v)]
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
    pub fn splat(x: i32) -> Self {
        Self(i32x4_splat(x))
    }
    #[inline(always)]
    pub fn load(words: &[u32; 4]) -> Self {
        // SAFETY: sixteen bytes are there, and loads need no alignment.
        Self(unsafe { v128_load(words.as_ptr().cast()) })
    }
    #[inline(always)]
    pub fn add(self, other: Self) -> Self {
        Self(i32x4_add(self.0, other.0))
    }
    /// Adds to each lane the products of its four signed bytes with four below 128.
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    pub fn add_fours(self, signed: Self, small: Self) -> Self {
        Self(i32x4_relaxed_dot_i8x16_i7x16_add(signed.0, small.0, self.0))
    }
    #[cfg(not(target_feature = "relaxed-simd"))]
    #[inline(always)]
    pub fn add_fours(self, signed: Self, small: Self) -> Self {
        // Sums of two products: of bytes 0 and 1 and of 2 and 3 of each lane in turn. They are within 16 bits.
        let low = i16x8_extmul_low_i8x16(signed.0, small.0);
        let high = i16x8_extmul_high_i8x16(signed.0, small.0);
        let even = i16x8_shuffle::<0, 2, 4, 6, 8, 10, 12, 14>(low, high);
        let odd = i16x8_shuffle::<1, 3, 5, 7, 9, 11, 13, 15>(low, high);
        let pairs = i16x8_add(even, odd);
        Self(i32x4_add(self.0, i32x4_extadd_pairwise_i16x8(pairs)))
    }
    /// Unsigned bytes as twice a number below 128, and 0 or 1.
    #[inline(always)]
    pub fn split(self) -> [Self; 2] {
        [Self(u8x16_shr(self.0, 1)), Self(v128_and(self.0, u8x16_splat(1)))]
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
    pub fn store(self, to: &mut [f32; 4]) {
        // SAFETY: there is room for sixteen bytes, and stores need no alignment.
        unsafe { v128_store(to.as_mut_ptr().cast(), self.0) }
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
