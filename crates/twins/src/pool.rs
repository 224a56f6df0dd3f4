use super::Call;

/// The mean of each text's rows.
pub fn run(call: &Call) {
    let (d, stride) = (call.usize("D"), call.usize("STRIDE"));
    let (h, taken) = (call.view::<f32>("h"), call.view::<[u32; 2]>("taken"));
    let mut y = call.view_mut::<f32>("y");
    for t in 0..call.state().rows.min(call.grid[0]) as usize {
        let [first, end] = taken[t].map(|row| row as usize);
        let mean = |i: usize| (first..end).map(|row| f64::from(h[row * stride + i])).sum::<f64>() / (end - first) as f64;
        (0..stride).for_each(|i| y[t * stride + i] = if i < d { mean(i) as f32 } else { 0.0 });
    }
}
