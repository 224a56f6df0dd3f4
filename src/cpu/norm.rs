use super::Call;
use super::quantize::write_rows;

/// y = h / sqrt(mean(h^2) + EPS) * nw for every row, or for the last alone.
pub fn run(call: &Call) {
    let (d, stride, last) = (call.usize("D"), call.usize("STRIDE"), call.u32("LAST") == 1);
    let (h, nw) = (call.view::<f32>("h"), call.view::<f32>("nw"));
    let rows = call.state().rows as usize;
    let inputs = if last { rows - 1..rows } else { 0..rows.min(call.grid[0] as usize) };
    write_rows(
        call,
        call.usize("KB"),
        inputs.map(|t| {
            let row = &h[t * stride..t * stride + d];
            let mean = row.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / d as f64;
            let r = (mean + f64::from(call.f32("EPS"))).sqrt().recip();
            row.iter().zip(&nw[..d]).map(|(v, w)| (f64::from(*v) * r * f64::from(*w)) as f32).collect()
        }),
    );
}
