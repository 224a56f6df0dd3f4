use super::Call;
use super::quantize::write_rows;

/// y = gate * sigmoid(gate) * up.
pub fn run(call: &Call) {
    let (f, stride) = (call.usize("F"), call.usize("GSTRIDE"));
    let gu = call.view::<f32>("gu");
    write_rows(
        call,
        (0..call.state().rows.min(call.grid[1]) as usize).map(|t| {
            let (gate, up) = (&gu[t * stride..][..f], &gu[t * stride + f..][..f]);
            gate.iter().zip(up).map(|(g, u)| (f64::from(*g) / (1.0 + (-f64::from(*g)).exp()) * f64::from(*u)) as f32).collect()
        }),
    );
}
