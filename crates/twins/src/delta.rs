//! Linear attention with a state for each head: the gated delta rule and Mamba-2's.

use std::ops::Range;

use super::Call;
use super::activate::sigmoid;
use super::conv::Conv;
use crate::numbers::{CHUNK, FEW_ROWS};

/// The heads' sizes, and where their parts are among the channels.
struct Heads {
    heads: usize,
    key_heads: usize,
    each: usize,
    key: usize,
    value: usize,
    q: usize,
    k: usize,
    v: usize,
    delta: bool,
}

impl Heads {
    fn of(call: &Call) -> Self {
        Self {
            heads: call.usize("HEADS"),
            key_heads: call.usize("KEY_HEADS"),
            each: call.usize("KEYS_EACH"),
            key: call.usize("KEY"),
            value: call.given("VALUE"),
            q: call.usize("Q_AT"),
            k: call.usize("K_AT"),
            v: call.given("V_AT"),
            delta: call.u32("DELTA") == 1,
        }
    }

    /// Where a head's query, key and value begin.
    fn at(&self, head: usize) -> [usize; 3] {
        let shared = head / self.each % self.key_heads * self.key;
        [self.q + shared, self.k + shared, self.v + head * self.value]
    }
}

/// (g, s) of a head in a row.
fn gates(call: &Call, row: usize, head: usize) -> [f64; 2] {
    let (gates, heads, n) = (call.view::<f32>("gates"), call.view::<f32>("heads"), call.usize("HEADS"));
    let a = f64::from(heads[head]);
    let a = if call.u32("A_LOG") == 1 { -a.exp() } else { a };
    let of = |at: &str| f64::from(gates[row * call.usize("GATES") + call.usize(at) + head]);
    let step = (call.f64("STEPS") * of("A_AT") + f64::from(heads[n + head])).exp().ln_1p();
    [a * step, if call.u32("DELTA") == 1 { sigmoid(of("B_AT")) } else { step }]
}

/// A channel's convolution in a row, and SiLU of it.
fn convolved(call: &Call, conv: &Conv, kept: &[f32], row: usize, channel: usize) -> f64 {
    let (x, cw) = (call.view::<f32>("x"), call.view::<f32>("cw"));
    let (stride, first) = (call.usize("STRIDE"), call.usize("CONV_AT"));
    let bias =
        if call.u32("BIAS") == 1 { f64::from(cw[call.usize("CHANNELS") * call.usize("TAPS") + channel]) } else { 0.0 };
    let sum = bias + conv.sum(&cw, kept, row, channel, |row| f64::from(x[row * stride + first + channel]));
    sum * sigmoid(sum)
}

/// Makes the length 1; returns by what it was multiplied.
fn unit(x: &mut [f64]) -> f64 {
    let r = (x.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt().recip();
    x.iter_mut().for_each(|x| *x *= r);
    r
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Where what is kept of a head in a row of a half is: its decay, the change of each column, its key.
fn kept_at(call: &Call, side: u32, row: usize, head: usize) -> Range<usize> {
    let words = 1 + call.usize("VALUE") + call.usize("KEY");
    let at = ((side as usize * FEW_ROWS as usize + row) * call.usize("HEADS") + head) * words;
    at..at + words
}

/// Where the heads' states of the sequence are.
fn states_at(call: &Call) -> Range<usize> {
    let n = call.usize("HEADS") * call.usize("VALUE") * call.usize("KEY");
    let slot = call.state().slot as usize;
    slot * n..(slot + 1) * n
}

/// The sequence's state takes over the first `rows` rows of a half.
fn take_over(call: &Call, side: u32, rows: u32) {
    let (value, key) = (call.usize("VALUE"), call.usize("KEY"));
    let (mut s, kept) = (call.view_mut::<f32>("s"), call.view::<f32>("kept"));
    for (head, s) in s[states_at(call)].chunks_exact_mut(value * key).enumerate() {
        for row in 0..rows as usize {
            let of_row = &kept[kept_at(call, side, row, head)];
            let (changes, of_key) = of_row[1..].split_at(value);
            for (s, change) in s.chunks_exact_mut(key).zip(changes) {
                s.iter_mut().zip(of_key).for_each(|(s, k)| *s = of_row[0].mul_add(*s, change * k));
            }
        }
    }
}

/// What counts of the last step with drafts goes to the state.
pub fn settle(call: &Call) {
    let state = call.state();
    take_over(call, 1 - state.side, state.kept);
}

/// One row, from the projections to what a head gives.
pub fn step(call: &Call) {
    step_of(call, 0);
}

/// One row of each sequence, or a token and its drafts.
pub fn rows(call: &Call) {
    let state = call.state();
    let rows = state.rows.min(call.grid[2]) as usize;
    if state.apart != 0 {
        (0..rows).filter(|row| !state.rests(*row)).for_each(|row| drop(step_of(call, row)));
        return;
    }
    let drafter = call.u32("DRAFTER") == 1;
    let (before, stays) = (if drafter { state.step } else { 0 }, rows > 1 || drafter);
    if before == 0 {
        take_over(call, 1 - state.side, state.kept);
    }
    let whole = call.view::<f32>("s")[states_at(call)].to_vec();
    take_over(call, state.side, before);
    for row in 0..rows {
        let changes = step_of(call, row);
        if stays {
            let mut kept = call.view_mut::<f32>("kept");
            for (head, of_head) in changes.iter().enumerate() {
                kept[kept_at(call, state.side, before as usize + row, head)].copy_from_slice(of_head);
            }
        }
    }
    if stays {
        call.view_mut::<f32>("s")[states_at(call)].copy_from_slice(&whole);
    }
}

/// One row. Returns of each head its decay, the change of each column, and its key as it was before its length was 1.
fn step_of(call: &Call, row: usize) -> Vec<Vec<f32>> {
    let (h, conv, slot) = (Heads::of(call), Conv::of(call), call.state().slot_of(row));
    let mut kept = call.view_mut::<f32>("conv");
    let (mut s, mut y, of_heads) = (call.view_mut::<f32>("s"), call.view_mut::<f32>("y"), call.view::<f32>("heads"));
    let mut changes = Vec::new();
    for head in 0..h.heads {
        let read =
            |at: usize, n: usize| (at..at + n).map(|c| convolved(call, &conv, &kept, row, c)).collect::<Vec<f64>>();
        let [q, k, v] = h.at(head);
        let (mut q, mut k, v) = (read(q, h.key), read(k, h.key), read(v, h.value));
        let raw: Vec<f32> = k.iter().map(|k| *k as f32).collect();
        let mut length = 1.0;
        if h.delta {
            unit(&mut q);
            length = unit(&mut k);
        }
        let [g, strength] = gates(call, row, head);
        let mut change = vec![g.exp() as f32];
        for (column, v) in v.iter().enumerate() {
            let s = &mut s[((slot * h.heads + head) * h.value + column) * h.key..][..h.key];
            let mut wide: Vec<f64> = s.iter().map(|s| f64::from(*s) * g.exp()).collect();
            let d = strength * (v - if h.delta { dot(&wide, &k) } else { 0.0 });
            wide.iter_mut().zip(&k).for_each(|(s, k)| *s += d * k);
            s.iter_mut().zip(&wide).for_each(|(s, wide)| *s = *wide as f32);
            let direct = if h.delta { 0.0 } else { f64::from(of_heads[2 * h.heads + head]) * v };
            y[(row * h.heads + head) * h.value + column] = (call.f64("SCALE") * dot(&wide, &q) + direct) as f32;
            change.push((d * length) as f32);
        }
        changes.push([change, raw].concat());
    }
    let (x, first) = (call.view::<f32>("x"), row * call.usize("STRIDE") + call.usize("CONV_AT"));
    (0..call.usize("CHANNELS")).for_each(|channel| conv.keep(&mut kept, row, channel, x[first + channel]));
    changes
}

/// Every row's channels, queries and keys of length 1, and (g, s) of each head.
pub fn conv(call: &Call) {
    let (h, conv, channels) = (Heads::of(call), Conv::of(call), call.usize("CHANNELS"));
    let kept = call.view::<f32>("conv");
    let (mut y, mut strengths) = (call.view_mut::<f32>("y"), call.view_mut::<[f32; 2]>("strengths"));
    for row in 0..call.state().rows.min(call.grid[1]) as usize {
        let mut all: Vec<f64> = (0..channels).map(|c| convolved(call, &conv, &kept, row, c)).collect();
        if h.delta {
            for at in (0..h.key_heads).flat_map(|head| [h.q + head * h.key, h.k + head * h.key]) {
                unit(&mut all[at..at + h.key]);
            }
        }
        y[row * channels..][..channels].iter_mut().zip(&all).for_each(|(y, x)| *y = *x as f32);
        for head in 0..h.heads {
            strengths[row * h.heads + head] = gates(call, row, head).map(|x| x as f32);
        }
    }
}

const C: usize = CHUNK as usize;

/// A head's rows of a chunk: queries, keys, (sum of g from the first row on, s), and how many there are.
struct Rows {
    q: Vec<Vec<f64>>,
    k: Vec<Vec<f64>>,
    v: Vec<Vec<f64>>,
    sums: Vec<f64>,
    strengths: Vec<f64>,
}

fn chunk_of(call: &Call, h: &Heads, head: usize, chunk: usize) -> Rows {
    let (x, strengths, channels) = (call.view::<f32>("x"), call.view::<[f32; 2]>("strengths"), call.usize("CHANNELS"));
    let range = chunk * C..(call.state().rows as usize).min((chunk + 1) * C);
    let [q, k, v] = h.at(head);
    let read = |at: usize, n: usize| {
        range.clone().map(|t| x[t * channels + at..][..n].iter().map(|x| f64::from(*x)).collect()).collect()
    };
    let of = |i: usize| range.clone().map(move |t| (t, i));
    let gate = |(t, i): (usize, usize)| f64::from(strengths[t * h.heads + head][i]);
    let sums = of(0).map(gate).scan(0.0, |sum, g| {
        *sum += g;
        Some(*sum)
    });
    Rows {
        q: read(q, h.key),
        k: read(k, h.key),
        v: read(v, h.value),
        sums: sums.collect(),
        strengths: of(1).map(gate).collect(),
    }
}

/// (I + A)^-1 and M of each chunk and head.
pub fn intra(call: &Call) {
    let h = Heads::of(call);
    let mut within = call.view_mut::<f32>("within");
    for chunk in 0..(call.state().rows as usize).div_ceil(C).min(call.grid[1] as usize) {
        for head in 0..h.heads {
            let r = chunk_of(call, &h, head, chunk);
            let n = r.k.len();
            let out = &mut within[(chunk * h.heads + head) * 2 * C * C..][..2 * C * C];
            let (inverse, m) = out.split_at_mut(C * C);
            m.fill(0.0);
            for i in 0..n {
                for j in 0..=i {
                    m[i * C + j] = (call.f64("SCALE") * (r.sums[i] - r.sums[j]).exp() * dot(&r.q[i], &r.k[j])) as f32;
                }
            }
            if !h.delta {
                continue;
            }
            let mut wide = vec![0.0; C * C];
            for i in 0..C {
                for j in 0..=i {
                    let a = |l: usize| {
                        if i < n { r.strengths[i] * (r.sums[i] - r.sums[l]).exp() * dot(&r.k[i], &r.k[l]) } else { 0.0 }
                    };
                    wide[i * C + j] = f64::from(u8::from(i == j)) - (j..i).map(|l| a(l) * wide[l * C + j]).sum::<f64>();
                }
            }
            inverse.iter_mut().zip(&wide).for_each(|(y, x)| *y = *x as f32);
        }
    }
}

/// Chunk after chunk.
pub fn scan(call: &Call) {
    let (h, slot) = (Heads::of(call), call.state().slot as usize);
    let (within, of_heads) = (call.view::<f32>("within"), call.view::<f32>("heads"));
    let (mut s, mut y) = (call.view_mut::<f32>("s"), call.view_mut::<f32>("y"));
    for head in 0..h.heads {
        let state = &mut s[(slot * h.heads + head) * h.value * h.key..][..h.value * h.key];
        let mut columns: Vec<Vec<f64>> =
            state.chunks_exact(h.key).map(|column| column.iter().map(|s| f64::from(*s)).collect()).collect();
        for chunk in 0..(call.state().rows as usize).div_ceil(C) {
            let r = chunk_of(call, &h, head, chunk);
            let n = r.k.len();
            let prepared = &within[(chunk * h.heads + head) * 2 * C * C..][..2 * C * C];
            for (c, column) in columns.iter_mut().enumerate() {
                let rest: Vec<f64> = (0..n)
                    .map(|i| {
                        r.strengths[i]
                            * (r.v[i][c] - if h.delta { r.sums[i].exp() * dot(column, &r.k[i]) } else { 0.0 })
                    })
                    .collect();
                let times = |at: usize, i: usize, x: &[f64]| {
                    x.iter().enumerate().map(|(j, x)| f64::from(prepared[at + i * C + j]) * x).sum::<f64>()
                };
                let u: Vec<f64> = if h.delta { (0..n).map(|i| times(0, i, &rest)).collect() } else { rest };
                for i in 0..n {
                    let direct = if h.delta { 0.0 } else { f64::from(of_heads[2 * h.heads + head]) * r.v[i][c] };
                    let sum = call.f64("SCALE") * r.sums[i].exp() * dot(column, &r.q[i]) + times(C * C, i, &u) + direct;
                    y[((chunk * C + i) * h.heads + head) * h.value + c] = sum as f32;
                }
                let last = r.sums[n - 1];
                column.iter_mut().enumerate().for_each(|(at, s)| {
                    *s = last.exp() * *s + (0..n).map(|i| (last - r.sums[i]).exp() * u[i] * r.k[i][at]).sum::<f64>();
                });
            }
        }
        state.iter_mut().zip(columns.iter().flatten()).for_each(|(s, wide)| *s = *wide as f32);
    }
}
