//! The twins of `matvec`, `matvec_rows`, `gated_rows`, `matmul`, `norm_matvec`, `norm_rows`, `gated_matvec`,
//! `norm_gated`, `norm_gated_rows`, `residual_rows` and of the products of experts, which differ in how many rows of
//! activations there are, where they come from and what becomes of the products.

use super::activate::{activation, lifted};
use super::quantize::{quantize_block, write_row, write_rows};
use super::{Call, kv};
use millrace_core::blocks::decode::{BLOCK, Quantized, decode_block, decode_quantized};

/// y[ROW0 + n] (+)= w[n] . x; with EACH for each row of a step
pub fn matvec(call: &Call) {
    product(call, each(call), call.usize("NSTRIDE"));
}

/// Whether it is a product of several rows that norms them, which has neither EACH nor GATED.
fn norms_rows(call: &Call) -> bool {
    matches!(call.variant.kernel, "norm_rows" | "norm_gated_rows")
}

/// Rows that one dispatch makes: of products of one row those that workgroups of their own make.
fn each(call: &Call) -> usize {
    if norms_rows(call) || call.u32("EACH") == 1 { call.state().rows as usize } else { 1 }
}

/// y[t][ROW0 + n] (+)= w[n] . x[t]
pub fn matmul(call: &Call) {
    product(call, call.state().rows as usize, call.usize("NSTRIDE"));
}

/// As [`matmul`], over whole tiles of rows: those from T on repeat the last.
pub fn matmul_subgroup(call: &Call) {
    let rows = call.state().rows.next_multiple_of(call.variant.tile[1]);
    product(call, rows as usize, call.usize("NSTRIDE"));
}

/// y[ROW0 + n] = w[n] . norm(h), of one row or of a few
pub fn norm_matvec(call: &Call) {
    let (n, row0) = (call.usize("N"), call.usize("ROW0"));
    let mut y = call.view_mut::<f32>("y");
    for t in 0..each(call) {
        let (x, factor) = normed(call, t);
        let y = &mut y[t * call.usize("NSTRIDE") + row0..];
        for (y, v) in y.iter_mut().zip(products(call, 0, n, &[x])) {
            *y = (v[0] * factor) as f32;
        }
        if call.u32("BIAS") == 1 {
            y[..n].iter_mut().zip(&call.view::<f32>("bias")[row0..]).for_each(|(y, b)| *y += b);
        }
    }
}

/// y[ROW0 + n] += w[n] . the gated norm of x and z, of which int8 is without the norm's factor
pub fn gated_matvec(call: &Call) {
    let (n, row0, width, group) = (call.usize("N"), call.usize("ROW0"), call.usize("WIDTH"), call.usize("GROUP"));
    let rows = super::norm::gated_rows(call, 1);
    let factors: Vec<f64> = rows[0].1.iter().map(|f| if group == width { 1.0 } else { *f }).collect();
    let blocks: Vec<_> = rows[0].0.as_chunks::<BLOCK>().0.iter().map(quantize_block).collect();
    let scales = blocks
        .iter()
        .enumerate()
        .map(|(b, block)| (f64::from(block.scale) * factors[b * BLOCK / group]) as f32)
        .collect();
    let x = Act::Q8 { ints: blocks.iter().map(|b| b.ints).collect(), scales };
    let whole = if group == width { rows[0].1[0] } else { 1.0 };
    let mut y = call.view_mut::<f32>("y");
    for (y, v) in y[row0..].iter_mut().zip(products(call, 0, n, &[x])) {
        *y = (f64::from(*y) + v[0] * whole) as f32;
    }
}

/// y[f] = silu(w[f] . norm(h)) * (w[F + f] . norm(h)), of one row or of a few
pub fn norm_gated(call: &Call) {
    let f = call.usize("F");
    let gated = norms_rows(call) || call.u32("GATED") == 1;
    let rows = (0..each(call)).map(|t| {
        let (x, factor) = normed(call, t);
        let rows = products(call, 0, if gated { 2 * f } else { f }, &[x]);
        let output = |f: f64, up: f64| (activation(call, f * factor) * up) as f32;
        let up = |i: usize| -> f64 {
            let beside = if call.axis("out") == "f32" { call.usize("BESIDE") } else { 0 };
            if beside != 0 {
                let from = call.view::<f32>("nw")[2 * call.usize("D")] as usize;
                return f64::from(call.view::<f32>("beside")[t * beside + from + i]);
            }
            if gated { lifted(call, rows[f + i][0] * factor) } else { 1.0 }
        };
        (0..f).map(|i| output(rows[i][0], up(i))).collect()
    });
    write_rows(call, f.div_ceil(BLOCK), rows);
}

/// y[t][f] = act(w[f] . x[t]) * (w[F + f] . x[t])
pub fn gated_rows(call: &Call) {
    let (f, kb) = (call.usize("F"), call.usize("KB"));
    let x: Vec<Act> = (0..call.state().rows as usize).map(|t| activations(call, t, kb)).collect();
    let products = products(call, 0, 2 * f, &x);
    let rows = (0..x.len()).map(|t| {
        let factor = open_factor(call, t);
        let of = |n: usize| products[n][t] * factor;
        (0..f).map(|i| (activation(call, of(i)) * lifted(call, of(f + i))) as f32).collect()
    });
    write_rows(call, f.div_ceil(BLOCK), rows);
}

/// y[t][ROW0 + n] += w[n] . x[t], int8 of y * nw, and sums of squares of its blocks behind their scales
pub fn residual_rows(call: &Call) {
    let (n, row0, stride) = (call.usize("N"), call.usize("ROW0"), call.usize("NSTRIDE"));
    let (rows, kb) = (call.state().rows as usize, stride / BLOCK);
    let x: Vec<Act> = (0..rows).map(|t| activations(call, t, call.usize("KB"))).collect();
    let mut y = call.view_mut::<f32>("y");
    for (n, row) in products(call, 0, n, &x).into_iter().enumerate() {
        for (t, v) in row.into_iter().enumerate() {
            let y = &mut y[t * stride + row0 + n];
            *y = (v + f64::from(*y)) as f32;
        }
    }
    let nw = call.view::<f32>("nw");
    let (mut yq, mut ys) = (call.view_mut::<[i8; BLOCK]>("yq"), call.view_mut::<[f32; 2]>("ys"));
    for t in 0..rows {
        for block in row0 / BLOCK..(row0 + n) / BLOCK {
            let h = &y[t * stride + block * BLOCK..][..BLOCK];
            let quantized = quantize_block(&std::array::from_fn(|i| h[i] * nw[block * BLOCK + i]));
            yq[t * kb + block] = quantized.ints;
            ys[t * kb + block] = [quantized.scale, quantized.scaled_sum];
            let squares: f64 = h.iter().map(|h| f64::from(*h).powi(2)).sum();
            ys[(call.usize("T") + t) * kb + block] = [squares as f32, 0.0];
        }
    }
}

/// The factor of row t's norm, where that was left open; 1 where it was not.
fn open_factor(call: &Call, t: usize) -> f64 {
    let d = call.usize("D");
    if d == 0 {
        return 1.0;
    }
    let (kb, xs) = (call.usize("KB"), call.view::<[f32; 2]>("xs"));
    let squares: f64 = xs[(call.usize("T") + t) * kb..][..kb].iter().map(|s| f64::from(s[0])).sum();
    (squares / d as f64 + f64::from(call.f32("EPS"))).sqrt().recip()
}

/// The experts that row `t` has chosen and this part holds: (slot, expert's number in this part, weight).
fn chosen(call: &Call, t: usize) -> Vec<(usize, usize, f64)> {
    let used = call.usize("USED");
    let held = call.u32("FIRST")..call.u32("FIRST") + call.u32("COUNT");
    let chosen = call.view::<[u32; 2]>("chosen");
    let slots = (t * used..(t + 1) * used).filter(|slot| held.contains(&chosen[*slot][0]));
    slots
        .map(|slot| (slot, (chosen[slot][0] - held.start) as usize, f64::from(f32::from_bits(chosen[slot][1]))))
        .collect()
}

/// y[slot][f] = act(w[e][f] . x[t]) * (w[e][F + f] . x[t]), or act(w[e][f] . x[t]), for each expert e that row t has
/// chosen
pub fn experts_gated(call: &Call) {
    let (f, kb, gated) = (call.usize("F"), call.usize("KB"), call.u32("GATED") == 1);
    let n = if gated { 2 * f } else { f };
    let (interleaved, biased, bias) = (call.u32("INTERLEAVED") == 1, call.u32("BIAS") == 1, call.view::<f32>("bias"));
    for t in 0..call.state().rows as usize {
        let x = [activations(call, t, kb)];
        for (slot, e, _) in chosen(call, t) {
            let rows = products(call, e * n, n, &x);
            let all = e + call.usize("FIRST");
            let of_up = if interleaved { 1 } else { call.usize("UP_AT") };
            let bias = |at: usize| if biased { f64::from(bias[at]) } else { 0.0 };
            let (each, apart) = if interleaved { (2, 1) } else { (1, f) };
            let gate = |i: usize| rows[each * i][0] + bias(each * (all * f + i));
            let up = |i: usize| {
                if gated { lifted(call, rows[each * i + apart][0] + bias(each * (all * f + i) + of_up)) } else { 1.0 }
            };
            write_row(
                call,
                f.div_ceil(BLOCK),
                slot,
                (0..f).map(|i| (activation(call, gate(i)) * up(i)) as f32).collect(),
            );
        }
    }
}

/// y[t][n] (+)= sum of weight * (w[e][n] . x[slot]) over the experts e that row t has chosen
pub fn experts_down(call: &Call) {
    let (n, kb, stride, add) = (call.usize("N"), call.usize("KB"), call.usize("NSTRIDE"), call.u32("ADD") == 1);
    let (biased, bias) = (call.u32("BIAS") == 1, call.view::<f32>("bias"));
    let mut y = call.view_mut::<f32>("y");
    for t in 0..call.state().rows as usize {
        let mut sums = vec![0.0; n];
        for (slot, e, weight) in chosen(call, t) {
            let rows = products(call, e * n, n, &[activations(call, slot, kb)]);
            let all = e + call.usize("FIRST");
            let bias = |i: usize| if biased { f64::from(bias[all * n + i]) } else { 0.0 };
            sums.iter_mut().zip(&rows).enumerate().for_each(|(i, (sum, v))| *sum += weight * (v[0] + bias(i)));
        }
        y[t * stride..]
            .iter_mut()
            .zip(&sums)
            .for_each(|(y, sum)| *y = (if add { f64::from(*y) } else { 0.0 } + sum) as f32);
    }
}

/// y[slot] = w[e] . x (+ bias[e]) for the slots of each listed tile, whose expert e this part holds: x is the slot's
/// own, or its row's
pub fn experts_matmul(call: &Call) {
    let (n, kb, stride, used, first) =
        (call.usize("N"), call.usize("KB"), call.usize("NSTRIDE"), call.usize("USED"), call.u32("FIRST"));
    let (biased, bias) = (call.u32("BIAS") == 1, call.view::<f32>("bias"));
    let (order, tiles) = (call.read("order"), call.view::<[u32; 4]>("tiles"));
    let each = if call.u32("SPAN_AT") == 0 { n } else { call.usize("SPAN_AT") };
    let mut y = call.view_mut::<f32>("y");
    for [expert, begin, count, _] in tiles
        .iter()
        .take(call.grid[1] as usize)
        .copied()
        .filter(|[e, ..]| (first..first + call.u32("COUNT")).contains(e))
    {
        let slots = &order[begin as usize..][..count as usize];
        let row = |slot: usize| if call.u32("OF_SLOTS") == 1 { slot } else { slot / used };
        let x: Vec<Act> = slots.iter().map(|slot| activations(call, row(*slot as usize), kb)).collect();
        for (i, sums) in products(call, (expert - first) as usize * n, n, &x).iter().enumerate() {
            let bias = if biased {
                f64::from(bias[expert as usize * each + i % each + i / each * call.usize("UP_AT")])
            } else {
                0.0
            };
            let to = if call.u32("INTERLEAVED") == 1 { i % 2 * (n / 2) + i / 2 } else { i };
            sums.iter().zip(slots).for_each(|(sum, slot)| y[*slot as usize * stride + to] = (sum + bias) as f32);
        }
    }
}

/// y[t] (+)= the weighted sum of what the experts that row t has chosen have made
pub fn experts_sum(call: &Call) {
    let (n, used, stride, add) = (call.usize("N"), call.usize("USED"), call.usize("NSTRIDE"), call.u32("ADD") == 1);
    let (chosen, made) = (call.view::<[u32; 2]>("chosen"), call.view::<f32>("made"));
    let mut y = call.view_mut::<f32>("y");
    for t in 0..call.state().rows as usize {
        for i in 0..n {
            let of = |slot: usize| f64::from(f32::from_bits(chosen[slot][1])) * f64::from(made[slot * stride + i]);
            let y = &mut y[t * stride + i];
            *y = (if add { f64::from(*y) } else { 0.0 } + (t * used..(t + 1) * used).map(of).sum::<f64>()) as f32;
        }
    }
}

/// One row of activations as the `act` axis has them.
enum Act {
    F32(Vec<f32>),
    Q8 { ints: Vec<[i8; BLOCK]>, scales: Vec<f32> },
}

/// Row t of h * nw, and the factor that makes it the norm.
fn normed(call: &Call, t: usize) -> (Act, f64) {
    let (d, kb) = (call.usize("D"), call.usize("KB"));
    let nw = call.view::<f32>("nw");
    let mut h = call.view::<f32>("h")[t * kb * BLOCK..].to_vec();
    if call.u32("POST") == 1 {
        let block = &call.view::<f32>("block")[t * kb * BLOCK..];
        let mean = block[..d].iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / d as f64;
        let factor = (mean + f64::from(call.f32("EPS"))).sqrt().recip();
        let whole = if call.u32("SCALED") == 1 { f64::from(nw[2 * d]) } else { 1.0 };
        (0..d).for_each(|i| {
            h[i] = ((f64::from(h[i]) + f64::from(block[i]) * factor * f64::from(nw[d + i])) * whole) as f32
        });
        call.view_mut::<f32>("sum")[t * kb * BLOCK..][..kb * BLOCK].copy_from_slice(&h[..kb * BLOCK]);
    }
    let mean = h[..d].iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / d as f64;
    let mut x: Vec<f32> = h[..d].iter().zip(&nw[..d]).map(|(h, w)| h * w).collect();
    x.resize(kb * BLOCK, 0.0);
    let factor = if call.u32("PLAIN") == 1 { 1.0 } else { (mean + f64::from(call.f32("EPS"))).sqrt().recip() };
    if call.axis("act") == "f32" {
        return (Act::F32(x), factor);
    }
    let blocks: Vec<_> = x.as_chunks::<BLOCK>().0.iter().map(quantize_block).collect();
    (
        Act::Q8 { ints: blocks.iter().map(|b| b.ints).collect(), scales: blocks.iter().map(|b| b.scale).collect() },
        factor,
    )
}

fn product(call: &Call, rows: usize, stride: usize) {
    let (kb, n) = (call.usize("KB"), call.usize("N"));
    let last = call.state().rows as usize - 1;
    let x: Vec<Act> = (0..rows).map(|t| activations(call, t.min(last), kb)).collect();
    let row0 = call.usize("ROW0");
    let cap = if call.variant.kernel.starts_with("matvec") { call.f64("SOFTCAP") } else { 0.0 };
    let bias = call.variant.binds("bias") && call.u32("BIAS") == 1;
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

/// Row `t` of the activations that the call reads, as numbers.
pub fn floats(call: &Call, t: usize, kb: usize) -> Vec<f64> {
    match activations(call, t, kb) {
        Act::F32(x) => x.into_iter().map(f64::from).collect(),
        Act::Q8 { ints, scales } => {
            ints.iter().zip(scales).flat_map(|(block, scale)| block.map(|q| f64::from(q) * f64::from(scale))).collect()
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
        let quantized: Vec<_> =
            if q8 { blocks.clone().map(|b| decode_quantized(weight, &wq, &ws, b)).collect() } else { Vec::new() };
        let floats: Vec<f32> =
            if q8 { Vec::new() } else { blocks.flat_map(|b| decode_block(weight, &wq, &ws, b)).collect() };
        let dot = |x: &Act| match x {
            Act::F32(x) => floats.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum(),
            Act::Q8 { ints, scales } => {
                quantized.iter().zip(ints).zip(scales).map(|((w, x), s)| dot_q8(w, x) * f64::from(*s)).sum()
            }
        };
        x.iter().map(dot).collect()
    };
    (row0..row0 + n).map(row).collect()
}

/// A quantized block of weights with the integers of a block of activations.
fn dot_q8(w: &Quantized, x: &[i8; BLOCK]) -> f64 {
    let half = |n: usize| (16 * n..16 * n + 16).map(|i| i32::from(w.ints[i]) * i32::from(x[i])).sum::<i32>();
    let sum = |n: usize| x[16 * n..16 * n + 16].iter().map(|x| i32::from(*x)).sum::<i32>();
    let of = |n: usize| f64::from(w.scales[n]) * f64::from(half(n)) - f64::from(w.mins[n]) * f64::from(sum(n));
    of(0) + of(1)
}
