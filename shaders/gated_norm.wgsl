// RMSNorm of groups of a row, and its gate: y = x / rms(x) * nw * SiLU(z), or where FIRST is 1 the norm of x SiLU(z), or where NORMED is 0 only
// x SiLU(z). Grid [groups, T].
{% from "common/stored.wgsl" import stored with context %}
{% include "common/state.wgsl" %}
{% with sum = "f32", reduce = "wg" %}{% include "common/reduce.wgsl" %}{% endwith %}
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;    // [T][WIDTH / 4]
@group(0) @binding(2) var<storage, read> z: array<f32>;          // [T][STRIDE]: gates from Z_AT on
@group(0) @binding(3) var<storage, read> nw: array<vec4<f32>>;   // [GROUP / 4] for all groups, or [WIDTH / 4]
{% if out == "q8" %}
{% include "common/quantize.wgsl" %}
@group(0) @binding(4) var<storage, read_write> yq: array<u32>;          // [T][WIDTH / 32][8]
@group(0) @binding(5) var<storage, read_write> ys: array<vec2<f32>>;    // [T][WIDTH / 32]
{% else %}
@group(0) @binding(4) var<storage, read_write> y: array<vec4<{{ out }}>>;     // [T][WIDTH / 4]
{% endif %}
override WIDTH: u32;
override GROUP: u32;            // elements of a group, a multiple of 32
override STRIDE: u32;           // f32 a row of z
override Z_AT: u32;
override OWN: u32 = 0u;         // 1: each group has weights of its own
override FIRST: u32 = 0u;       // 1: the gate comes before the norm
override NORMED: u32 = 1u;
override INNER: f32 = 1.0;      // of z
override OUTER: f32 = 1.0;      // of y, where nothing is normed
override EPS: f32;

fn gate(at: u32) -> vec4<f32> {
    let v = INNER * vec4<f32>(z[at], z[at + 1u], z[at + 2u], z[at + 3u]);
    return v / (1.0 + exp(-v));
}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    if (wid.y >= state.rows) { return; }
    let first = wid.x * (GROUP / 4u);
    let row = wid.y * (WIDTH / 4u);
    let gates = wid.y * STRIDE + Z_AT;
    var squares = 0.0;
    for (var j = li; j < GROUP / 4u; j += {{ workgroup }}u) {
        var v = x[row + first + j];
        if (FIRST == 1u) { v *= gate(gates + (first + j) * 4u); }
        squares += dot(v, v);
    }
    var r = inverseSqrt(workgroup_sum(squares, li) / f32(GROUP) + EPS);
    if (NORMED == 0u) { r = OUTER; }
    for (var start = 0u; start < GROUP / 4u; start += {{ workgroup }}u) {
        let j = start + li;
        var v = vec4<f32>();
        if (j < GROUP / 4u) {
            v = x[row + first + j] * r * gate(gates + (first + j) * 4u);
            if (NORMED == 1u) { v *= nw[select(j, first + j, OWN == 1u)]; }
        }
{% if out == "q8" %}
        let q = quantize(v, li);
        if (j < GROUP / 4u) {
            yq[row + first + j] = q.packed;
            if (j % 8u == 0u) { ys[(row + first + j) / 8u] = q.scale; }
        }
{% else %}
        if (j < GROUP / 4u) { y[row + first + j] = {{ stored('v') }}; }
{% endif %}
    }
}
