use super::{Call, kv, qk_norm};
use crate::numbers::HEAD_ROOM;

/// Norms heads where they are normed, rotates queries in place, and rotates and appends keys, and appends values, to
/// the cache at position pos + t. In a pass of several texts each is rotated from its own beginning on.
pub fn run(call: &Call) {
    let (h, g, e) = (call.usize("H"), call.usize("G"), call.usize("E"));
    let stride = call.usize("QSTRIDE");
    let interleaved = call.u32("INTERLEAVED") != 0;
    let nw = call.view::<f32>("nw");
    let state = call.state();
    let table = call.view::<[f32; 2]>("rot");
    let mut qkv = call.view_mut::<f32>("qkv");
    let (mut kc, mut vc) = (kv::Cache::of(call, "k"), kv::Cache::of(call, "v"));
    for t in 0..state.rows.min(call.grid[0]) as usize {
        if state.rests(t) {
            continue;
        }
        let place = state.position_of(t);
        kc.enter(state.slot_of(t));
        vc.enter(state.slot_of(t));
        let begins = if call.u32("SPANS") == 0 { 0 } else { call.view::<[u32; 2]>("spans")[t][0] as usize };
        let position = if call.u32("AXES") == 0 {
            state.rotated_at(t) - begins
        } else {
            call.view::<[u32; 4]>("spans")[t][0] as usize
        };
        let angles = angles(call, t, position, &table);
        for head in 0..(h + 2 * g).min(call.grid[1] as usize) {
            let base = t * stride + head * e;
            let mut x = qkv[base..base + e].to_vec();
            norm(call, &mut x, &nw, head);
            if head < h + g {
                // Halves that have pairs of their own are rotated each alone.
                let halves = if call.u32("AXES") == 3 { 2 } else { 1 };
                let each = (angles.len() / halves).max(1);
                x.chunks_mut(2 * each).zip(angles.chunks(each)).for_each(|(x, angles)| rotate(x, angles, interleaved));
                after(call, &mut x, &nw, (head < h).then_some(position));
            }
            if head < h {
                qkv[base..base + e].copy_from_slice(&x);
                continue;
            }
            let (cache, kv_head) = if head < h + g { (&mut kc, head - h) } else { (&mut vc, head - h - g) };
            cache.set(kv_head, place, &x, false);
        }
    }
}

/// (cos, sin) of each pair in row `t`: of its position, or of those that it has on three axes.
fn angles(call: &Call, t: usize, position: usize, table: &[[f32; 2]]) -> Vec<[f32; 2]> {
    let half = call.usize("ROT") / 2;
    let (rows, columns) = (call.usize("ROW_PAIRS"), call.usize("COLUMN_PAIRS"));
    let axis = |pair: usize| match call.u32("AXES") {
        1 if pair % 3 == 1 && pair < 3 * rows => 1,
        1 if pair % 3 == 2 && pair < 3 * columns => 2,
        2 if pair + columns >= half => 2,
        2 if pair + columns + rows >= half => 1,
        3 if 2 * pair < half => 2,
        3 => 1,
        _ => 0,
    };
    let place = if call.u32("AXES") == 0 { [position as u32; 4] } else { call.view::<[u32; 4]>("spans")[t] };
    (0..half).map(|pair| table[place[axis(pair)] as usize * half + pair]).collect()
}

/// The norm of head number `head` of queries, keys and values, where it has one.
pub fn norm(call: &Call, x: &mut [f32], weights: &[f32], head: usize) {
    let (h, g) = (call.usize("H"), call.usize("G"));
    if call.u32(if head < h + g { "QK_NORM" } else { "V_NORM" }) == 1 {
        let weighted = head < h + g && call.u32("LATE") == 0;
        let at = if head < h { 0 } else { HEAD_ROOM as usize };
        qk_norm::rms_norm(x, weighted.then(|| &weights[at..]), call.f32("EPS"));
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
