use super::Call;

/// The mean of each text's rows, standardised where that is asked for.
pub fn run(call: &Call) {
    let (d, stride) = (call.usize("D"), call.usize("STRIDE"));
    let (h, taken) = (call.view::<f32>("h"), call.view::<[u32; 2]>("taken"));
    let (bias, factor, standardised) =
        (call.view::<f32>("bias"), call.view::<f32>("factor"), call.u32("STANDARDISED") == 1);
    let mut y = call.view_mut::<f32>("y");
    for t in 0..call.state().rows.min(call.grid[0]) as usize {
        let [first, end] = taken[t].map(|row| row as usize);
        let mean =
            |i: usize| (first..end).map(|row| f64::from(h[row * stride + i])).sum::<f64>() / (end - first) as f64;
        let made =
            |i: usize| if standardised { (mean(i) - f64::from(bias[i])) * f64::from(factor[i]) } else { mean(i) };
        (0..stride).for_each(|i| y[t * stride + i] = if i < d { made(i) as f32 } else { 0.0 });
    }
}
