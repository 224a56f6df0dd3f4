{% if out == "add" %}
// y += norm(h): the norm of what a block has made, added to the residual stream, and with SCALED all of it times a factor. One workgroup a row.
{% else %}
// RMSNorm: y = h / sqrt(mean(h^2) + EPS) * nw, one workgroup a row. LayerNorm (CENTER): the same of h less its mean, and nb added.
{% endif %}
{% from "common/stored.wgsl" import stored with context %}
{% include "common/state.wgsl" %}
{% with sum = "f32" %}{% include "common/reduce.wgsl" %}{% endwith %}
@group(0) @binding(1) var<storage, read> h: array<vec4<f32>>;    // [T][STRIDE / 4]
@group(0) @binding(2) var<storage, read> nw: array<vec4<f32>>;   // [D / 4]; with SCALED the factor behind it
@group(0) @binding(5) var<storage, read> nb: array<vec4<f32>>;   // [D / 4], read where CENTER is 1
{% if out == "q8" %}
{% include "common/quantize.wgsl" %}
@group(0) @binding(3) var<storage, read_write> yq: array<u32>;          // [T][KB][8]
@group(0) @binding(4) var<storage, read_write> ys: array<vec2<f32>>;    // [T][KB]
{% else %}
@group(0) @binding(3) var<storage, read_write> y: array<vec4<{{ "f16" if out == "f16" else "f32" }}>>;     // [T][KB * 32], padded with zeros
{% endif %}

override D: u32;        // model width, a multiple of 4
override KB: u32;       // blocks of a row of y, ceil(D / 32)
override STRIDE: u32;   // f32 elements between rows of h, a multiple of 4
override EPS: f32;
override CENTER: u32 = 0u;   // 1: LayerNorm
{% if out == "add" %}
override SCALED: u32 = 0u;   // 1: what is there when the norm is added is multiplied by a factor
{% endif %}
override LAST: u32;     // 1: only the last row is normalised, and written as row 0

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    if (wid.x >= select(state.rows, 1u, LAST == 1u)) { return; }
    let row = select(wid.x, state.rows - 1u, LAST == 1u) * (STRIDE / 4u);
    var mean = 0.0;
    if (CENTER == 1u) {
        var sum = 0.0;
        for (var j = li; j < D / 4u; j += {{ workgroup }}u) { sum += dot(h[row + j], vec4<f32>(1.0)); }
        mean = workgroup_sum(sum, li) / f32(D);
        workgroupBarrier();   // the sum has been read
    }
    var squares = 0.0;
    for (var j = li; j < D / 4u; j += {{ workgroup }}u) {
        let v = h[row + j] - mean;
        squares += dot(v, v);
    }
    let r = inverseSqrt(workgroup_sum(squares, li) / f32(D) + EPS);
    for (var first = 0u; first < KB * 8u; first += {{ workgroup }}u) {
        let j = first + li;
        var v = vec4<f32>();
        if (j < D / 4u) { v = (h[row + j] - mean) * r * nw[j]; }
        if (CENTER == 1u && j < D / 4u) { v += nb[j]; }
{% if out == "q8" %}
        let q = quantize(v, li);
        if (j < KB * 8u) {
            yq[wid.x * KB * 8u + j] = q.packed;
            if (j % 8u == 0u) { ys[wid.x * KB + j / 8u] = q.scale; }
        }
{% else %}
{% if out == "add" %}
        if (j < KB * 8u) {
            v += y[wid.x * KB * 8u + j];
            if (SCALED == 1u) { v *= nw[D / 4u].x; }
            y[wid.x * KB * 8u + j] = v;
        }
{% else %}
        if (j < KB * 8u) { y[wid.x * KB * 8u + j] = {{ stored('v') }}; }
{% endif %}
{% endif %}
    }
}
