//! Elements of the KV cache, stored in f32 or as two halves a word.

use half::f16;

/// The largest half: what is stored beyond it saturates.
const MAX_HALF: f32 = 65504.0;

/// Element `i` of a cache of type `kv`.
pub fn load(kv: &str, cache: &[u32], i: usize) -> f32 {
    match kv {
        "f16" => f16::from_bits((cache[i / 2] >> (16 * (i % 2))) as u16).to_f32(),
        _ => f32::from_bits(cache[i]),
    }
}

/// Sets element `i` of a cache of type `kv`.
pub fn store(kv: &str, cache: &mut [u32], i: usize, value: f32) {
    match kv {
        "f16" => {
            let bits = f16::from_f32(value.clamp(-MAX_HALF, MAX_HALF)).to_bits();
            let shift = 16 * (i % 2);
            cache[i / 2] = cache[i / 2] & !(0xffff << shift) | u32::from(bits) << shift;
        }
        _ => cache[i] = value.to_bits(),
    }
}
