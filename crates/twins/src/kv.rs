//! The KV cache: f32, two halves a word, or int8 with a scale for each 32.

use std::cell::RefMut;

use half::f16;

use super::Call;
use super::quantize::quantize_block;
use crate::splits::Rule;
use millrace_core::blocks::decode::BLOCK;

/// The largest half: what is stored beyond it saturates.
const MAX_HALF: f32 = 65504.0;

/// Keys or values of all heads of a sequence in `[SLOTS][G][CAP][E padded]`; position p stands in row p % capacity.
pub struct Cache<'a> {
    kv: &'a str,
    words: RefMut<'a, Vec<u32>>,
    scales: Option<RefMut<'a, Vec<u32>>>,
    capacity: usize,
    width: usize,
    /// Heads of a sequence, and of the sequences before.
    heads: usize,
    first_head: usize,
}

impl<'a> Cache<'a> {
    /// The cache of keys (`k`) or values (`v`) of a call.
    pub fn of(call: &'a Call<'a>, which: &str) -> Self {
        let kv = call.axis("kv");
        let scales = (kv == "q8").then(|| call.write(&format!("{which}s")));
        let mut cache = Self {
            kv,
            words: call.write(&format!("{which}c")),
            scales,
            capacity: 0,
            width: call.usize("E"),
            heads: call.usize("G"),
            first_head: call.state().slot as usize * call.usize("G"),
        };
        let per_word = match kv {
            "q8" => 4,
            "f16" => 2,
            _ => 1,
        };
        cache.capacity = cache.words.len() * per_word / (call.usize("SLOTS") * call.usize("G") * cache.padded());
        cache
    }

    /// Is that of the sequence in that slot from now on.
    pub fn enter(&mut self, slot: usize) {
        self.first_head = slot * self.heads;
    }

    /// Elements of a row.
    fn padded(&self) -> usize {
        self.width.next_multiple_of(if self.kv == "q8" { BLOCK } else { 8 })
    }

    /// Where the row of `position` begins, in elements.
    fn row(&self, head: usize, position: usize) -> usize {
        ((self.first_head + head) * self.capacity + position % self.capacity) * self.padded()
    }

    /// A head's row at a position.
    pub fn get(&self, head: usize, position: usize) -> Vec<f64> {
        let row = self.row(head, position);
        let element = |i: usize| match &self.scales {
            Some(scales) => f32::from((self.words[i / 4] >> (8 * (i % 4))) as i8) * f32::from_bits(scales[i / BLOCK]),
            None => load(self.kv, &self.words, i),
        };
        (row..row + self.width).map(|i| f64::from(element(i))).collect()
    }

    /// Sets a head's row at a position, with the zeros that pad it where `padding` says so.
    pub fn set(&mut self, head: usize, position: usize, values: &[f32], padding: bool) {
        let row = self.row(head, position);
        let Some(scales) = &mut self.scales else {
            let padded = if padding { self.width.next_multiple_of(8) } else { self.width };
            for i in 0..padded {
                store(self.kv, &mut self.words, row + i, values.get(i).copied().unwrap_or(0.0));
            }
            return;
        };
        for (b, values) in values.chunks(BLOCK).enumerate() {
            let mut block = [0.0; BLOCK];
            block[..values.len()].copy_from_slice(values);
            let quantized = quantize_block(&block);
            scales[row / BLOCK + b] = quantized.scale.to_bits();
            let first = row / 4 + b * BLOCK / 4;
            bytemuck::cast_slice_mut(&mut self.words[first..first + BLOCK / 4]).copy_from_slice(&quantized.ints);
        }
    }
}

/// Element `i` of words that hold f32 or halves.
pub fn load(kind: &str, words: &[u32], i: usize) -> f32 {
    match kind {
        "f16" => f16::from_bits((words[i / 2] >> (16 * (i % 2))) as u16).to_f32(),
        _ => f32::from_bits(words[i]),
    }
}

/// Sets element `i` of words that hold f32 or halves.
pub fn store(kind: &str, words: &mut [u32], i: usize, value: f32) {
    match kind {
        "f16" => {
            let bits = f16::from_f32(value.clamp(-MAX_HALF, MAX_HALF)).to_bits();
            let shift = 16 * (i % 2);
            words[i / 2] = words[i / 2] & !(0xffff << shift) | u32::from(bits) << shift;
        }
        _ => words[i] = value.to_bits(),
    }
}

/// A score as the model caps it; 0 caps nothing.
pub fn capped(score: f64, cap: f64) -> f64 {
    if cap == 0.0 { score } else { cap * (score / cap).tanh() }
}

/// What row `t` of a pass sees. Where rows are of several texts its text's keys, and where SPANS is 2 those behind its
/// own, too; where it is 3 what is behind it in its picture, where it is 4 all of that.
pub fn sees(call: &Call, t: usize) -> std::ops::RangeInclusive<usize> {
    let position = call.state().pos as usize + t;
    let all = seen(call, position);
    match call.u32("SPANS") {
        0 => all,
        spans @ (3 | 4) => {
            let [begin, end] = call.view::<[u32; 2]>("spans")[t].map(|at| at as usize);
            let first = if spans == 4 && end > position { begin.min(*all.start()) } else { *all.start() };
            first..=position.max(end.saturating_sub(1))
        }
        spans => {
            let [first, end] = call.view::<[u32; 2]>("spans")[t].map(|at| at as usize);
            let last = if spans == 2 { end.min(position.saturating_add(call.usize("WINDOW"))) - 1 } else { position };
            first.max(*all.start())..=last
        }
    }
}

/// What the row at `position` sees.
pub fn seen(call: &Call, position: usize) -> std::ops::RangeInclusive<usize> {
    (position + 1).saturating_sub(call.usize("WINDOW"))..=position
}

/// Keys a split of what row `t` sees, and splits of it: all rows are cut as the last is, or, where each has room of its
/// own, as if it were alone.
pub fn cut(call: &Call, t: usize, groups: u32) -> (usize, usize) {
    let rule = Rule { least: call.u32("LEAST"), most: call.u32("MOST"), fill: call.u32("FILL") };
    let state = call.state();
    let (decides, rows) = if call.u32("ROOM") == 0 { (state.rows as usize - 1, state.rows) } else { (t, 1) };
    let most = seen(call, state.position_of(decides)).count();
    let split = rule.keys_a_split(most as u32, groups * rows) as usize;
    (split, most.div_ceil(split))
}
