//! Products of matrices with rows of activations.

use millrace_twins::Call;

use crate::int8::{self, Int8, Level, Matrix};
use crate::parallel::{Shared, parallel};
use crate::rows::{activation, blocks_of, write_row};
use crate::simd::dot;
use crate::weights::{self, BLOCK};

/// Rows of activations as the `act` axis has them.
pub enum Acts {
    Floats(Vec<Vec<f32>>),
    Int8(Int8),
}

impl Acts {
    fn rows(&self) -> usize {
        match self {
            Self::Floats(x) => x.len(),
            Self::Int8(x) => x.rows,
        }
    }
}

/// The products of `n` rows of the call's matrix from row `row0` on, for each row of activations one after the other.
pub fn products(call: &Call, row0: usize, n: usize, acts: &Acts) -> Vec<f32> {
    let wq = call.read("wq");
    let ws = call.variant.binds("ws").then(|| call.read("ws"));
    let matrix = Matrix {
        weight: call.axis("weight"),
        wq: &wq,
        ws: ws.as_ref().map_or(&[], |ws| ws.as_slice()),
        kb: call.usize("KB"),
    };
    let mut out = vec![0.0; n * acts.rows()];
    match acts {
        Acts::Int8(x) => int8::products(Level::best(), matrix, row0, n, x, &mut out),
        Acts::Floats(x) => {
            let shared = Shared::new(&mut out);
            parallel(n, 1, n * x.len() * matrix.kb * BLOCK, &|part| {
                let mut row = Vec::new();
                for i in part {
                    weights::floats(matrix.weight, matrix.wq, matrix.ws, row0 + i, matrix.kb, &mut row);
                    x.iter().enumerate().for_each(|(t, x)| shared.part(t * n + i..t * n + i + 1)[0] = dot(&row, x));
                }
            });
        }
    }
    out
}

/// The rows of the activations that the call reads.
fn activations(call: &Call, rows: impl Iterator<Item = usize>) -> Acts {
    let kb = call.usize("KB");
    if call.axis("act") == "q8" {
        let (xq, xs) = (call.read("xq"), call.view::<[f32; 2]>("xs"));
        let mut x = Int8::default();
        rows.for_each(|t| x.push(&xq[t * kb * 8..][..kb * 8], xs[t * kb..][..kb].iter().map(|scale| scale[0])));
        return Acts::Int8(x);
    }
    let x = call.view::<f32>("x");
    Acts::Floats(rows.map(|t| x[t * kb * BLOCK..][..kb * BLOCK].to_vec()).collect())
}

/// A row as the `act` axis wants it.
fn one(call: &Call, row: Vec<f32>) -> Acts {
    if call.axis("act") == "f32" {
        return Acts::Floats(vec![row]);
    }
    let (ints, scales) = blocks_of(&row);
    let mut x = Int8::default();
    x.push(&ints, scales.iter().map(|scale| scale[0]));
    Acts::Int8(x)
}

fn capped(x: f32, cap: f32) -> f32 {
    if cap == 0.0 { x } else { cap * (x / cap).tanh() }
}

/// y[t][ROW0 + n] (+)= w[n] . x[t]
pub fn matmul(call: &Call) {
    let (n, row0, rows) = (call.usize("N"), call.usize("ROW0"), call.state().rows as usize);
    let (rows, stride, cap) = if call.variant.kernel == "matvec" {
        (1, 0, call.f32("SOFTCAP"))
    } else {
        (rows, call.usize("NSTRIDE"), if call.variant.kernel == "matvec_rows" { call.f32("SOFTCAP") } else { 0.0 })
    };
    let made = products(call, 0, n, &activations(call, 0..rows));
    let bias = (call.variant.binds("bias") && call.u32("BIAS") == 1).then(|| call.view::<f32>("bias"));
    let add = call.u32("ADD") == 1;
    let mut y = call.view_mut::<f32>("y");
    for (t, made) in made.chunks_exact(n).enumerate() {
        for (i, (y, v)) in y[t * stride + row0..][..n].iter_mut().zip(made).enumerate() {
            let bias = bias.as_ref().map_or(0.0, |bias| bias[row0 + i]);
            *y = capped(v + bias + if add { *y } else { 0.0 }, cap);
        }
    }
}

/// h * nw, and the factor that makes it the norm.
fn normed(call: &Call) -> (Acts, f32) {
    let (d, kb, eps) = (call.usize("D"), call.usize("KB"), call.f32("EPS"));
    let nw = call.view::<f32>("nw");
    let factor_of = |row: &[f32]| (dot(row, row) / d as f32 + eps).sqrt().recip();
    let mut h = call.view::<f32>("h")[..kb * BLOCK].to_vec();
    if call.u32("POST") == 1 {
        let block = call.view::<f32>("block");
        let factor = factor_of(&block[..d]);
        let whole = if call.u32("SCALED") == 1 { nw[2 * d] } else { 1.0 };
        (0..d).for_each(|i| h[i] = (h[i] + block[i] * factor * nw[d + i]) * whole);
        call.view_mut::<f32>("sum")[..kb * BLOCK].copy_from_slice(&h[..kb * BLOCK]);
    }
    let factor = if call.u32("PLAIN") == 1 { 1.0 } else { factor_of(&h[..d]) };
    let mut x: Vec<f32> = h[..d].iter().zip(&nw[..d]).map(|(h, w)| h * w).collect();
    x.resize(kb * BLOCK, 0.0);
    drop(nw);
    (one(call, x), factor)
}

/// y[ROW0 + n] = w[n] . norm(h)
pub fn norm_matvec(call: &Call) {
    let (n, row0) = (call.usize("N"), call.usize("ROW0"));
    let (x, factor) = normed(call);
    let made = products(call, 0, n, &x);
    let bias = (call.u32("BIAS") == 1).then(|| call.view::<f32>("bias"));
    let mut y = call.view_mut::<f32>("y");
    for (i, v) in made.iter().enumerate() {
        y[row0 + i] = v * factor + bias.as_ref().map_or(0.0, |bias| bias[row0 + i]);
    }
}

/// y[f] = act(w[f] . norm(h)) * (w[F + f] . norm(h)), or times what is beside, or alone
pub fn norm_gated(call: &Call) {
    let f = call.usize("F");
    let (x, factor) = normed(call);
    let gated = call.u32("GATED") == 1;
    let made = products(call, 0, if gated { 2 * f } else { f }, &x);
    let beside = call.axis("out") == "f32" && call.u32("BESIDE") != 0;
    let beside = beside.then(|| (call.view::<f32>("beside"), call.view::<f32>("nw")[2 * call.usize("D")] as usize));
    let up = |i: usize| match &beside {
        Some((beside, at)) => beside[at + i],
        None if gated => made[f + i] * factor,
        None => 1.0,
    };
    let mut row: Vec<f32> = made[..f].iter().map(|v| v * factor).collect();
    activation(call).apply(&mut row);
    row.iter_mut().enumerate().for_each(|(i, v)| *v *= up(i));
    write_row(call, f.div_ceil(BLOCK), 0, row);
}

/// The experts that row `t` has chosen and this part holds: (slot, expert's number in this part, weight).
fn chosen(call: &Call, t: usize) -> Vec<(usize, usize, f32)> {
    let used = call.usize("USED");
    let held = call.u32("FIRST")..call.u32("FIRST") + call.u32("COUNT");
    let chosen = call.view::<[u32; 2]>("chosen");
    let slots = (t * used..(t + 1) * used).filter(|slot| held.contains(&chosen[*slot][0]));
    slots.map(|slot| (slot, (chosen[slot][0] - held.start) as usize, f32::from_bits(chosen[slot][1]))).collect()
}

/// y[slot][f] = act(w[e][f] . x[t]) * (w[e][F + f] . x[t]), or act(w[e][f] . x[t]), for each expert e that row t has
/// chosen
pub fn experts_gated(call: &Call) {
    let (f, gated) = (call.usize("F"), call.u32("GATED") == 1);
    let n = if gated { 2 * f } else { f };
    let act = activation(call);
    for t in 0..call.state().rows as usize {
        let x = activations(call, t..t + 1);
        for (slot, e, _) in chosen(call, t) {
            let made = products(call, e * n, n, &x);
            let (row, up) = made.split_at(f);
            let mut row = row.to_vec();
            act.apply(&mut row);
            row.iter_mut().zip(up).for_each(|(v, up)| *v *= up);
            write_row(call, f.div_ceil(BLOCK), slot, row);
        }
    }
}

/// y[t][n] (+)= sum of weight * (w[e][n] . x[slot]) over the experts e that row t has chosen
pub fn experts_down(call: &Call) {
    let (n, stride, add) = (call.usize("N"), call.usize("NSTRIDE"), call.u32("ADD") == 1);
    for t in 0..call.state().rows as usize {
        if !add {
            call.view_mut::<f32>("y")[t * stride..][..n].fill(0.0);
        }
        for (slot, e, weight) in chosen(call, t) {
            let made = products(call, e * n, n, &activations(call, slot..slot + 1));
            crate::simd::add_scaled(&mut call.view_mut::<f32>("y")[t * stride..][..n], &made, weight);
        }
    }
}

/// y[slot] = w[e] . x (+ bias[e]) for the slots of each listed tile, whose expert e this part holds
pub fn experts_matmul(call: &Call) {
    let (n, stride, used, first) = (call.usize("N"), call.usize("NSTRIDE"), call.usize("USED"), call.u32("FIRST"));
    let (of_slots, interleaved) = (call.u32("OF_SLOTS") == 1, call.u32("INTERLEAVED") == 1);
    let each = if call.u32("SPAN_AT") == 0 { n } else { call.usize("SPAN_AT") };
    let bias = (call.u32("BIAS") == 1).then(|| call.view::<f32>("bias"));
    let (order, tiles) = (call.read("order"), call.view::<[u32; 4]>("tiles"));
    let mut y = call.view_mut::<f32>("y");
    for [expert, begin, count, _] in tiles
        .iter()
        .take(call.grid[1] as usize)
        .copied()
        .filter(|[e, ..]| (first..first + call.u32("COUNT")).contains(e))
    {
        let slots = || order[begin as usize..][..count as usize].iter().map(|slot| *slot as usize);
        if count == 0 {
            continue;
        }
        let x = activations(call, slots().map(|slot| if of_slots { slot } else { slot / used }));
        let made = products(call, (expert - first) as usize * n, n, &x);
        for (made, slot) in made.chunks_exact(n).zip(slots()) {
            for (i, sum) in made.iter().enumerate() {
                let bias = bias
                    .as_ref()
                    .map_or(0.0, |bias| bias[expert as usize * each + i % each + i / each * call.usize("UP_AT")]);
                let to = if interleaved { i % 2 * (n / 2) + i / 2 } else { i };
                y[slot * stride + to] = sum + bias;
            }
        }
    }
}

/// y[t] (+)= the weighted sum of what the experts that row t has chosen have made
pub fn experts_sum(call: &Call) {
    let (n, used, stride, add) = (call.usize("N"), call.usize("USED"), call.usize("NSTRIDE"), call.u32("ADD") == 1);
    let (chosen, made) = (call.view::<[u32; 2]>("chosen"), call.view::<f32>("made"));
    let mut y = call.view_mut::<f32>("y");
    for t in 0..call.state().rows as usize {
        let y = &mut y[t * stride..][..n];
        if !add {
            y.fill(0.0);
        }
        (t * used..(t + 1) * used)
            .for_each(|slot| crate::simd::add_scaled(y, &made[slot * stride..][..n], f32::from_bits(chosen[slot][1])));
    }
}
