use super::Call;
use super::quantize::write_rows;

/// y = act(gate) * up, or act(gu) where nothing is gated.
pub fn run(call: &Call) {
    let (f, stride, gated) = (call.usize("F"), call.usize("GSTRIDE"), call.u32("GATED") == 1);
    let gu = call.view::<f32>("gu");
    let (factors, each) = (call.view::<f32>("factors"), call.usize("FACTOR"));
    let beside = call.usize("BESIDE");
    let factor = |t: usize| if each == 0 { 1.0 } else { sigmoid(f64::from(factors[(t + 1) * each - 1])) };
    let value = |t: usize, i: usize| {
        let row = &gu[t * stride..];
        let y = activation(call, f64::from(row[i])) * factor(t);
        let y = if beside == 0 {
            y
        } else {
            y * f64::from(factors[t * beside + call.view::<f32>("at")[call.usize("AT")] as usize + i])
        };
        (if gated { y * lifted(call, f64::from(row[f + i])) } else { y }) as f32
    };
    let rows = (0..(call.state().rows * call.u32("EACH")).min(call.grid[1]) as usize)
        .map(|t| (0..f).map(|i| value(t, i)).collect());
    write_rows(call, call.usize("KB"), rows);
}

/// Beyond it gates and up products of the last kind are cut.
const LIMIT: f64 = 7.0;

/// What an activation is multiplied by.
pub fn lifted(call: &Call, up: f64) -> f64 {
    if call.u32("ACT") == 3 { up.clamp(-LIMIT, LIMIT) + 1.0 } else { up }
}

/// The activation that the override ACT names, with its factors.
pub fn activation(call: &Call, x: f64) -> f64 {
    let x = call.f64("INNER") * x;
    let y = match call.u32("ACT") {
        0 => x * sigmoid(x),
        2 => x.max(0.0).powi(2),
        3 => x.min(LIMIT) * sigmoid(1.702 * x.min(LIMIT)),
        4 => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        5 => x.tanh(),
        // GELU by its tanh formula.
        _ => {
            0.5 * x
                * (1.0
                    + (std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2 * (x + 0.044715 * x.powi(3)))
                        .tanh())
        }
    };
    call.f64("OUTER") * y
}

/// The error function, by a series whose terms are all of one sign.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut sum, mut term, mut n) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
        n += 1.0;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// 1 / (1 + exp(-x))
pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
