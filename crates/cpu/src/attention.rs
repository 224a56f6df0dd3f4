//! Attention: a head's keys and values become floats once for all queries that read them.

use std::cell::Ref;
use std::ops::Range;

use millrace_twins::{Call, attention as twin, kv};

use crate::parallel::{Shared, parallel};
use crate::rows::sigmoid;
use crate::simd::{add_scaled, dot, exp, half, halves};
use crate::weights::BLOCK;

/// Keys or values as a call has them: `[SLOTS][G][rows][E padded]`, position p in row p % rows.
struct Cache<'a> {
    kind: &'a str,
    words: Ref<'a, Vec<u32>>,
    scales: Option<Ref<'a, Vec<u32>>>,
    rows: usize,
    padded: usize,
    width: usize,
    first_head: usize,
    /// Whether eight bits become halves on their way.
    held: bool,
}

impl<'a> Cache<'a> {
    fn of(call: &'a Call<'a>, which: &str, held: bool) -> Self {
        let (kind, width) = (call.axis("kv"), call.usize("E"));
        let (padded, in_word) = match kind {
            "q8" => (width.next_multiple_of(BLOCK), 4),
            "f16" => (width.next_multiple_of(8), 2),
            _ => (width.next_multiple_of(8), 1),
        };
        let words = call.read(&format!("{which}c"));
        let scales = (kind == "q8").then(|| call.read(&format!("{which}s")));
        let rows = words.len() * in_word / (call.usize("SLOTS") * call.usize("G") * padded);
        Self {
            kind,
            words,
            scales,
            rows,
            padded,
            width,
            first_head: call.state().slot as usize * call.usize("G"),
            held,
        }
    }

    /// A head's rows at those positions, one after the other, each as wide as a head.
    fn read(&self, head: usize, positions: Range<usize>, out: &mut Vec<f32>) {
        out.resize(positions.len() * self.width, 0.0);
        for (position, out) in positions.zip(out.chunks_exact_mut(self.width)) {
            let at = ((self.first_head + head) * self.rows + position % self.rows) * self.padded;
            match &self.scales {
                Some(scales) => {
                    let scales = &scales[at / BLOCK..];
                    let bytes: &[i8] = bytemuck::cast_slice(&self.words[at / 4..]);
                    for (i, (out, byte)) in out.iter_mut().zip(bytes).enumerate() {
                        let value = f32::from(*byte) * f32::from_bits(scales[i / BLOCK]);
                        *out = if self.held { rounded(value) } else { value };
                    }
                }
                None if self.kind == "f16" => {
                    let words = &self.words[at / 2..];
                    halves(words, out);
                    if self.width % 2 == 1 {
                        out[self.width - 1] = half(words[self.width / 2] & 0xffff);
                    }
                }
                None => out.copy_from_slice(bytemuck::cast_slice(&self.words[at..at + self.width])),
            }
        }
    }
}

/// The nearest half's value.
fn rounded(x: f32) -> f32 {
    // Twelve bits of the mantissa fewer, to the nearest, even where it is half-way. Products of int8 and a scale are
    // far from where halves end.
    let bits = x.to_bits();
    f32::from_bits(bits.wrapping_add(0xfff + (bits >> 13 & 1)) & !0x1fff)
}

fn capped(score: f32, cap: f32) -> f32 {
    if cap == 0.0 { score } else { cap * (score / cap).tanh() }
}

/// What a query makes of keys and values: the largest score, the sum of exp(score - largest), and those times the
/// values.
fn attend(
    query: &[f32],
    keys: &[f32],
    values: &[f32],
    [scale, cap]: [f32; 2],
    scores: &mut Vec<f32>,
    out: &mut [f32],
) -> [f32; 2] {
    let e = query.len();
    scores.clear();
    scores.extend(keys.chunks_exact(e).map(|key| capped(dot(query, key) * scale, cap)));
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    scores.iter_mut().for_each(|score| *score = exp(*score - most));
    out.fill(0.0);
    scores.iter().zip(values.chunks_exact(e)).for_each(|(weight, value)| add_scaled(out, value, *weight));
    [most, scores.iter().sum()]
}

/// Of few rows: po and ml of each split, as the twin has them.
pub fn few(call: &Call) {
    let (h, g, e) = (call.usize("H"), call.usize("G"), call.usize("E"));
    let factors = [call.f32("SCALE"), call.f32("SOFTCAP")];
    let state = call.state();
    let (split, count) = twin::splits(call, 0);
    let room = (call.grid[1] / state.rows) as usize;
    let (mut keys, mut values, mut scores) = (Vec::new(), Vec::new(), Vec::new());
    for t in 0..state.rows as usize {
        let pos = state.pos as usize + t;
        let qkv = twin::rotated(call, t);
        {
            let (mut kc, mut vc) = (kv::Cache::of(call, "k"), kv::Cache::of(call, "v"));
            twin::append(call, &qkv, pos, &mut kc, &mut vc);
        }
        let (kc, vc) = (Cache::of(call, "k", false), Cache::of(call, "v", false));
        let (mut po, mut ml) = (call.view_mut::<f32>("po"), call.view_mut::<[f32; 2]>("ml"));
        let seen = kv::seen(call, pos);
        for (s, first) in seen.step_by(split).take(room.min(count)).enumerate() {
            let range = first..(first + split).min(pos + 1);
            for group in 0..g {
                kc.read(group, range.clone(), &mut keys);
                vc.read(group, range.clone(), &mut values);
                for head in group * (h / g)..(group + 1) * (h / g) {
                    let at = (t * count + s) * h + head;
                    ml[at] =
                        attend(&qkv[head * e..][..e], &keys, &values, factors, &mut scores, &mut po[at * e..][..e]);
                }
            }
        }
    }
}

/// Of many rows.
pub fn many(call: &Call) {
    let (h, g, e) = (call.usize("H"), call.usize("G"), call.usize("E"));
    let factors = [call.f32("SCALE"), call.f32("SOFTCAP")];
    let (stride, width) = (call.usize("QSTRIDE"), call.usize("KB") * BLOCK);
    let (gate_at, factor) = (call.usize("GATE"), call.f32("FACTOR"));
    let state = call.state();
    let rows = state.rows.min(call.grid[1] * call.variant.tile[1]) as usize;
    let qkv = call.view::<f32>("qkv");
    // Eight bits become halves on their way into workgroup memory.
    let held = call.axis("kv") == "q8";
    let (kc, vc) = (Cache::of(call, "k", held), Cache::of(call, "v", held));
    let seen: Vec<_> = (0..rows).map(|t| kv::sees(call, t)).collect();
    let first = seen.iter().map(|seen| *seen.start()).min().unwrap_or(0);
    let end = seen.iter().map(|seen| seen.end() + 1).max().unwrap_or(0);
    let mut y = call.view_mut::<f32>("y");
    (0..rows).for_each(|t| y[t * width + h * e..(t + 1) * width].fill(0.0));
    let (mut all_keys, mut all_values) = (Vec::new(), Vec::new());
    let mut made = vec![0.0; rows * (h / g) * e];
    for group in 0..g {
        kc.read(group, first..end, &mut all_keys);
        vc.read(group, first..end, &mut all_values);
        let (keys, values, qkv) = (&all_keys[..], &all_values[..], &qkv[..]);
        let shared = Shared::new(&mut made);
        let each = (h / g) * e;
        parallel(rows, 1, rows * each * keys.len() / e.max(1) * 2, &|part| {
            let out = shared.part(part.start * each..part.end * each);
            let mut scores = Vec::new();
            for (t, out) in part.zip(out.chunks_exact_mut(each)) {
                let range = (seen[t].start() - first) * e..(seen[t].end() + 1 - first) * e;
                for (i, out) in out.chunks_exact_mut(e).enumerate() {
                    let query = &qkv[t * stride + (group * (h / g) + i) * e..][..e];
                    let [_, sum] =
                        attend(query, &keys[range.clone()], &values[range.clone()], factors, &mut scores, out);
                    out.iter_mut().for_each(|o| *o *= factor / sum);
                }
            }
        });
        for (t, made) in made.chunks_exact(each).enumerate() {
            let at = group * each;
            for (i, (y, v)) in y[t * width + at..][..each].iter_mut().zip(made).enumerate() {
                *y = v * if gate_at == 0 { 1.0 } else { sigmoid(qkv[t * stride + gate_at + at + i]) };
            }
        }
    }
}
