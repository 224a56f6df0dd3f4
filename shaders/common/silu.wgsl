// x / (1 + exp(-x)), with an exponential that cannot overflow.
fn silu(x: f32) -> f32 {
    let e = exp(-abs(x));
    return x * select(1.0, e, x < 0.0) / (1.0 + e);
}
