// 0: SiLU, x / (1 + exp(-x)); 1: GELU by its tanh formula; 2: the square of what is positive; 3: x / (1 + exp(-1.702 x)), x at most LIMIT;
// 4: GELU, 0.5 x (1 + erf(x / sqrt(2))); 5: tanh(x)
override ACT: u32 = 0u;
override INNER: f32 = 1.0;   // of what it reads
override OUTER: f32 = 1.0;   // of what it gives

const LIMIT = 7.0;

// What an activation is multiplied by: the up product, of the last kind within LIMIT and one more.
fn lifted(up: f32) -> f32 { return select(up, clamp(up, -LIMIT, LIMIT) + 1.0, ACT == 3u); }

fn activation(x: f32) -> f32 { return OUTER * act(INNER * x); }

// 0.5 x times what erf lacks of 1, or of 2 where x is positive, by Abramowitz and Stegun's 7.1.26, which is 1.5e-7 from it.
fn gelu(x: f32) -> f32 {
    let z = abs(x) * 0.70710678;
    let t = 1.0 / (1.0 + 0.3275911 * z);
    let lacks = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t * exp(-z * z);
    return 0.5 * x * select(lacks, 2.0 - lacks, x > 0.0);
}

// The first two are x times a sigmoid: 0.5 (1 + tanh(u)) is the sigmoid of 2 u. With an exponential that cannot overflow.
fn act(given: f32) -> f32 {
    var x = given;
    if (ACT == 2u) { return max(x, 0.0) * max(x, 0.0); }
    if (ACT == 4u) { return gelu(x); }
    // Beyond 10 it is 1, and exponentials overflow before tanh does.
    if (ACT == 5u) { return tanh(clamp(x, -10.0, 10.0)); }
    var z = x;
    if (ACT == 1u) { z = 1.5957691216 * (x + 0.044715 * x * x * x); }
    if (ACT == 3u) {
        x = min(x, LIMIT);
        z = 1.702 * x;
    }
    let e = exp(-abs(z));
    return x * select(1.0, e, z < 0.0) / (1.0 + e);
}
