// y = act(gate) * up, the gate in the first F columns of gu and the up product in the next F; or act(gu) where nothing is gated. Eight
// blocks of 32 a workgroup: grid [ceil(KB / 8), T EACH].
{% from "common/stored.wgsl" import stored with context %}
{% include "common/state.wgsl" %}
@group(0) @binding(1) var<storage, read> gu: array<f32>;                // [T][GSTRIDE]
{% if out == "q8" %}
{% include "common/quantize.wgsl" %}
@group(0) @binding(2) var<storage, read_write> yq: array<u32>;          // [T][KB][8]
@group(0) @binding(3) var<storage, read_write> ys: array<vec2<f32>>;    // [T][KB]
{% else %}
@group(0) @binding(2) var<storage, read_write> y: array<vec4<{{ out }}>>;     // [T][KB * 32], padded with zeros
{% endif %}

override F: u32;         // feed-forward width
override KB: u32;        // blocks of a row of y, ceil(F / 32)
override GSTRIDE: u32;   // f32 elements between rows of gu
override GATED: u32 = 1u;   // 0: there is no up product
override EACH: u32 = 1u;    // rows of gu and y that each of the T rows has
override FACTOR: u32 = 0u;  // f32 a row of `factors`; not 0: everything is multiplied by the sigmoid of the last of them
override BESIDE: u32 = 0u;  // the same; not 0: each output is multiplied by one of them, from where `at[AT]` says
override AT: u32 = 0u;
@group(0) @binding(4) var<storage, read> factors: array<f32>;   // [T][FACTOR], or [T][BESIDE]
@group(0) @binding(5) var<storage, read> at: array<f32>;        // [> AT]

{% include "common/activation.wgsl" %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    if (wid.y >= state.rows * EACH) { return; }
    let j = wid.x * 64u + li;
    var factor = 1.0;
    if (FACTOR != 0u) { factor /= 1.0 + exp(-factors[wid.y * FACTOR + FACTOR - 1u]); }
    var v = vec4<f32>();
    for (var c = 0u; c < 4u; c++) {
        let i = j * 4u + c;
        if (i < F) {
            let gate = wid.y * GSTRIDE + i;
            v[c] = activation(gu[gate]) * factor;
            if (GATED == 1u) { v[c] *= lifted(gu[gate + F]); }
            if (BESIDE != 0u) { v[c] *= factors[wid.y * BESIDE + u32(at[AT]) + i]; }
        }
    }
{% if out == "q8" %}
    let q = quantize(v, li);
    if (j < KB * 8u) {
        yq[wid.y * KB * 8u + j] = q.packed;
        if (li % 8u == 0u) { ys[wid.y * KB + j / 8u] = q.scale; }
    }
{% else %}
    if (j < KB * 8u) { y[wid.y * KB * 8u + j] = {{ stored('v') }}; }
{% endif %}
}
