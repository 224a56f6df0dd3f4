use super::{Call, kv, rope};
use crate::kernels::splits::keys_a_split;

/// Rotates queries and the new key, appends key and value; then, per split of the cache and query head: po = sum of exp(s - m) v,
/// ml = (m, sum of exp(s - m)) over the split's keys.
pub fn run(call: &Call) {
    let (h, g, e) = (call.usize("H"), call.usize("G"), call.usize("E"));
    let (cap, scale) = (call.usize("CAP"), call.f64("SCALE"));
    let pos = call.state().pos as usize;
    let keys = pos + 1;
    let groups = g * (h / g).div_ceil(4);
    let split = keys_a_split(keys as u32, groups as u32, call.u32("LEAST")) as usize;
    let stride = e.next_multiple_of(8);
    let mut qkv = call.view::<f32>("qkv").to_vec();
    let half = call.usize("ROT") / 2;
    let table = call.view::<[f32; 2]>("rot");
    let angles = if half == 0 { &[] } else { &table[pos * half..][..half] };
    for head in qkv.chunks_exact_mut(e).take(h + g) {
        rope::rotate(head, angles, call.u32("INTERLEAVED") != 0);
    }
    let (mut kc, mut vc) = (call.write("kc"), call.write("vc"));
    for i in 0..g * stride {
        let (head, element) = (i / stride, i % stride);
        // Rows are padded with zeros.
        let of = |heads: usize| if element < e { qkv[(heads + head) * e + element] } else { 0.0 };
        let at = (head * cap + pos) * stride + element;
        kv::store(call.axis("kv"), &mut kc, at, of(h));
        kv::store(call.axis("kv"), &mut vc, at, of(h + g));
    }
    let row = |head: usize, key: usize| ((head / (h / g)) * cap + key) * stride;
    let score = |head: usize, key: usize| {
        let dot: f64 = (0..e).map(|i| f64::from(qkv[head * e + i]) * f64::from(kv::load(call.axis("kv"), &kc, row(head, key) + i))).sum();
        dot * scale
    };
    let (mut po, mut ml) = (call.view_mut::<f32>("po"), call.view_mut::<[f32; 2]>("ml"));
    for s in 0..keys.div_ceil(split).min(call.grid[1] as usize) {
        let range = s * split..keys.min((s + 1) * split);
        for head in 0..h {
            let scores: Vec<f64> = range.clone().map(|key| score(head, key)).collect();
            let m = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - m).exp()).collect();
            for i in 0..e {
                let sum: f64 = range.clone().zip(&weights).map(|(key, w)| w * f64::from(kv::load(call.axis("kv"), &vc, row(head, key) + i))).sum();
                po[(s * h + head) * e + i] = sum as f32;
            }
            ml[s * h + head] = [m as f32, weights.iter().sum::<f64>() as f32];
        }
    }
}
