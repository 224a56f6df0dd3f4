use super::{Call, kv};
use crate::base::numbers::HEAD_ROOM;

/// Rotates queries in place, and rotates and appends keys, and appends values, to the cache at position pos + t.
pub fn run(call: &Call) {
    let (h, g, e, rot) = (call.usize("H"), call.usize("G"), call.usize("E"), call.usize("ROT"));
    let stride = call.usize("QSTRIDE");
    let interleaved = call.u32("INTERLEAVED") != 0;
    let nw = call.view::<f32>("nw");
    let state = call.state();
    let table = call.view::<[f32; 2]>("rot");
    let mut qkv = call.view_mut::<f32>("qkv");
    let (mut kc, mut vc) = (kv::Cache::of(call, "k"), kv::Cache::of(call, "v"));
    for t in 0..state.rows.min(call.grid[0]) as usize {
        let position = state.pos as usize + t;
        for head in 0..h + 2 * g {
            let base = t * stride + head * e;
            let mut x = qkv[base..base + e].to_vec();
            if head < h + g {
                rotate(&mut x, &table[position * rot / 2..][..rot / 2], interleaved);
                after(call, &mut x, &nw, (head < h).then_some(position));
            }
            if head < h {
                qkv[base..base + e].copy_from_slice(&x);
                continue;
            }
            let (cache, kv_head) = if head < h + g { (&mut kc, head - h) } else { (&mut vc, head - h - g) };
            cache.set(kv_head, position, &x, false);
        }
    }
}

/// What comes after the rotation: weights of the norm, and the growth of queries, of which the position is given.
pub fn after(call: &Call, x: &mut [f32], weights: &[f32], query: Option<usize>) {
    if call.u32("LATE") == 1 {
        let weights = &weights[if query.is_some() { 0 } else { HEAD_ROOM as usize }..];
        x.iter_mut().zip(weights).for_each(|(x, w)| *x *= w);
    }
    if let Some(position) = query {
        let steps = position / call.usize("GROWS_AT");
        let growth = 1.0 + call.f64("GROWTH") * (1.0 + steps as f64).ln();
        x.iter_mut().for_each(|x| *x = (f64::from(*x) * growth) as f32);
    }
}

/// Rotates a head; `table` holds (cos, sin) of each pair at the head's position.
pub fn rotate(x: &mut [f32], table: &[[f32; 2]], interleaved: bool) {
    for (i, angle) in table.iter().enumerate() {
        let [cos, sin] = angle.map(f64::from);
        let (first, second) = if interleaved { (2 * i, 2 * i + 1) } else { (i, i + table.len()) };
        let (a, b) = (f64::from(x[first]), f64::from(x[second]));
        x[first] = (a * cos - b * sin) as f32;
        x[second] = (a * sin + b * cos) as f32;
    }
}
