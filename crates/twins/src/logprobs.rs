//! The twins of `logprobs` and `logprobs_append`.

use super::Call;
use super::sampling::{ordered, params, scaled};
use crate::numbers::{AFTER_END, MAX_TOP_LOGPROBS};

const TOP: usize = MAX_TOP_LOGPROBS as usize;
const SLICES: usize = crate::numbers::SLICES as usize;

/// For each workgroup's tokens the largest logit, the sum of exp(logit - largest), and the best tokens.
pub fn run(call: &Call) {
    let wanted = (params(call).top_logprobs as usize).min(TOP);
    let raw = call.view::<f32>("raw");
    let groups = call.grid[0] as usize;
    let mut sums = call.view_mut::<[u32; 2]>("sums");
    let mut tops = call.view_mut::<[u32; 2]>("tops");
    let mut slices = vec![Vec::new(); groups];
    for (i, x) in raw[..call.usize("V")].iter().enumerate() {
        if !x.is_nan() {
            slices[call.slice(i)].push((ordered(*x), i));
        }
    }
    for (w, slice) in slices.iter_mut().enumerate() {
        slice.sort_unstable_by_key(|&(key, id)| (std::cmp::Reverse(key), id));
        let largest = slice.first().map_or(0, |best| best.0);
        let sum: f64 = slice.iter().map(|&(_, id)| scaled(raw[id], largest, 1.0).exp()).sum();
        sums[w] = [largest, (sum as f32).to_bits()];
        for n in 0..wanted {
            tops[w * TOP + n] = slice.get(n).map_or([0, AFTER_END], |&(key, id)| [key, id as u32]);
        }
    }
}

/// Appends the log probabilities of the best candidate and of the likeliest tokens.
pub fn append(call: &Call) {
    let params = params(call);
    let wanted = (params.top_logprobs as usize).min(TOP);
    let cand = call.view::<[u32; 2]>("cand");
    let raw = call.view::<f32>("raw");
    let sums = call.view::<[u32; 2]>("sums");
    let tops = call.view::<[u32; 2]>("tops");
    let mut ids = call.write("ids");
    let mut logprobs = call.view_mut::<f32>("logprobs");
    let slot = (call.state().step % params.ring_len.max(1)) as usize;
    let largest = sums[..SLICES].iter().map(|s| s[0]).max().unwrap_or(0);
    let number = super::sampling::unordered;
    let whole: f64 = sums[..SLICES]
        .iter()
        .filter(|s| s[0] != 0)
        .map(|s| f64::from(f32::from_bits(s[1])) * scaled(number(s[0]), largest, 1.0).exp())
        .sum::<f64>()
        .ln();
    let chosen =
        cand[..SLICES].iter().copied().max_by_key(|c| (c[0], std::cmp::Reverse(c[1]))).map_or(AFTER_END, |c| c[1]);
    if chosen != AFTER_END {
        logprobs[slot * (TOP + 1)] = (scaled(raw[chosen as usize], largest, 1.0) - whole) as f32;
    }
    let mut best: Vec<[u32; 2]> = (0..SLICES).flat_map(|w| tops[w * TOP..w * TOP + wanted].iter().copied()).collect();
    best.sort_unstable_by_key(|&[key, id]| (std::cmp::Reverse(key), id));
    for (n, [key, id]) in best.into_iter().take(wanted).enumerate() {
        ids[slot * TOP + n] = id;
        if id != AFTER_END {
            logprobs[slot * (TOP + 1) + 1 + n] = (scaled(number(key), largest, 1.0) - whole) as f32;
        }
    }
}
