//! Sixteen bytes, four integers and four floats at a time, in the few ways that products need; and more at a time where
//! the processor can (`unit`).

#[cfg(target_arch = "x86_64")]
pub mod avx;
pub mod unit;
#[cfg(target_arch = "wasm32")]
mod wasm;
#[cfg(target_arch = "wasm32")]
pub use wasm::{Bytes, Floats, Ints};
#[cfg(target_arch = "x86_64")]
mod x86;
#[cfg(target_arch = "x86_64")]
pub use x86::{Bytes, Floats, Ints};
#[cfg(not(any(target_arch = "wasm32", target_arch = "x86_64")))]
mod plain;
#[cfg(not(any(target_arch = "wasm32", target_arch = "x86_64")))]
pub use plain::{Bytes, Floats, Ints};

/// The sum of products of two rows of the same length.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a, a_rest) = a.as_chunks::<4>();
    let (b, b_rest) = b.as_chunks::<4>();
    let mut sums = [Floats::splat(0.0); 4];
    let (a, a_few) = a.as_chunks::<4>();
    let (b, b_few) = b.as_chunks::<4>();
    for (a, b) in a.iter().zip(b) {
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = sum.add(Floats::load(&a[i]).mul(Floats::load(&b[i])));
        }
    }
    for (a, b) in a_few.iter().zip(b_few) {
        sums[0] = sums[0].add(Floats::load(a).mul(Floats::load(b)));
    }
    let [a, b, c, d] = sums;
    a.add(b).add(c.add(d)).sum() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
}

/// sums += factor * row
pub fn add_scaled(sums: &mut [f32], row: &[f32], factor: f32) {
    sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += factor * x);
}

/// 1.5 * 2^23: added to a number below 2^22 it leaves no bits for a fraction. Rounding is to the nearest, even where it is
/// half-way, as an instruction that not all processors have does it.
pub const WHOLES: f32 = 12_582_912.0;

/// e to the power of x, to a few units in the last place, of x between -87 and 88; beyond as at these.
pub fn exp(x: f32) -> f32 {
    // 2^n * e^r with |r| at most ln 2 / 2, and a polynomial of e^r.
    let x = x.clamp(-87.0, 88.0);
    let n = (x * std::f32::consts::LOG2_E + WHOLES) - WHOLES;
    let r = (x - n * 0.693_359_4) - n * -2.121_944_4e-4;
    let p =
        ((((1.987_569_1e-4 * r + 1.398_2e-3) * r + 8.333_452e-3) * r + 4.166_579_6e-2) * r + 0.166_666_66) * r + 0.5;
    let e = p * r * r + r + 1.0;
    e * f32::from_bits(((n as i32 + 127) << 23) as u32)
}

/// An f16 as f32. Infinities and NaN, which no weight and no cache has, become large numbers.
#[inline(always)]
pub fn half(bits: u32) -> f32 {
    // The exponent's bias differs by 112; so scaled, subnormals are right as well.
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((127 + 112) << 23);
    f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
}

/// Words of two halves each as floats.
pub fn halves(words: &[u32], out: &mut [f32]) {
    for (pair, word) in out.as_chunks_mut::<2>().0.iter_mut().zip(words) {
        *pair = [half(word & 0xffff), half(word >> 16)];
    }
}
