use super::{Call, kv};

/// Causal attention of rows 0..T: row t over keys 0..=pos + t.
pub fn run(call: &Call) {
    let (h, g, e) = (call.usize("H"), call.usize("G"), call.usize("E"));
    let (cap, scale) = (call.usize("CAP"), call.f64("SCALE"));
    let (stride, width) = (call.usize("QSTRIDE"), call.usize("KB") * 32);
    let state = call.state();
    let qkv = call.view::<f32>("qkv");
    let (kc, vc) = (call.read("kc"), call.read("vc"));
    let mut y = call.view_mut::<f32>("y");
    let rows = state.rows.min(call.grid[1] * call.variant.tile[1]);
    for t in 0..rows as usize {
        let keys = (state.pos as usize + t + 1).min(cap);
        for head in 0..h {
            let row = |key: usize| ((head / (h / g)) * cap + key) * e.next_multiple_of(8);
            let score = |key: usize| {
                let q = &qkv[t * stride + head * e..][..e];
                let dot: f64 = q.iter().enumerate().map(|(i, q)| f64::from(*q) * f64::from(kv::load(call.axis("kv"), &kc, row(key) + i))).sum();
                dot * scale
            };
            let scores: Vec<f64> = (0..keys).map(score).collect();
            let m = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - m).exp()).collect();
            let l: f64 = weights.iter().sum();
            for i in 0..e {
                let sum: f64 = weights.iter().enumerate().map(|(key, w)| w * f64::from(kv::load(call.axis("kv"), &vc, row(key) + i))).sum();
                y[t * width + head * e + i] = (sum / l) as f32;
            }
        }
        y[t * width + h * e..(t + 1) * width].fill(0.0);
    }
}
