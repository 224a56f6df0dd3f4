use super::Call;
use super::activate::sigmoid;
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

/// RMSNorm of groups of each row and its gate, in the order that FIRST says, or the gate alone.
pub fn gated(call: &Call) {
    let (width, group, stride, z_at) = (call.usize("WIDTH"), call.usize("GROUP"), call.usize("STRIDE"), call.usize("Z_AT"));
    let (own, first, normed) = (call.u32("OWN") == 1, call.u32("FIRST") == 1, call.u32("NORMED") == 1);
    let (inner, outer) = (call.f64("INNER"), call.f64("OUTER"));
    let (x, z, nw) = (call.view::<f32>("x"), call.view::<f32>("z"), call.view::<f32>("nw"));
    let rows = call.state().rows.min(call.grid[1]) as usize;
    let row = |t: usize| {
        let gate = |i: usize| {
            let z = inner * f64::from(z[t * stride + z_at + i]);
            z * sigmoid(z)
        };
        let value = |i: usize| f64::from(x[t * width + i]) * if first { gate(i) } else { 1.0 };
        let mut y = Vec::with_capacity(width);
        for start in (0..width).step_by(group) {
            let squares: f64 = (start..start + group).map(|i| value(i).powi(2)).sum();
            let r = if normed { (squares / group as f64 + f64::from(call.f32("EPS"))).sqrt().recip() } else { outer };
            let weight = |i: usize| if normed { f64::from(nw[if own { i } else { i - start }]) } else { 1.0 };
            y.extend((start..start + group).map(|i| (value(i) * r * weight(i) * if first { 1.0 } else { gate(i) }) as f32));
        }
        y
    };
    write_rows(call, width / 32, (0..rows).map(row));
}
