//! What adapters add to products: a narrow product with A, and a wide one with B of what it gives.

use super::Call;
use super::kv;
use super::product::floats;
use millrace_core::blocks::decode::decode_block;

/// The number of row `t`'s adapter, and its scale; `None` where it has none.
fn voice(call: &Call, t: usize) -> Option<(usize, f32)> {
    let state = call.state();
    let apart = call.u32("APART") == 1 && state.apart != 0;
    let [number, scale, ..] = call.view::<[u32; 4]>("voices")[if apart { t } else { 0 }];
    Some((number.checked_sub(1)? as usize, f32::from_bits(scale)))
}

/// t[row][i] = A[i] . x[row], or of its norm
pub fn a(call: &Call) {
    let (kb, ranks) = (call.usize("KB"), call.usize("RANKS"));
    let wq = call.read("wq");
    let normed = call.given("NORMED") == 1;
    let mut t = call.view_mut::<f32>("t");
    for row in 0..call.state().rows.min(call.grid[1]) as usize {
        let Some((number, _)) = voice(call, row) else { continue };
        let mut x = floats(call, row, kb);
        let mut factor = 1.0;
        if normed {
            let (d, nw) = (call.usize("D"), call.view::<f32>("nw"));
            let mean = x[..d].iter().map(|v| v * v).sum::<f64>() / d as f64;
            factor = (mean + f64::from(call.f32("EPS"))).sqrt().recip();
            x[..d].iter_mut().zip(&nw[..d]).for_each(|(x, w)| *x *= f64::from(*w));
        }
        for i in 0..ranks {
            let first = (number * ranks + i) * kb;
            let of_a = (first..first + kb).flat_map(|b| decode_block(call.axis("weight"), &wq, &[], b));
            t[row * ranks + i] = (of_a.zip(&x).map(|(a, x)| f64::from(a) * x).sum::<f64>() * factor) as f32;
        }
    }
}

/// y[row][n] += scale * factor * (B[n] . t[row])
pub fn b(call: &Call) {
    let (n, columns, ranks, stride) =
        (call.usize("N"), call.usize("COLUMNS"), call.usize("RANKS"), call.usize("NSTRIDE"));
    let (words, at, t) = (call.read("b"), call.view::<[u32; 2]>("at"), call.view::<f32>("t"));
    let mut y = call.view_mut::<f32>("y");
    for row in 0..call.state().rows.min(call.grid[1]) as usize {
        let Some((number, scale)) = voice(call, row) else { continue };
        for i in 0..n {
            let of = number * n + i;
            let [from, factor] = at[of];
            if factor == 0 {
                continue;
            }
            let of_b = |c: usize| f64::from(kv::load(call.axis("weight"), &words, of * columns + c));
            let sum: f64 = (0..columns).map(|c| of_b(c) * f64::from(t[row * ranks + from as usize * 4 + c])).sum();
            let y = &mut y[row * stride + i];
            *y = (f64::from(*y) + f64::from(scale) * f64::from(f32::from_bits(factor)) * sum) as f32;
        }
    }
}
