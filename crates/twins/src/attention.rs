use super::{Call, kv, rope};
use crate::numbers::HEADS_A_READ;

/// Per row: rotates queries and the new key and appends key and value, unless that was done; then, per split of what
/// the row sees and query head: po = sum of exp(s - m) v, ml = (m, sum of exp(s - m)) over the split's keys.
pub fn run(call: &Call) {
    let (h, g, e) = (call.usize("H"), call.usize("G"), call.usize("E"));
    let (scale, cap) = (call.f64("SCALE"), call.f64("SOFTCAP"));
    let state = call.state();
    let (mut kc, mut vc) = (kv::Cache::of(call, "k"), kv::Cache::of(call, "v"));
    let (mut po, mut ml) = (call.view_mut::<f32>("po"), call.view_mut::<[f32; 2]>("ml"));
    // Where each row has room of its own it is cut as if it were alone.
    let apart = call.usize("ROOM");
    let room = if apart == 0 { (call.grid[1] / state.rows) as usize } else { apart };
    for t in 0..state.rows as usize {
        let (split, count) = splits(call, t);
        if state.rests(t) {
            continue;
        }
        let pos = state.position_of(t);
        kc.enter(state.slot_of(t));
        vc.enter(state.slot_of(t));
        let qkv = rotated(call, t);
        append(call, &qkv, pos, &mut kc, &mut vc);
        let seen = kv::seen(call, pos);
        let starts = seen.clone().step_by(split).take(room.min(count));
        for (s, first) in starts.enumerate() {
            let range = first..(first + split).min(pos + 1);
            for head in 0..h {
                let query = &qkv[head * e..][..e];
                let score = |key: usize| {
                    let dot: f64 = query.iter().zip(kc.get(head / (h / g), key)).map(|(q, k)| f64::from(*q) * k).sum();
                    kv::capped(dot * scale, cap)
                };
                let scores: Vec<f64> = range.clone().map(score).collect();
                let m = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|s| (s - m).exp()).collect();
                let mut sums = vec![0.0; e];
                for (key, weight) in range.clone().zip(&weights) {
                    sums.iter_mut().zip(vc.get(head / (h / g), key)).for_each(|(sum, v)| *sum += weight * v);
                }
                let at = (t * if apart == 0 { count } else { apart } + s) * h + head;
                po[at * e..][..e].iter_mut().zip(&sums).for_each(|(o, sum)| *o = *sum as f32);
                ml[at] = [m as f32, weights.iter().sum::<f64>() as f32];
            }
        }
    }
}

/// Keys of a split, and splits, of what row `t` sees.
pub fn splits(call: &Call, t: usize) -> (usize, usize) {
    let (h, g) = (call.usize("H"), call.usize("G"));
    kv::cut(call, t, (g * (h / g).div_ceil(HEADS_A_READ as usize)) as u32)
}

/// Whether it does what comes before attention: of the widest heads `rope` has done that.
fn fused(call: &Call) -> bool {
    call.axis("width") != "e512"
}

/// Queries, keys and values of row `t`, normed and rotated where that was not done.
pub fn rotated(call: &Call, t: usize) -> Vec<f32> {
    let (h, g, e) = (call.usize("H"), call.usize("G"), call.usize("E"));
    let mut qkv = call.view::<f32>("qkv")[t * call.usize("QSTRIDE")..][..(h + 2 * g) * e].to_vec();
    if !fused(call) {
        return qkv;
    }
    let half = call.usize("ROT") / 2;
    let (table, norms) = (call.view::<[f32; 2]>("rot"), call.view::<f32>("qkn"));
    let pos = call.state().rotated_at(t);
    let angles = if half == 0 { &[] } else { &table[pos * half..][..half] };
    for (i, head) in qkv.chunks_exact_mut(e).enumerate() {
        rope::norm(call, head, &norms, i);
        if i < h + g {
            rope::rotate(head, angles, call.u32("INTERLEAVED") != 0);
            rope::after(call, head, &norms, (i < h).then_some(pos));
        }
    }
    qkv
}

/// Appends a row's keys and values, unless that was done.
pub fn append(call: &Call, qkv: &[f32], pos: usize, kc: &mut kv::Cache, vc: &mut kv::Cache) {
    let (h, g, e) = (call.usize("H"), call.usize("G"), call.usize("E"));
    if fused(call) && call.u32("APPENDS") != 0 {
        for head in 0..g {
            kc.set(head, pos, &qkv[(h + head) * e..][..e], true);
            vc.set(head, pos, &qkv[(h + g + head) * e..][..e], true);
        }
    }
}
