use super::Call;
use super::quantize::write_rows;

/// y = h / sqrt(mean(h^2) + EPS) * nw for every row, or for the last alone; or, with CENTER, LayerNorm.
pub fn run(call: &Call) {
    let (d, stride, last) = (call.usize("D"), call.usize("STRIDE"), call.u32("LAST") == 1);
    let (h, nw, nb) = (call.view::<f32>("h"), call.view::<f32>("nw"), call.view::<f32>("nb"));
    let center = call.u32("CENTER") == 1;
    let rows = call.state().rows as usize;
    let inputs = if last { rows - 1..rows } else { 0..rows.min(call.grid[0] as usize) };
    write_rows(
        call,
        call.usize("KB"),
        inputs.map(|t| {
            let row = &h[t * stride..t * stride + d];
            let mean_of = |f: &dyn Fn(f64) -> f64| row.iter().map(|v| f(f64::from(*v))).sum::<f64>() / d as f64;
            let mean = if center { mean_of(&|v| v) } else { 0.0 };
            let r = (mean_of(&|v| (v - mean).powi(2)) + f64::from(call.f32("EPS"))).sqrt().recip();
            let value = |i: usize| (f64::from(row[i]) - mean) * r * f64::from(nw[i]) + if center { f64::from(nb[i]) } else { 0.0 };
            (0..d).map(|i| value(i) as f32).collect()
        }),
    );
}
