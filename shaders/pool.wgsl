// y[t] = the mean of text t's rows of h, from one row to before another; where STANDARDISED is 1, less a bias and times a factor. Grid [T, ceil(STRIDE / 4 / {{ workgroup }})].
{% include "common/state.wgsl" %}
@group(0) @binding(1) var<storage, read> h: array<vec4<f32>>;        // [rows][STRIDE / 4]
@group(0) @binding(2) var<storage, read> taken: array<vec2<u32>>;    // [T]: first row, and the one behind the last
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;  // [T][STRIDE / 4]
@group(0) @binding(4) var<storage, read> bias: array<vec4<f32>>;     // [D / 4], read where STANDARDISED is 1
@group(0) @binding(5) var<storage, read> factor: array<vec4<f32>>;   // [D / 4], likewise

override D: u32;        // model width, a multiple of 4
override STRIDE: u32;   // f32 elements between rows, a multiple of 4
override STANDARDISED: u32 = 0u;

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let t = wid.x;
    let i = wid.y * {{ workgroup }}u + li;
    if (t >= state.rows || i >= STRIDE / 4u) { return; }
    var sum = vec4<f32>();
    if (i < D / 4u) {
        for (var row = taken[t].x; row < taken[t].y; row++) { sum += h[row * (STRIDE / 4u) + i]; }
        sum /= f32(taken[t].y - taken[t].x);
        if (STANDARDISED == 1u) { sum = (sum - bias[i]) * factor[i]; }
    }
    y[t * (STRIDE / 4u) + i] = sum;
}
