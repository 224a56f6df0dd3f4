//! What the sampler's kernels share: the twins of common/ordered.wgsl and common/hash.wgsl.

use super::Call;
use crate::Sampling;
use crate::numbers::{AFTER_END, SLICES};

/// The sampling parameters of a call.
pub fn params(call: &Call) -> Sampling {
    params_of(call, 0)
}

/// The parameters of row `t`: its own where rows are of several sequences, else the first row's.
pub fn params_of(call: &Call, t: usize) -> Sampling {
    let row = if call.state().apart == 0 { 0 } else { t };
    Sampling::of_row(&call.read("params"), row)
        .unwrap_or_else(|| panic!("{}: params are {} bytes", call.variant, Sampling::ROOM))
}

/// The token that row `t` chooses among its candidates: the largest key; of equals the lowest id. `None`: there is none.
pub fn chosen(cand: &[[u32; 2]], t: usize) -> Option<u32> {
    let slices = SLICES as usize;
    let best = cand[t * slices..][..slices].iter().max_by_key(|c| (c[0], std::cmp::Reverse(c[1])));
    best.map(|best| best[1]).filter(|id| *id != AFTER_END)
}

/// A key that compares as the number does; 0 for NaN, below every number. -0 and +0 have the same.
pub fn ordered(x: f32) -> u32 {
    if x.is_nan() {
        return 0;
    }
    let bits = (if x == 0.0 { 0.0 } else { x }).to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

/// The number of a key that is not 0.
pub fn unordered(key: u32) -> f32 {
    f32::from_bits(if key >> 31 == 0 { !key } else { key & 0x7fff_ffff })
}

/// 32 random bits from a counter: pcg4d of Jarzynski and Olano, "Hash Functions for GPU Rendering", JCGT 9(3), 2020.
pub fn hash(counter: [u32; 4]) -> u32 {
    let mut v = counter.map(|x| x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    let round = |v: &mut [u32; 4]| {
        for (to, a, b) in [(0, 1, 3), (1, 2, 0), (2, 0, 1), (3, 1, 2)] {
            v[to] = v[to].wrapping_add(v[a].wrapping_mul(v[b]));
        }
    };
    round(&mut v);
    v = v.map(|x| x ^ x >> 16);
    round(&mut v);
    v[0]
}

/// A standard Gumbel variate from 32 random bits.
pub fn gumbel(bits: u32) -> f64 {
    // The largest p that the shader's f32 can tell from 1.
    let p = ((f64::from(bits) + 0.5) / 4_294_967_296.0).min(1.0 - f64::from(f32::EPSILON) / 2.0);
    -(-(-p).ln_1p()).ln()
}

/// logit / temperature relative to the largest, whose key is `top_key`: 0 or less.
pub fn scaled(x: f32, top_key: u32, temperature: f32) -> f64 {
    if ordered(x) >= top_key { 0.0 } else { (f64::from(x) - f64::from(unordered(top_key))) / f64::from(temperature) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_as_numbers_do() {
        let ascending = [f32::NEG_INFINITY, f32::MIN, -1.5, -1e-40, 0.0, 1e-40, 1.5, f32::MAX, f32::INFINITY];
        for pair in ascending.windows(2) {
            assert!(ordered(pair[0]) < ordered(pair[1]), "{pair:?}");
        }
        for x in ascending {
            assert_eq!(unordered(ordered(x)), x);
        }
        assert_eq!(ordered(-0.0), ordered(0.0));
        assert_eq!((ordered(f32::NAN), ordered(-f32::NAN)), (0, 0));
        assert!(ordered(f32::NEG_INFINITY) > 0);
    }

    #[test]
    fn gumbel_variates_have_the_right_mean_and_spread() {
        let n = 200_000;
        let values: Vec<f64> = (0..n).map(|i| gumbel(hash([1, 2, 3, i]))).collect();
        let mean = values.iter().sum::<f64>() / f64::from(n);
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / f64::from(n);
        // Euler's constant and pi^2 / 6; four standard errors.
        assert!((mean - 0.577_215_7).abs() < 4.0 * 1.2825 / f64::from(n).sqrt(), "{mean}");
        assert!((variance - 1.644_934).abs() < 0.03, "{variance}");
        assert!([0, u32::MAX].map(gumbel).iter().all(|g| g.is_finite()));
    }
}
