//! Products of matrices with rows of activations.

use std::ops::Range;

use millrace_twins::Call;

use crate::parallel::{Shared, parallel};
use crate::rows::{activation, blocks_of, write_row};
use crate::simd::{Bytes, Floats, Ints, dot};
use crate::weights::{self, BLOCK, Quantized, Scales, halves_apart, of_type};

/// Rows of activations as the `act` axis has them.
pub enum Acts {
    Floats(Vec<Vec<f32>>),
    Int8(Int8),
}

/// Rows of int8 activations.
#[derive(Default)]
pub struct Int8 {
    rows: usize,
    /// Eight words a block.
    ints: Vec<u32>,
    /// A scale a block.
    scales: Vec<f32>,
    /// The sum of the block's values: of its first half alone where the weights' halves differ.
    sums: Vec<f32>,
    /// Of its second half.
    second: Vec<f32>,
}

impl Int8 {
    /// Takes one more row of blocks: eight words each, and (scale, scale * sum).
    fn push(&mut self, ints: &[u32], scales: &[[f32; 2]], halves: bool) {
        self.rows += 1;
        self.ints.extend_from_slice(ints);
        self.scales.extend(scales.iter().map(|s| s[0]));
        if !halves {
            self.sums.extend(scales.iter().map(|s| s[1]));
            return;
        }
        for (words, [scale, all]) in ints.as_chunks::<8>().0.iter().zip(scales) {
            let ones = Bytes::of([0x0101_0101; 4]);
            let first =
                words.first_chunk().map_or(0, |words| Ints::zero().add_products(Bytes::load(words), ones).sum());
            let first = scale * first as f32;
            self.sums.push(first);
            self.second.push(all - first);
        }
    }
}

/// A matrix in a call's buffers.
struct Matrix<'a> {
    weight: &'a str,
    wq: &'a [u32],
    ws: &'a [u32],
    kb: usize,
}

/// The products of `n` rows of the call's matrix from row `row0` on: row by row, one for each row of activations.
pub fn products(call: &Call, row0: usize, n: usize, acts: &Acts) -> Vec<f32> {
    let wq = call.read("wq");
    let ws = call.variant.binds("ws").then(|| call.read("ws"));
    let matrix = Matrix {
        weight: call.axis("weight"),
        wq: &wq,
        ws: ws.as_ref().map_or(&[], |ws| ws.as_slice()),
        kb: call.usize("KB"),
    };
    let rows = match acts {
        Acts::Floats(x) => x.len(),
        Acts::Int8(x) => x.rows,
    };
    let mut out = vec![0.0; n * rows];
    let shared = Shared::new(&mut out);
    parallel(n, n * rows * matrix.kb * BLOCK, &|part: Range<usize>| {
        let out = shared.part(part.start * rows..part.end * rows);
        let part = row0 + part.start..row0 + part.end;
        match acts {
            Acts::Floats(x) => float_rows(&matrix, part, x, out),
            Acts::Int8(x) => of_type!(matrix.weight, Kind => int8_rows::<Kind>(&matrix, part, x, out))
                .unwrap_or_else(|| panic!("weights of type {} do not meet int8", matrix.weight)),
        }
    });
    out
}

fn float_rows(matrix: &Matrix, part: Range<usize>, x: &[Vec<f32>], out: &mut [f32]) {
    let mut row = Vec::new();
    for (n, out) in part.zip(out.chunks_exact_mut(x.len().max(1))) {
        weights::floats(matrix.weight, matrix.wq, matrix.ws, n, matrix.kb, &mut row);
        out.iter_mut().zip(x).for_each(|(out, x)| *out = dot(&row, x));
    }
}

/// Rows of activations for which it pays to unpack a row of weights beforehand.
const MANY: usize = 5;

fn int8_rows<W: Quantized>(matrix: &Matrix, part: Range<usize>, x: &Int8, out: &mut [f32]) {
    let mut scales = [Scales::default(), Scales::default()];
    let mut unpacked = [Vec::new(), Vec::new()];
    let mut n = part.start;
    while n < part.end {
        let at = (n - part.start) * x.rows;
        let pair = part.end - n > 1;
        for r in 0..1 + usize::from(pair) {
            W::row(matrix.ws, (n + r) * matrix.kb, matrix.kb, &mut scales[r]);
            if x.rows >= MANY {
                unpacked[r].clear();
                unpacked[r].extend((0..matrix.kb).map(|b| W::numbers(matrix.wq, matrix.ws, (n + r) * matrix.kb + b)));
            }
        }
        let row = |r: usize, b: usize| W::numbers(matrix.wq, matrix.ws, (n + r) * matrix.kb + b);
        let ready = |r: usize, b: usize| unpacked[r][b];
        let all = &mut out[at..at + x.rows * (1 + usize::from(pair))];
        match (pair, x.rows >= MANY) {
            (true, false) => tiles::<W, 2, 1>(matrix.kb, &scales, 0, x, all, &row),
            (false, false) => tiles::<W, 1, 1>(matrix.kb, &scales, 0, x, all, &row),
            (true, true) => tiles::<W, 2, 4>(matrix.kb, &scales, 0, x, all, &ready),
            (false, true) => tiles::<W, 1, 4>(matrix.kb, &scales, 0, x, all, &ready),
        }
        n += 1 + usize::from(pair);
    }
}

/// R rows of weights with all rows of activations from `t` on, T at a time while there are as many.
#[inline(always)]
fn tiles<W: Quantized, const R: usize, const T: usize>(
    kb: usize,
    scales: &[Scales; 2],
    mut t: usize,
    x: &Int8,
    out: &mut [f32],
    numbers: &impl Fn(usize, usize) -> [Bytes; 2],
) {
    while t + T <= x.rows {
        tile::<W, R, T>(kb, scales, t, x, out, numbers);
        t += T;
    }
    while t < x.rows {
        tile::<W, R, 1>(kb, scales, t, x, out, numbers);
        t += 1;
    }
}

#[inline(always)]
fn tile<W: Quantized, const R: usize, const T: usize>(
    kb: usize,
    scales: &[Scales; 2],
    t0: usize,
    x: &Int8,
    out: &mut [f32],
    numbers: &impl Fn(usize, usize) -> [Bytes; 2],
) {
    let ints: [&[[u32; 4]]; T] =
        std::array::from_fn(|t| &x.ints[(t0 + t) * kb * 8..][..kb * 8].as_chunks::<4>().0[..2 * kb]);
    let of: [&[f32]; T] = std::array::from_fn(|t| &x.scales[(t0 + t) * kb..][..kb]);
    let first: [&[f32]; R] = std::array::from_fn(|r| &scales[r].scale[..kb]);
    let second: [&[f32]; R] = std::array::from_fn(|r| &scales[r].second[..kb]);
    let mut sums = [[Floats::splat(0.0); T]; R];
    for b in 0..kb {
        let w: [[Bytes; 2]; R] = std::array::from_fn(|r| numbers(r, b));
        for t in 0..T {
            let (low, high) = (Bytes::load(&ints[t][2 * b]), Bytes::load(&ints[t][2 * b + 1]));
            for r in 0..R {
                let product = |sum: Ints, x: Bytes, w: Bytes| {
                    if W::SIGNED { sum.add_signed(x, w) } else { sum.add_products(x, w) }
                };
                let part = product(Ints::zero(), low, w[r][0]);
                if W::HALVES {
                    let rest = product(Ints::zero(), high, w[r][1]);
                    let both = part
                        .floats()
                        .mul(Floats::splat(first[r][b] * of[t][b]))
                        .add(rest.floats().mul(Floats::splat(second[r][b] * of[t][b])));
                    sums[r][t] = sums[r][t].add(both);
                } else {
                    let part = product(part, high, w[r][1]);
                    sums[r][t] = sums[r][t].add(part.floats().mul(Floats::splat(first[r][b] * of[t][b])));
                }
            }
        }
    }
    for r in 0..R {
        for t in 0..T {
            let row = (t0 + t) * kb..(t0 + t + 1) * kb;
            let mut sum = sums[r][t].sum();
            if W::LEAST {
                sum -= dot(&scales[r].least, &x.sums[row.clone()]);
            }
            if W::HALVES {
                sum -= dot(&scales[r].second_least, &x.second[row]);
            }
            out[r * x.rows + t0 + t] = sum;
        }
    }
}

/// The rows of the activations that the call reads.
fn activations(call: &Call, rows: impl Iterator<Item = usize>) -> Acts {
    let kb = call.usize("KB");
    if call.axis("act") == "q8" {
        let (xq, xs) = (call.read("xq"), call.view::<[f32; 2]>("xs"));
        let mut x = Int8::default();
        rows.for_each(|t| x.push(&xq[t * kb * 8..][..kb * 8], &xs[t * kb..][..kb], halves_apart(call.axis("weight"))));
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
    x.push(&ints, &scales, halves_apart(call.axis("weight")));
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
    for (n, made) in made.chunks_exact(rows).enumerate() {
        let bias = bias.as_ref().map_or(0.0, |bias| bias[row0 + n]);
        for (t, v) in made.iter().enumerate() {
            let y = &mut y[t * stride + row0 + n];
            *y = capped(v + bias + if add { *y } else { 0.0 }, cap);
        }
    }
}

/// h * nw, and the factor that makes it the norm.
fn normed(call: &Call) -> (Acts, f32) {
    let (d, kb, eps) = (call.usize("D"), call.usize("KB"), call.f32("EPS"));
    let nw = call.view::<f32>("nw");
    let factor_of = |row: &[f32]| (dot(row, row) / d as f32 + eps).sqrt().recip();
    let mut h = call.view::<f32>("h").to_vec();
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
    let act = activation(call);
    let beside = call.axis("out") == "f32" && call.u32("BESIDE") == 1;
    let beside = beside.then(|| (call.view::<f32>("beside"), call.view::<f32>("nw")[2 * call.usize("D")] as usize));
    let up = |i: usize| match &beside {
        Some((beside, at)) => beside[at + i],
        None if gated => made[f + i] * factor,
        None => 1.0,
    };
    let row = (0..f).map(|i| act(made[i] * factor) * up(i)).collect();
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
            let up = |i: usize| if gated { made[f + i] } else { 1.0 };
            write_row(call, f.div_ceil(BLOCK), slot, (0..f).map(|i| act(made[i]) * up(i)).collect());
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
        for (i, sums) in made.chunks_exact(count as usize).enumerate() {
            let bias = bias
                .as_ref()
                .map_or(0.0, |bias| bias[expert as usize * each + i % each + i / each * call.usize("UP_AT")]);
            let to = if interleaved { i % 2 * (n / 2) + i / 2 } else { i };
            sums.iter().zip(slots()).for_each(|(sum, slot)| y[slot * stride + to] = sum + bias);
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
