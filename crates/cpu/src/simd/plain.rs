//! In loops that compilers vectorize.

/// Sixteen bytes.
#[derive(Clone, Copy)]
pub struct Bytes([u8; 16]);
/// Four integers.
#[derive(Clone, Copy)]
pub struct Ints([i32; 4]);
/// Four floats.
#[derive(Clone, Copy)]
pub struct Floats([f32; 4]);

impl Bytes {
    #[inline(always)]
    pub fn load(words: &[u32; 4]) -> Self {
        Self::of(*words)
    }
    #[inline(always)]
    pub fn of(words: [u32; 4]) -> Self {
        Self(std::array::from_fn(|i| words[i / 4].to_le_bytes()[i % 4]))
    }
    /// The word in each lane: of each of its halves what the lane's mask leaves, times the lane's factor. A factor of 1
    /// has a second bit that moves all that its mask leaves out of the half: multiplication by powers of two in all
    /// lanes would be compiled to shifts, one lane at a time where a processor cannot shift each by its own count.
    #[inline(always)]
    pub fn spread(word: u32, lanes: [[u16; 2]; 4]) -> Self {
        Self::of(lanes.map(|[mask, factor]| {
            let half = |half: u32| u32::from((half as u16 & mask).wrapping_mul(factor));
            half(word) | half(word >> 16) << 16
        }))
    }
    /// Halves of lanes, shifted to the right.
    #[inline(always)]
    pub fn down<const N: u32>(self) -> Self {
        Self(std::array::from_fn(|i| {
            let half = u16::from_le_bytes([self.0[i & !1], self.0[i | 1]]) >> N;
            half.to_le_bytes()[i % 2]
        }))
    }
    #[inline(always)]
    pub fn words(self) -> [u32; 4] {
        std::array::from_fn(|i| u32::from_le_bytes(std::array::from_fn(|j| self.0[4 * i + j])))
    }
    #[inline(always)]
    pub fn and(self, byte: u8) -> Self {
        Self(self.0.map(|b| b & byte))
    }
    #[inline(always)]
    pub fn or(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }
    /// The high nibbles.
    #[inline(always)]
    pub fn high(self) -> Self {
        Self(self.0.map(|b| b >> 4))
    }
    /// For each byte, which is below 16, that byte of a table.
    #[inline(always)]
    pub fn of_table(self, table: [u32; 4]) -> Self {
        let table = Self::of(table).0;
        Self(self.0.map(|byte| table[usize::from(byte & 15)]))
    }
    /// 16 where a byte has a bit of its mask, else 0.
    #[inline(always)]
    pub fn sixteen_where(self, masks: [u32; 4]) -> Self {
        let masks = Self::of(masks).0;
        Self(std::array::from_fn(|i| if self.0[i] & masks[i] == 0 { 0 } else { 16 }))
    }
}

impl Ints {
    #[inline(always)]
    pub fn zero() -> Self {
        Self([0; 4])
    }
    /// Adds products of signed bytes with bytes below 128.
    #[inline(always)]
    pub fn add_products(self, signed: Bytes, small: Bytes) -> Self {
        self.add_signed(signed, small)
    }
    /// Adds products of signed bytes.
    #[inline(always)]
    pub fn add_signed(self, a: Bytes, b: Bytes) -> Self {
        let product = |i: usize| i32::from(a.0[i] as i8) * i32::from(b.0[i] as i8);
        Self(std::array::from_fn(|i| {
            self.0[i] + product(4 * i) + product(4 * i + 1) + product(4 * i + 2) + product(4 * i + 3)
        }))
    }
    #[inline(always)]
    pub fn splat(x: i32) -> Self {
        Self([x; 4])
    }
    #[inline(always)]
    pub fn load(words: &[u32; 4]) -> Self {
        Self(words.map(|word| word as i32))
    }
    #[inline(always)]
    pub fn add(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }
    /// Adds to each lane the products of its four signed bytes with four below 128.
    #[inline(always)]
    pub fn add_fours(self, signed: Self, small: Self) -> Self {
        let bytes = |ints: Self| Bytes::of(ints.0.map(|int| int as u32));
        self.add_products(bytes(signed), bytes(small))
    }
    /// Unsigned bytes as twice a number below 128, and 0 or 1.
    #[inline(always)]
    pub fn split(self) -> [Self; 2] {
        [Self(self.0.map(|int| int >> 1 & 0x7f7f_7f7f)), Self(self.0.map(|int| int & 0x0101_0101))]
    }
    #[inline(always)]
    pub fn floats(self) -> Floats {
        Floats(self.0.map(|i| i as f32))
    }
    #[inline(always)]
    pub fn sum(self) -> i32 {
        self.0.iter().sum()
    }
}

impl Floats {
    #[inline(always)]
    pub fn load(four: &[f32; 4]) -> Self {
        Self(*four)
    }
    #[inline(always)]
    pub fn store(self, to: &mut [f32; 4]) {
        *to = self.0;
    }
    #[inline(always)]
    pub fn splat(x: f32) -> Self {
        Self([x; 4])
    }
    #[inline(always)]
    pub fn add(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }
    #[inline(always)]
    pub fn mul(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] * other.0[i]))
    }
    #[inline(always)]
    pub fn sum(self) -> f32 {
        let [a, b, c, d] = self.0;
        (a + c) + (b + d)
    }
}
