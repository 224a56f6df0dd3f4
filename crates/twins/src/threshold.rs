//! The twins of `tally`, `narrow` and `threshold`: the search for what survives top-k, top-p and min-p.

use bytemuck::{Pod, Zeroable};

use super::Call;
use super::sampling::{ordered, params_of, scaled, unordered};
use crate::Sampling;
use crate::numbers;

const BINS: usize = numbers::BINS as usize;
const SLICES: usize = numbers::SLICES as usize;

/// Where the search stands: the twin of `Search` in common/search.wgsl.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub struct Search {
    pub round: u32,
    pub floor_key: u32,
    pub prefix: u32,
    pub unused: u32,
    pub missing: [u32; 2],
}

impl Search {
    /// Words of the buffer.
    pub const WORDS: usize = std::mem::size_of::<Self>() / 4;

    /// Of row `t`.
    fn of(call: &Call, t: usize) -> Self {
        bytemuck::pod_read_unaligned(bytemuck::cast_slice(&call.read("searches")[t * Self::WORDS..][..Self::WORDS]))
    }

    fn put(self, call: &Call, t: usize) {
        call.write("searches")[t * Self::WORDS..][..Self::WORDS]
            .copy_from_slice(&bytemuck::cast::<Self, [u32; Self::WORDS]>(self));
    }
}

/// Whether a token's weight in that round is its probability mass.
fn by_mass(params: &Sampling, v: u32, round: u32) -> bool {
    !params.searches_top_k(v) || round >= 4
}

fn word(pair: [u32; 2]) -> u64 {
    u64::from(pair[0]) | u64::from(pair[1]) << 32
}

fn pair(sum: u64) -> [u32; 2] {
    [sum as u32, (sum >> 32) as u32]
}

fn top_key(call: &Call, t: usize) -> u32 {
    call.view::<f32>("part")[t * SLICES..][..SLICES].iter().map(|x| ordered(*x)).max().unwrap_or(0)
}

/// A probability relative to the likeliest token's, in units of 2^-31.
fn mass(scaled: f64) -> u64 {
    (scaled.exp() * 2_147_483_648.0).round() as u64
}

/// What the tokens weigh that have each value of the round's eight bits, of those with the prefix, by workgroup: see
/// [`Call::slice`].
pub fn tally(call: &Call) {
    call.beside().for_each(|t| tally_row(call, t));
}

fn tally_row(call: &Call, t: usize) {
    let (params, search, v) = (params_of(call, t), Search::of(call, t), call.u32("V"));
    if params.temperature == 0.0 || search.round >= params.filter_rounds(v) {
        return;
    }
    let (top_key, shift) = (top_key(call, t), 24 - 8 * (search.round % 4));
    let groups = call.grid[0] as usize;
    let mut sums = vec![0_u64; groups * BINS];
    let stride = call.stride();
    for (i, x) in call.view::<f32>("logits")[t * stride..][..v as usize].iter().enumerate() {
        let key = ordered(*x);
        if key < search.floor_key.max(1) || (shift != 24 && key >> (shift + 8) != search.prefix) {
            continue;
        }
        let weight = if by_mass(&params, v, search.round) { mass(scaled(*x, top_key, params.temperature)) } else { 1 };
        sums[call.slice(i) * BINS + (key >> shift) as usize % BINS] += weight;
    }
    for (to, sum) in call.view_mut::<[u32; 2]>("tallies")[t * groups * BINS..].iter_mut().zip(sums) {
        *to = pair(sum);
    }
}

/// Finds the eight bits at which the tokens, from the highest key on, weigh enough together.
pub fn narrow(call: &Call) {
    call.beside().for_each(|t| narrow_row(call, t));
}

fn narrow_row(call: &Call, t: usize) {
    let (params, mut search, v) = (params_of(call, t), Search::of(call, t), call.u32("V"));
    if params.temperature == 0.0 || search.round >= params.filter_rounds(v) {
        return;
    }
    let tallies = call.view::<[u32; 2]>("tallies");
    let sums: Vec<u64> =
        (0..BINS).map(|bin| (0..SLICES).map(|w| word(tallies[(t * SLICES + w) * BINS + bin])).sum()).collect();
    let whole: u64 = sums.iter().sum();
    let mut missing = word(search.missing);
    if search.round.is_multiple_of(4) {
        missing = if by_mass(&params, v, search.round) {
            let fraction = (f64::from(params.top_p) * 4_294_967_296.0) as u128;
            (u128::from(whole) * fraction).div_ceil(1 << 32) as u64
        } else {
            u64::from(params.top_k).min(whole)
        };
        missing = missing.max(u64::from(whole > 0));
        search.prefix = 0;
    }
    let mut beyond = 0;
    let mut bin = 0;
    for (b, sum) in sums.iter().enumerate().rev().take(if missing == 0 { 0 } else { BINS }) {
        bin = b;
        if beyond + sum >= missing {
            break;
        }
        beyond += sum;
    }
    search.missing = pair(missing - beyond);
    search.prefix = search.prefix << 8 | bin as u32;
    search.round += 1;
    if search.round.is_multiple_of(4) {
        search.floor_key = search.floor_key.max(search.prefix);
    }
    search.put(call, t);
}

/// thr = (smallest key that survives top-k, top-p and min-p, key of the largest logit, 0, 0).
pub fn run(call: &Call) {
    call.beside().for_each(|t| run_row(call, t));
}

fn run_row(call: &Call, t: usize) {
    let params = params_of(call, t);
    let mut all = call.write("thr");
    let thr = &mut all[4 * t..];
    thr[..4].fill(0);
    if params.temperature == 0.0 {
        return;
    }
    let top_key = top_key(call, t);
    let mut key = if params.filter_rounds(call.u32("V")) == 0 { 0 } else { Search::of(call, t).floor_key };
    if params.min_p > 0.0 {
        let bound = f64::from(unordered(top_key)) + f64::from(params.temperature) * f64::from(params.min_p).ln();
        key = key.max(ordered(bound as f32).min(top_key));
    }
    thr[0] = key;
    thr[1] = top_key;
    Search::default().put(call, t);
}
