use super::Call;
use super::quantize::write_rows;

/// y = gate * sigmoid(gate) * up.
pub fn run(call: &Call) {
    let (f, stride) = (call.usize("F"), call.usize("GSTRIDE"));
    let gu = call.view::<f32>("gu");
    write_rows(
        call,
        call.usize("KB"),
        (0..call.state().rows.min(call.grid[1]) as usize).map(|t| {
            let (gate, up) = (&gu[t * stride..][..f], &gu[t * stride + f..][..f]);
            gate.iter().zip(up).map(|(g, u)| (silu(f64::from(*g)) * f64::from(*u)) as f32).collect()
        }),
    );
}

/// x * sigmoid(x)
pub fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}
