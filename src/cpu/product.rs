//! The twins of `matvec`, `matvec_rows`, `matmul`, `norm_matvec`, `gated_matvec`, `norm_gated` and of the products of experts, which differ in how many rows of
//! activations there are, where they come from and what becomes of the products.

use super::activate::activation;
use super::quantize::{quantize_block, write_row, write_rows};
use super::{Call, kv};
use crate::blocks::decode::{BLOCK, Quantized, decode_block, decode_quantized};

/// y[ROW0 + n] (+)= w[n] . x
pub fn matvec(call: &Call) {
    product(call, 1, 0);
}

/// y[t][ROW0 + n] (+)= w[n] . x[t]
pub fn matmul(call: &Call) {
    product(call, call.state().rows as usize, call.usize("NSTRIDE"));
}

/// The same for whole tiles of rows: those from T on repeat the last.
pub fn matmul_subgroup(call: &Call) {
    let rows = call.state().rows.next_multiple_of(call.variant.tile[1]);
    product(call, rows as usize, call.usize("NSTRIDE"));
}

/// y[ROW0 + n] = w[n] . norm(h)
pub fn norm_matvec(call: &Call) {
    let (n, row0) = (call.usize("N"), call.usize("ROW0"));
    let (x, factor) = normed(call);
    let rows = products(call, 0, n, &[x]);
    let mut y = call.view_mut::<f32>("y");
    for (y, v) in y[row0..].iter_mut().zip(&rows) {
        *y = (v[0] * factor) as f32;
    }
    add_bias(call, &mut y, n, row0);
}

fn add_bias(call: &Call, y: &mut [f32], n: usize, row0: usize) {
    if call.u32("BIAS") == 1 {
        let bias = call.view::<f32>("bias");
        y[row0..row0 + n].iter_mut().zip(&bias[row0..]).for_each(|(y, b)| *y += b);
    }
}

/// y[ROW0 + n] += w[n] . the gated norm of x and z, of which int8 is without the norm's factor
pub fn gated_matvec(call: &Call) {
    let (n, row0, width, group) = (call.usize("N"), call.usize("ROW0"), call.usize("WIDTH"), call.usize("GROUP"));
    let rows = super::norm::gated_rows(call, 1);
    let factors: Vec<f64> = rows[0].1.iter().map(|f| if group == width { 1.0 } else { *f }).collect();
    let blocks: Vec<_> = rows[0].0.as_chunks::<BLOCK>().0.iter().map(quantize_block).collect();
    let scales = blocks.iter().enumerate().map(|(b, block)| (f64::from(block.scale) * factors[b * BLOCK / group]) as f32).collect();
    let x = Act::Q8 { ints: blocks.iter().map(|b| b.ints).collect(), scales };
    let whole = if group == width { rows[0].1[0] } else { 1.0 };
    let mut y = call.view_mut::<f32>("y");
    for (y, v) in y[row0..].iter_mut().zip(products(call, 0, n, &[x])) {
        *y = (f64::from(*y) + v[0] * whole) as f32;
    }
}

/// y[f] = silu(w[f] . norm(h)) * (w[F + f] . norm(h))
pub fn norm_gated(call: &Call) {
    let f = call.usize("F");
    let (x, factor) = normed(call);
    let rows = products(call, 0, 2 * f, &[x]);
    let output = |f: f64, up: f64| (activation(call, f * factor) * up * factor) as f32;
    write_rows(call, f.div_ceil(BLOCK), std::iter::once((0..f).map(|i| output(rows[i][0], rows[f + i][0])).collect()));
}

/// The experts that row `t` has chosen and this part holds: (slot, expert's number in this part, weight).
fn chosen(call: &Call, t: usize) -> Vec<(usize, usize, f64)> {
    let used = call.usize("USED");
    let held = call.u32("FIRST")..call.u32("FIRST") + call.u32("COUNT");
    let chosen = call.view::<[u32; 2]>("chosen");
    let slots = (t * used..(t + 1) * used).filter(|slot| held.contains(&chosen[*slot][0]));
    slots.map(|slot| (slot, (chosen[slot][0] - held.start) as usize, f64::from(f32::from_bits(chosen[slot][1])))).collect()
}

/// y[slot][f] = act(w[e][f] . x[t]) * (w[e][F + f] . x[t]), or act(w[e][f] . x[t]), for each expert e that row t has chosen
pub fn experts_gated(call: &Call) {
    let (f, kb, gated) = (call.usize("F"), call.usize("KB"), call.u32("GATED") == 1);
    let n = if gated { 2 * f } else { f };
    for t in 0..call.state().rows as usize {
        let x = [activations(call, t, kb)];
        for (slot, e, _) in chosen(call, t) {
            let rows = products(call, e * n, n, &x);
            let up = |i: usize| if gated { rows[f + i][0] } else { 1.0 };
            write_row(call, f.div_ceil(BLOCK), slot, (0..f).map(|i| (activation(call, rows[i][0]) * up(i)) as f32).collect());
        }
    }
}

/// h[t][n] += sum of weight * (w[e][n] . x[slot]) over the experts e that row t has chosen
pub fn experts_down(call: &Call) {
    let (n, kb, stride) = (call.usize("N"), call.usize("KB"), call.usize("NSTRIDE"));
    let mut y = call.view_mut::<f32>("y");
    for t in 0..call.state().rows as usize {
        let mut sums = vec![0.0; n];
        for (slot, e, weight) in chosen(call, t) {
            let rows = products(call, e * n, n, &[activations(call, slot, kb)]);
            sums.iter_mut().zip(&rows).for_each(|(sum, v)| *sum += weight * v[0]);
        }
        y[t * stride..].iter_mut().zip(&sums).for_each(|(y, sum)| *y = (f64::from(*y) + sum) as f32);
    }
}

/// One row of activations as the `act` axis has them.
enum Act {
    F32(Vec<f32>),
    Q8 { ints: Vec<[i8; BLOCK]>, scales: Vec<f32> },
}

/// h * nw, and the factor that makes it the norm.
fn normed(call: &Call) -> (Act, f64) {
    let (d, kb) = (call.usize("D"), call.usize("KB"));
    let nw = call.view::<f32>("nw");
    let mut h = call.view::<f32>("h").to_vec();
    if call.u32("POST") == 1 {
        let block = call.view::<f32>("block");
        let mean = block[..d].iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / d as f64;
        let factor = (mean + f64::from(call.f32("EPS"))).sqrt().recip();
        (0..d).for_each(|i| h[i] = (f64::from(h[i]) + f64::from(block[i]) * factor * f64::from(nw[d + i])) as f32);
        call.view_mut::<f32>("sum")[..kb * BLOCK].copy_from_slice(&h[..kb * BLOCK]);
    }
    let mean = h[..d].iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / d as f64;
    let mut x: Vec<f32> = h[..d].iter().zip(&nw[..d]).map(|(h, w)| h * w).collect();
    x.resize(kb * BLOCK, 0.0);
    let factor = (mean + f64::from(call.f32("EPS"))).sqrt().recip();
    if call.axis("act") == "f32" {
        return (Act::F32(x), factor);
    }
    let blocks: Vec<_> = x.as_chunks::<BLOCK>().0.iter().map(quantize_block).collect();
    (Act::Q8 { ints: blocks.iter().map(|b| b.ints).collect(), scales: blocks.iter().map(|b| b.scale).collect() }, factor)
}

fn product(call: &Call, rows: usize, stride: usize) {
    let (kb, n, row0) = (call.usize("KB"), call.usize("N"), call.usize("ROW0"));
    let last = call.state().rows as usize - 1;
    let x: Vec<Act> = (0..rows).map(|t| activations(call, t.min(last), kb)).collect();
    let cap = if call.variant.kernel == "matvec" { call.f64("SOFTCAP") } else { 0.0 };
    let bias = call.variant.binding("bias").is_some() && call.u32("BIAS") == 1;
    let mut y = call.view_mut::<f32>("y");
    for (n, row) in products(call, 0, n, &x).into_iter().enumerate() {
        let bias = if bias { f64::from(call.view::<f32>("bias")[row0 + n]) } else { 0.0 };
        for (t, v) in row.into_iter().enumerate() {
            let y = &mut y[t * stride + row0 + n];
            let v = v + bias;
            *y = kv::capped(if call.u32("ADD") == 1 { v + f64::from(*y) } else { v }, cap) as f32;
        }
    }
}

/// Row `t` of the activations that the call reads.
fn activations(call: &Call, t: usize, kb: usize) -> Act {
    match call.axis("act") {
        "q8" => {
            let (xq, xs) = (call.view::<[i8; BLOCK]>("xq"), call.view::<[f32; 2]>("xs"));
            Act::Q8 { ints: xq[t * kb..][..kb].to_vec(), scales: xs[t * kb..][..kb].iter().map(|s| s[0]).collect() }
        }
        kind => {
            let x = call.read("x");
            Act::F32((t * kb * BLOCK..(t + 1) * kb * BLOCK).map(|i| kv::load(kind, &x, i)).collect())
        }
    }
}

/// The products of `n` rows of w, from row `row0` on, with each row of activations.
fn products(call: &Call, row0: usize, n: usize, x: &[Act]) -> Vec<Vec<f64>> {
    let (kb, weight) = (call.usize("KB"), call.axis("weight"));
    let (wq, ws) = (call.read("wq"), call.scales());
    let q8 = call.axis("act") == "q8";
    let row = |n: usize| {
        let blocks = n * kb..(n + 1) * kb;
        let quantized: Vec<_> = if q8 { blocks.clone().map(|b| decode_quantized(weight, &wq, &ws, b)).collect() } else { Vec::new() };
        let floats: Vec<f32> = if q8 { Vec::new() } else { blocks.flat_map(|b| decode_block(weight, &wq, &ws, b)).collect() };
        let dot = |x: &Act| match x {
            Act::F32(x) => floats.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum(),
            Act::Q8 { ints, scales } => quantized.iter().zip(ints).zip(scales).map(|((w, x), s)| dot_q8(w, x) * f64::from(*s)).sum(),
        };
        x.iter().map(dot).collect()
    };
    (row0..row0 + n).map(row).collect()
}

/// A quantized block of weights with the integers of a block of activations.
fn dot_q8(w: &Quantized, x: &[i8; BLOCK]) -> f64 {
    let half = |n: usize| (16 * n..16 * n + 16).map(|i| i32::from(w.ints[i]) * i32::from(x[i])).sum::<i32>();
    let sum: i32 = x.iter().map(|x| i32::from(*x)).sum();
    f64::from(w.scales[0]) * f64::from(half(0)) + f64::from(w.scales[1]) * f64::from(half(1)) - f64::from(w.min) * f64::from(sum)
}
