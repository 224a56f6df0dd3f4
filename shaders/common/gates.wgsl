override A_AT: u32;         // where in a row of `gates` a begins
override B_AT: u32 = 0u;    // and b, where DELTA is 1
override GATES: u32;        // f32 a row of `gates`
override STEPS: f32 = 1.0;    // of a
override A_LOG: u32 = 0u;   // 1: A is -exp of what the head has
@group(0) @binding(3) var<storage, read> gates: array<f32>;     // [T][GATES]
@group(0) @binding(4) var<storage, read> heads: array<f32>;     // [3][HEADS]: A, bias, D
fn softplus(x: f32) -> f32 { return select(log(1.0 + exp(min(x, 20.0))), x, x > 20.0); }
// (g, s) of a head in a row.
fn gates_of(row: u32, head: u32) -> vec2<f32> {
    var a = heads[head];
    if (A_LOG == 1u) { a = -exp(a); }
    let step = softplus(STEPS * gates[row * GATES + A_AT + head] + heads[HEADS + head]);
    if (DELTA == 0u) { return vec2<f32>(a * step, step); }
    return vec2<f32>(a * step, 1.0 / (1.0 + exp(-gates[row * GATES + B_AT + head])));
}
