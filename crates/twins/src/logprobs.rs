//! The twins of `logprobs` and `logprobs_append`.

use super::Call;
use super::sampling::{chosen, ordered, params, params_of, scaled, unordered};
use crate::numbers::{AFTER_END, FEW_ROWS, MAX_TOP_LOGPROBS};

const TOP: usize = MAX_TOP_LOGPROBS as usize;
const SLICES: usize = crate::numbers::SLICES as usize;

/// For each workgroup's tokens the largest logit, the sum of exp(logit - largest), and the best tokens.
pub fn run(call: &Call) {
    let all = call.view::<f32>("raw");
    let groups = call.grid[0] as usize;
    let mut sums = call.view_mut::<[u32; 2]>("sums");
    let mut tops = call.view_mut::<[u32; 2]>("tops");
    for t in call.beside() {
        let wanted = (params_of(call, t).top_logprobs as usize).min(TOP);
        let raw = &all[t * call.stride()..][..call.usize("V")];
        let mut slices = vec![Vec::new(); groups];
        for (i, x) in raw.iter().enumerate() {
            if !x.is_nan() {
                slices[call.slice(i)].push((ordered(*x), i));
            }
        }
        for (w, slice) in slices.iter_mut().enumerate() {
            slice.sort_unstable_by_key(|&(key, id)| (std::cmp::Reverse(key), id));
            let largest = slice.first().map_or(0, |best| best.0);
            let sum: f64 = slice.iter().map(|&(_, id)| scaled(raw[id], largest, 1.0).exp()).sum();
            sums[t * SLICES + w] = [largest, (sum as f32).to_bits()];
            for n in 0..wanted {
                tops[(t * SLICES + w) * TOP + n] = slice.get(n).map_or([0, AFTER_END], |&(key, id)| [key, id as u32]);
            }
        }
    }
}

/// Appends the log probabilities of the best candidate and of the likeliest tokens.
pub fn append(call: &Call) {
    let state = call.state();
    let ring = params(call).ring_len.max(1);
    for t in call.beside() {
        let entry = match call.u32("BESIDE") {
            0 => (state.step % ring) as usize,
            _ => (state.turn % ring * FEW_ROWS) as usize + t,
        };
        append_row(call, t, entry);
    }
}

/// Appends those of row `t` as an entry of the rings.
fn append_row(call: &Call, t: usize, entry: usize) {
    let wanted = (params_of(call, t).top_logprobs as usize).min(TOP);
    let (sums, tops) = (call.view::<[u32; 2]>("sums"), call.view::<[u32; 2]>("tops"));
    let (sums, tops) = (&sums[t * SLICES..][..SLICES], &tops[t * SLICES * TOP..][..SLICES * TOP]);
    let mut ids = call.write("ids");
    let mut logprobs = call.view_mut::<f32>("logprobs");
    let largest = sums.iter().map(|s| s[0]).max().unwrap_or(0);
    let whole: f64 = sums
        .iter()
        .filter(|s| s[0] != 0)
        .map(|s| f64::from(f32::from_bits(s[1])) * scaled(unordered(s[0]), largest, 1.0).exp())
        .sum::<f64>()
        .ln();
    if let Some(id) = chosen(&call.view::<[u32; 2]>("cand"), t) {
        let raw = call.view::<f32>("raw")[t * call.stride() + id as usize];
        logprobs[entry * (TOP + 1)] = (scaled(raw, largest, 1.0) - whole) as f32;
    }
    let mut best: Vec<[u32; 2]> = tops.chunks_exact(TOP).flat_map(|slice| slice[..wanted].iter().copied()).collect();
    best.sort_unstable_by_key(|&[key, id]| (std::cmp::Reverse(key), id));
    for (n, [key, id]) in best.into_iter().take(wanted).enumerate() {
        ids[entry * TOP + n] = id;
        if id != AFTER_END {
            logprobs[entry * (TOP + 1) + 1 + n] = (scaled(unordered(key), largest, 1.0) - whole) as f32;
        }
    }
}
