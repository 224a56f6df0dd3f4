use super::{Call, kv, qk_norm, rope};
use crate::base::numbers::{HEAD_ROOM, HEADS_A_READ};
use crate::kernels::splits::Rule;

/// Per row: rotates queries and the new key and appends key and value, unless that was done; then, per split of what the row sees and query
/// head: po = sum of exp(s - m) v, ml = (m, sum of exp(s - m)) over the split's keys.
pub fn run(call: &Call) {
    let (h, g, e) = (call.usize("H"), call.usize("G"), call.usize("E"));
    let (scale, cap) = (call.f64("SCALE"), call.f64("SOFTCAP"));
    let state = call.state();
    let groups = g * (h / g).div_ceil(HEADS_A_READ as usize);
    let half = call.usize("ROT") / 2;
    let table = call.view::<[f32; 2]>("rot");
    let all = call.view::<f32>("qkv");
    let norms = call.view::<f32>("qkn");
    let (mut kc, mut vc) = (kv::Cache::of(call, "k"), kv::Cache::of(call, "v"));
    let (mut po, mut ml) = (call.view_mut::<f32>("po"), call.view_mut::<[f32; 2]>("ml"));
    let room = (call.grid[1] / state.rows) as usize;
    let rule = Rule { least: call.u32("LEAST"), most: call.u32("MOST"), fill: call.u32("FILL") };
    let most = kv::seen(call, (state.pos + state.rows - 1) as usize).count() as u32;
    let split = rule.keys_a_split(most, groups as u32 * state.rows) as usize;
    let count = (most as usize).div_ceil(split);
    for t in 0..state.rows as usize {
        let pos = state.pos as usize + t;
        let mut qkv = all[t * call.usize("QSTRIDE")..][..(h + 2 * g) * e].to_vec();
        let angles = if half == 0 { &[] } else { &table[pos * half..][..half] };
        for (i, head) in qkv.chunks_exact_mut(e).take(h + g).enumerate() {
            if call.u32("QK_NORM") == 1 {
                let weights = &norms[if i < h { 0 } else { HEAD_ROOM as usize }..];
                qk_norm::rms_norm(head, (call.u32("LATE") == 0).then_some(weights), call.f32("EPS"));
            }
            rope::rotate(head, angles, call.u32("INTERLEAVED") != 0);
            rope::after(call, head, &norms, (i < h).then_some(pos));
        }
        if call.u32("APPENDS") == 1 {
            for head in 0..g {
                kc.set(head, pos, &qkv[(h + head) * e..][..e], true);
                vc.set(head, pos, &qkv[(h + g + head) * e..][..e], true);
            }
        }
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
                let at = (t * count + s) * h + head;
                po[at * e..][..e].iter_mut().zip(&sums).for_each(|(o, sum)| *o = *sum as f32);
                ml[at] = [m as f32, weights.iter().sum::<f64>() as f32];
            }
        }
    }
}
