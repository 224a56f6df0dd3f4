// t[row][i] = A[i] . x[row], four of the RANKS rows of A a workgroup: what an adapter makes of a product's input before its B widens it again. Each row of
// activations has the adapter that `voices` says, or none. Grid [RANKS / 4, T]. With NORMED the activations are the residual stream, normed here.
{% set sum = "vec4<f32>" %}
{% include "common/state.wgsl" %}
{% include "common/rows.wgsl" %}
{% with act = "" %}{% include "common/weight.wgsl" %}{% endwith %}
{% include "common/voices.wgsl" %}
@group(0) @binding(5) var<storage, read_write> t: array<vec4<f32>>;   // [T][RANKS / 4]
override KB: u32;      // blocks of a row of A and of x, ceil(K / 32)
override RANKS: u32;   // rows of A of an adapter, a multiple of 4
{% if act == "q8" %}
@group(0) @binding(3) var<storage, read> xq: array<u32>;         // [T][KB][8]
@group(0) @binding(4) var<storage, read> xs: array<vec2<f32>>;   // [T][KB]: (scale, scale * sum of the int8)
fn activations(j: u32) -> vec4<f32> {
    let v = bitcast<vec4<i32>>(vec4<u32>(xq[j]) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u);
    return vec4<f32>(v) * xs[j / 8u].x;
}
{% else %}
@group(0) @binding(3) var<storage, read> x: array<vec4<{{ act }}>>;   // [T][KB * 8], zeros beyond K
fn activations(j: u32) -> vec4<f32> { return vec4<f32>(x[j]); }
{% endif %}
{% if act == "f32" %}
override NORMED: u32 = 0u;   // 1: x is normed
override D: u32 = 1u;        // what the mean is over
override EPS: f32 = 0.0;
@group(0) @binding(4) var<storage, read> nw: array<vec4<f32>>;   // [D / 4], read where NORMED is 1
{% endif %}
{% include "common/reduce.wgsl" %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    if (wid.y >= state.rows) { return; }
    let voice = voice_of(wid.y);
    if (voice.x == 0u) { return; }
    let first = ((voice.x - 1u) * RANKS + wid.x * 4u) * KB;
    var sums = vec4<f32>();
    var squares = 0.0;
    for (var j = li; j < KB * 8u; j += {{ workgroup }}u) {
        var v = activations(wid.y * KB * 8u + j);
{% if act == "f32" %}
        if (NORMED == 1u) {
            squares += dot(v, v);
            // Beyond D there are zeros in x, and in nw something else.
            if (j < D / 4u) { v *= nw[j]; }
        }
{% endif %}
        for (var r = 0u; r < 4u; r++) { sums[r] += dot(w4(first + r * KB + j / 8u, j % 8u), v); }
    }
    var total = workgroup_sum(sums, li);
{% if act == "f32" %}
    if (NORMED == 1u) {
        workgroupBarrier();
        total *= inverseSqrt(workgroup_sum(vec4<f32>(squares, 0.0, 0.0, 0.0), li).x / f32(D) + EPS);
    }
{% endif %}
    if (li == 0u) { t[wid.y * (RANKS / 4u) + wid.x] = total; }
}
