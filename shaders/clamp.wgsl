// y = x between two limits: columns of a row of x to a place in a row of y. Grid [ceil(ROOM / {{ workgroup }}), T].
{% include "common/state.wgsl" %}
@group(0) @binding(1) var<storage, read> x: array<f32>;         // [T][XSTRIDE]
@group(0) @binding(2) var<storage, read> limits: array<f32>;    // [> AT + 1]: the lower one at AT, the upper one behind it
@group(0) @binding(3) var<storage, read_write> y: array<f32>;   // [T][YSTRIDE]

override N: u32;             // columns of x
override XSTRIDE: u32;       // f32 elements between rows of x
override YSTRIDE: u32;       // f32 elements between rows of y
override COLUMN: u32 = 0u;   // where they begin in a row of y
override ROOM: u32;          // columns of y that are written, at least N: those behind the others are zeros
override AT: u32 = 0u;       // where the limits stand

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let i = wid.x * {{ workgroup }}u + li;
    if (wid.y >= state.rows || i >= ROOM) { return; }
    var v = 0.0;
    if (i < N) { v = clamp(x[wid.y * XSTRIDE + i], limits[AT], limits[AT + 1u]); }
    y[wid.y * YSTRIDE + COLUMN + i] = v;
}
