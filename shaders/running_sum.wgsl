// A recurrent layer that no model has: S, the sum of all rows so far, modulo 2, and h += |S| - 1/2. A row more, or one that is read twice, is seen
// in every row after it. Each invocation follows an element through the rows.
{% include "common/state.wgsl" %}
override D: u32;        // model width
override STRIDE: u32;   // f32 a row of x and of h
@group(0) @binding(1) var<storage, read> x: array<f32>;         // [T][STRIDE]
@group(0) @binding(2) var<storage, read_write> h: array<f32>;   // [T][STRIDE]: the residual stream
@group(0) @binding(3) var<storage, read_write> s: array<f32>;   // [slots][D], each within -1..1

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (state.done != 0u || id.x >= D) { return; }
    let at = state.slot * D + id.x;
    var sum = s[at];
    for (var t = 0u; t < state.rows; t++) {
        sum += 0.25 * x[t * STRIDE + id.x];
        sum -= 2.0 * round(sum * 0.5);
        h[t * STRIDE + id.x] += abs(sum) - 0.5;
    }
    s[at] = sum;
}
