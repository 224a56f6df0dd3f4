use super::Call;
use super::activate::sigmoid;
use super::quantize::write_rows;

/// y = h / sqrt(mean(h^2) + EPS) * nw for every row, or for the last alone; or, with CENTER, LayerNorm.
pub fn run(call: &Call) {
    let (d, stride, last) = (call.usize("D"), call.usize("STRIDE"), call.u32("LAST") == 1);
    let (h, nw, nb) = (call.view::<f32>("h"), call.view::<f32>("nw"), call.view::<f32>("nb"));
    let center = call.u32("CENTER") == 1;
    let rows = call.state().rows as usize;
    let scaled = call.axis("out") == "add" && call.u32("SCALED") == 1;
    let inputs = if last { rows - 1..rows } else { 0..rows.min(call.grid[0] as usize) };
    write_rows(
        call,
        call.usize("KB"),
        inputs.map(|t| {
            let row = &h[t * stride..t * stride + d];
            let mean_of = |f: &dyn Fn(f64) -> f64| row.iter().map(|v| f(f64::from(*v))).sum::<f64>() / d as f64;
            let mean = if center { mean_of(&|v| v) } else { 0.0 };
            let r = (mean_of(&|v| (v - mean).powi(2)) + f64::from(call.f32("EPS"))).sqrt().recip();
            let value = |i: usize| {
                (f64::from(row[i]) - mean) * r * f64::from(nw[i]) + if center { f64::from(nb[i]) } else { 0.0 }
            };
            (0..d).map(|i| value(i) as f32).collect()
        }),
    );
    if scaled {
        let kb = call.usize("KB");
        let mut y = call.view_mut::<f32>("y");
        y[..rows.min(call.grid[0] as usize) * kb * 32].iter_mut().for_each(|y| *y *= nw[d]);
    }
}

/// RMSNorm of groups of each row and its gate, in the order that FIRST says, or the gate alone.
pub fn gated(call: &Call) {
    let (width, group) = (call.usize("WIDTH"), call.usize("GROUP"));
    let rows = gated_rows(call, call.state().rows.min(call.grid[1]) as usize);
    let normed = |(row, factors): (Vec<f32>, Vec<f64>)| {
        row.iter().enumerate().map(|(i, v)| (f64::from(*v) * factors[i / group]) as f32).collect()
    };
    write_rows(call, width / 32, rows.into_iter().map(normed));
}

/// The rows of [`gated`] without the norm's factors, and the factor of each group.
pub fn gated_rows(call: &Call, rows: usize) -> Vec<(Vec<f32>, Vec<f64>)> {
    let (width, group, stride, z_at) =
        (call.usize("WIDTH"), call.usize("GROUP"), call.given("STRIDE"), call.usize("Z_AT"));
    let (own, first, normed) = (call.u32("OWN") == 1, call.u32("FIRST") == 1, call.u32("NORMED") == 1);
    let (inner, outer) = (call.f64("INNER"), call.f64("OUTER"));
    let (x, z, nw) = (call.view::<f32>("x"), call.view::<f32>("z"), call.view::<f32>("nw"));
    let row = |t: usize| {
        let gated = |i: usize| {
            let gate = inner * f64::from(z[t * stride + z_at + i]);
            f64::from(x[t * width + i]) * gate * sigmoid(gate)
        };
        let of_norm = |i: usize| if first { gated(i) } else { f64::from(x[t * width + i]) };
        let weight = |i: usize| if normed { f64::from(nw[if own { i } else { i % group }]) } else { outer };
        let factor = |start: usize| {
            let squares: f64 = (start..start + group).map(|i| of_norm(i).powi(2)).sum();
            if normed { (squares / group as f64 + f64::from(call.f32("EPS"))).sqrt().recip() } else { 1.0 }
        };
        ((0..width).map(|i| (gated(i) * weight(i)) as f32).collect(), (0..width).step_by(group).map(factor).collect())
    };
    (0..rows).map(row).collect()
}
