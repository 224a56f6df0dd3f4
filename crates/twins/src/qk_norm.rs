use super::Call;

/// Each span of queries and of keys divided by its root mean square, times the weights.
pub fn run(call: &Call) {
    let (q, k) = ((call.usize("QSPANS"), call.usize("QWIDTH")), (call.usize("KSPANS"), call.usize("KWIDTH")));
    let nw = call.view::<f32>("nw");
    let mut qkv = call.view_mut::<f32>("qkv");
    for t in 0..call.state().rows.min(call.grid[1]) as usize {
        let (queries, keys) = qkv[t * call.usize("QSTRIDE")..].split_at_mut(q.0 * q.1);
        for (row, (spans, width), weights) in [(queries, q, &nw[..]), (keys, k, &nw[call.usize("KAT")..])] {
            for span in row.chunks_exact_mut(width).take(spans) {
                rms_norm(span, Some(weights), call.f32("EPS"));
            }
        }
    }
}

/// RMSNorm in place, with weights or without.
pub fn rms_norm(x: &mut [f32], weights: Option<&[f32]>, eps: f32) {
    let mean = x.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / x.len() as f64;
    let r = (mean + f64::from(eps)).sqrt().recip();
    let weight = |i: usize| weights.map_or(1.0, |weights| f64::from(weights[i]));
    x.iter_mut().enumerate().for_each(|(i, x)| *x = (f64::from(*x) * r * weight(i)) as f32);
}
