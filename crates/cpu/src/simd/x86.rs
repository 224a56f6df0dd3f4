//! By SSE2, which every x86-64 has.

use core::arch::x86_64::*;

/// Sixteen bytes.
#[derive(Clone, Copy)]
pub struct Bytes(pub(super) __m128i);
/// Four integers.
#[derive(Clone, Copy)]
pub struct Ints(__m128i);
/// Four floats.
#[derive(Clone, Copy)]
pub struct Floats(__m128);

// SAFETY, of every call here: SSE2 is part of the architecture, and loads without alignment read the sixteen bytes that
// a reference says are there.

impl Bytes {
    #[inline(always)]
    pub fn load(words: &[u32; 4]) -> Self {
        Self(unsafe { _mm_loadu_si128(words.as_ptr().cast()) })
    }
    #[inline(always)]
    pub fn of([a, b, c, d]: [u32; 4]) -> Self {
        Self(unsafe { _mm_set_epi32(d as i32, c as i32, b as i32, a as i32) })
    }
    /// The word in each lane: of each of its halves what the lane's mask leaves, times the lane's factor. A factor of 1
    /// has a second bit that moves all that its mask leaves out of the half: multiplication by powers of two in all
    /// lanes would be compiled to shifts, one lane at a time where a processor cannot shift each by its own count.
    #[inline(always)]
    pub fn spread(word: u32, lanes: [[u16; 2]; 4]) -> Self {
        let [masks, factors] = [0, 1].map(|i| Self::of(lanes.map(|lane| u32::from(lane[i]) * 0x1_0001)).0);
        Self(unsafe { _mm_mullo_epi16(_mm_and_si128(_mm_set1_epi32(word as i32), masks), factors) })
    }
    /// Halves of lanes, shifted to the right.
    #[inline(always)]
    pub fn down<const N: i32>(self) -> Self {
        Self(unsafe { _mm_srli_epi16::<N>(self.0) })
    }
    #[inline(always)]
    pub fn words(self) -> [u32; 4] {
        // SAFETY: four words are sixteen bytes.
        unsafe { core::mem::transmute(self.0) }
    }
    #[inline(always)]
    pub fn and(self, byte: u8) -> Self {
        Self(unsafe { _mm_and_si128(self.0, _mm_set1_epi8(byte as i8)) })
    }
    #[inline(always)]
    pub fn or(self, other: Self) -> Self {
        Self(unsafe { _mm_or_si128(self.0, other.0) })
    }
    /// The high nibbles.
    #[inline(always)]
    pub fn high(self) -> Self {
        Self(unsafe { _mm_srli_epi16::<4>(self.0) }).and(15)
    }
    /// For each byte, which is below 16, that byte of a table.
    #[inline(always)]
    pub fn of_table(self, table: [u32; 4]) -> Self {
        // SAFETY: all three are sixteen bytes.
        let (bytes, table) = unsafe {
            (core::mem::transmute::<__m128i, [u8; 16]>(self.0), core::mem::transmute::<[u32; 4], [u8; 16]>(table))
        };
        Self(unsafe { core::mem::transmute::<[u8; 16], __m128i>(bytes.map(|byte| table[usize::from(byte & 15)])) })
    }
    /// 16 where a byte has a bit of its mask, else 0.
    #[inline(always)]
    pub fn sixteen_where(self, masks: [u32; 4]) -> Self {
        let zero = unsafe { _mm_cmpeq_epi8(_mm_and_si128(self.0, Self::of(masks).0), _mm_setzero_si128()) };
        Self(unsafe { _mm_andnot_si128(zero, _mm_set1_epi8(16)) })
    }
    /// The low and the high eight as signed 16-bit integers.
    #[inline(always)]
    fn wide(self) -> [__m128i; 2] {
        unsafe {
            let sign = _mm_cmpgt_epi8(_mm_setzero_si128(), self.0);
            [_mm_unpacklo_epi8(self.0, sign), _mm_unpackhi_epi8(self.0, sign)]
        }
    }
}

impl Ints {
    #[inline(always)]
    pub fn zero() -> Self {
        Self(unsafe { _mm_setzero_si128() })
    }
    /// Adds products of signed bytes with bytes below 128.
    #[inline(always)]
    pub fn add_products(self, signed: Bytes, small: Bytes) -> Self {
        let zero = Self::zero().0;
        let [low, high] = signed.wide();
        let low = unsafe { _mm_madd_epi16(low, _mm_unpacklo_epi8(small.0, zero)) };
        let high = unsafe { _mm_madd_epi16(high, _mm_unpackhi_epi8(small.0, zero)) };
        Self(unsafe { _mm_add_epi32(self.0, _mm_add_epi32(low, high)) })
    }
    /// Adds products of signed bytes.
    #[inline(always)]
    pub fn add_signed(self, a: Bytes, b: Bytes) -> Self {
        let ([a, c], [b, d]) = (a.wide(), b.wide());
        Self(unsafe { _mm_add_epi32(self.0, _mm_add_epi32(_mm_madd_epi16(a, b), _mm_madd_epi16(c, d))) })
    }
    #[inline(always)]
    pub fn splat(x: i32) -> Self {
        Self(unsafe { _mm_set1_epi32(x) })
    }
    #[inline(always)]
    pub fn load(words: &[u32; 4]) -> Self {
        Self(unsafe { _mm_loadu_si128(words.as_ptr().cast()) })
    }
    #[inline(always)]
    pub fn add(self, other: Self) -> Self {
        Self(unsafe { _mm_add_epi32(self.0, other.0) })
    }
    /// Adds to each lane the products of its four signed bytes with four below 128.
    #[inline(always)]
    pub fn add_fours(self, signed: Self, small: Self) -> Self {
        let ([a, c], zero) = (Bytes(signed.0).wide(), Self::zero().0);
        unsafe {
            // Sums of bytes 0 and 1 and of 2 and 3 of each lane in turn.
            let low = _mm_castsi128_ps(_mm_madd_epi16(a, _mm_unpacklo_epi8(small.0, zero)));
            let high = _mm_castsi128_ps(_mm_madd_epi16(c, _mm_unpackhi_epi8(small.0, zero)));
            let even = _mm_castps_si128(_mm_shuffle_ps::<0b10_00_10_00>(low, high));
            let odd = _mm_castps_si128(_mm_shuffle_ps::<0b11_01_11_01>(low, high));
            Self(_mm_add_epi32(self.0, _mm_add_epi32(even, odd)))
        }
    }
    /// Unsigned bytes as twice a number below 128, and 0 or 1.
    #[inline(always)]
    pub fn split(self) -> [Self; 2] {
        unsafe {
            let half = _mm_and_si128(_mm_srli_epi16::<1>(self.0), _mm_set1_epi8(127));
            [Self(half), Self(_mm_and_si128(self.0, _mm_set1_epi8(1)))]
        }
    }
    #[inline(always)]
    pub fn floats(self) -> Floats {
        Floats(unsafe { _mm_cvtepi32_ps(self.0) })
    }
    #[inline(always)]
    pub fn sum(self) -> i32 {
        // SAFETY: four integers are sixteen bytes.
        let four: [i32; 4] = unsafe { core::mem::transmute(self.0) };
        four.iter().sum()
    }
}

impl Floats {
    #[inline(always)]
    pub fn load(four: &[f32; 4]) -> Self {
        Self(unsafe { _mm_loadu_ps(four.as_ptr()) })
    }
    #[inline(always)]
    pub fn store(self, to: &mut [f32; 4]) {
        unsafe { _mm_storeu_ps(to.as_mut_ptr(), self.0) }
    }
    #[inline(always)]
    pub fn splat(x: f32) -> Self {
        Self(unsafe { _mm_set1_ps(x) })
    }
    #[inline(always)]
    pub fn add(self, other: Self) -> Self {
        Self(unsafe { _mm_add_ps(self.0, other.0) })
    }
    #[inline(always)]
    pub fn mul(self, other: Self) -> Self {
        Self(unsafe { _mm_mul_ps(self.0, other.0) })
    }
    #[inline(always)]
    pub fn sum(self) -> f32 {
        // SAFETY: four floats are sixteen bytes.
        let [a, b, c, d]: [f32; 4] = unsafe { core::mem::transmute(self.0) };
        (a + c) + (b + d)
    }
}
