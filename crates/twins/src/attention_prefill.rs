use half::f16;

use super::activate::sigmoid;
use super::{Call, kv};

/// Attention of rows 0..T over what each sees.
pub fn run(call: &Call) {
    let (h, g, e) = (call.usize("H"), call.usize("G"), call.usize("E"));
    let (scale, cap) = (call.f64("SCALE"), call.f64("SOFTCAP"));
    let (stride, width) = (call.usize("QSTRIDE"), call.usize("KB") * 32);
    let (gate_at, factor) = (call.usize("GATE"), call.f64("FACTOR"));
    let state = call.state();
    let qkv = call.view::<f32>("qkv");
    let (kc, vc) = (kv::Cache::of(call, "k"), kv::Cache::of(call, "v"));
    // Eight bits become halves on their way into workgroup memory.
    let held = |x: f64| if call.axis("kv") == "q8" { f16::from_f64(x).to_f64() } else { x };
    let mut y = call.view_mut::<f32>("y");
    let rows = state.rows.min(call.grid[1] * call.variant.tile[1]);
    for t in 0..rows as usize {
        let seen = kv::sees(call, t);
        for head in 0..h {
            let query = &qkv[t * stride + head * e..][..e];
            let score = |key: usize| {
                let dot: f64 =
                    query.iter().zip(kc.get(head / (h / g), key)).map(|(q, k)| f64::from(*q) * held(k)).sum();
                kv::capped(dot * scale, cap)
            };
            let scores: Vec<f64> = seen.clone().map(score).collect();
            let sink = (call.u32("SINKS") == 1).then(|| f64::from(call.view::<f32>("sinks")[head]));
            let m = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - m).exp()).collect();
            let l: f64 = weights.iter().sum::<f64>() + sink.map_or(0.0, |sink| (sink - m).exp());
            let mut sums = vec![0.0; e];
            for (key, weight) in seen.clone().zip(&weights) {
                sums.iter_mut().zip(vc.get(head / (h / g), key)).for_each(|(sum, v)| *sum += weight * held(v));
            }
            let gated = |i: usize| {
                if gate_at == 0 { 1.0 } else { sigmoid(f64::from(qkv[t * stride + gate_at + head * e + i])) }
            };
            y[t * width + head * e..][..e]
                .iter_mut()
                .zip(&sums)
                .enumerate()
                .for_each(|(i, (o, sum))| *o = (factor * sum / l * gated(i)) as f32);
        }
        y[t * width + h * e..(t + 1) * width].fill(0.0);
    }
}
