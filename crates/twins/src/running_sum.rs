use super::Call;

/// S += x / 4, modulo 2; h += |S| - 1/2, row after row.
pub fn run(call: &Call) {
    let (d, stride) = (call.usize("D"), call.usize("STRIDE"));
    let state = call.state();
    let x = call.view::<f32>("x");
    let (mut h, mut s) = (call.view_mut::<f32>("h"), call.view_mut::<f32>("s"));
    for (i, sum) in s[state.slot as usize * d..][..d].iter_mut().enumerate() {
        for t in 0..state.rows as usize {
            let at = t * stride + i;
            let next = f64::from(*sum) + 0.25 * f64::from(x[at]);
            *sum = (next - 2.0 * (next * 0.5).round_ties_even()) as f32;
            h[at] += sum.abs() - 0.5;
        }
    }
}
