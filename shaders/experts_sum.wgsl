// y[t][n] (+)= sum over u of weight[t][u] * made[t USED + u][n], in the order of u. An output an invocation: grid [ceil(N / {{ workgroup }}), T].
{% include "common/state.wgsl" %}
@group(0) @binding(1) var<storage, read> chosen: array<vec2<u32>>;      // [T][USED]: expert, bits of its weight
@group(0) @binding(2) var<storage, read> made: array<f32>;              // [T USED][NSTRIDE]
@group(0) @binding(3) var<storage, read_write> y: array<f32>;           // [T][NSTRIDE]
override N: u32;
override USED: u32;
override NSTRIDE: u32;     // f32 elements between rows
override ADD: u32 = 1u;    // 1: y is added to

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let n = wid.x * {{ workgroup }}u + li;
    if (wid.y >= state.rows || n >= N) { return; }
    var sum = 0.0;
    for (var slot = wid.y * USED; slot < (wid.y + 1u) * USED; slot++) { sum += bitcast<f32>(chosen[slot].y) * made[slot * NSTRIDE + n]; }
    let at = wid.y * NSTRIDE + n;
    if (ADD == 1u) { sum += y[at]; }
    y[at] = sum;
}
