override ACT: u32 = 0u;   // 0: SiLU, x / (1 + exp(-x)); 1: GELU by its tanh formula; 2: the square of what is positive
override INNER: f32 = 1.0;   // of what it reads
override OUTER: f32 = 1.0;   // of what it gives

fn activation(x: f32) -> f32 { return OUTER * act(INNER * x); }

// Both are x times a sigmoid: 0.5 (1 + tanh(u)) is the sigmoid of 2 u. With an exponential that cannot overflow.
fn act(x: f32) -> f32 {
    if (ACT == 2u) { return max(x, 0.0) * max(x, 0.0); }
    var z = x;
    if (ACT == 1u) { z = 1.5957691216 * (x + 0.044715 * x * x * x); }
    let e = exp(-abs(z));
    return x * select(1.0, e, z < 0.0) / (1.0 + e);
}
