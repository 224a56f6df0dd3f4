{% if kernel == "matvec" %}
// y[ROW0 + n] (+)= sum over k of w[n][k] * x[k], for the N rows of w in this part.
{% elif kernel == "norm_matvec" %}
// y[ROW0 + n] = sum over k of w[n][k] * norm(h)[k], for the N rows of w in this part.
{% else %}
// y[f] = silu(w[f] . norm(h)) * (w[F + f] . norm(h)): gates in the first F rows of w, up rows in the next F; 32 outputs a workgroup.
{% endif %}
// LANES neighbouring invocations share a row of w and walk along K together, so that they read neighbouring 16 bytes; SPLIT such groups
// deal K out among themselves where there are too few rows to fill the GPU.
{% include "common/state.wgsl" %}
{% include "common/weight.wgsl" %}
{% include "common/lanes.wgsl" %}
{% set gated = kernel == "norm_gated" %}
{% set normed = kernel != "matvec" %}
override KB: u32;     // blocks of a row, ceil(K / 32)
{% if normed %}
{% include "common/int8.wgsl" %}
{% include "common/normed.wgsl" %}
const SPLIT = 1u;
{% else %}
override SPLIT: u32;  // groups of lanes that share a row: a power of two, at most GROUPS
{% if act == "q8" %}
@group(0) @binding(3) var<storage, read> xq: array<vec4<u32>>;   // [KB][2]
@group(0) @binding(4) var<storage, read> xs: array<vec2<f32>>;   // [KB]
{% elif act == "f16" %}
@group(0) @binding(3) var<storage, read> x: array<vec4<f16>>;    // [KB * 8]
{% else %}
@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;    // [KB * 8]
fn x4(j: u32) -> vec4<f32> { return x[j]; }
{% endif %}
{% endif %}
const GROUPS = {{ workgroup // lanes }}u;   // groups of lanes in a workgroup
{% if gated %}
{% set half = rows // 2 %}
override F: u32;      // outputs
{% if out == "q8" %}
@group(0) @binding(5) var<storage, read_write> yq: array<u32>;         // [ceil(F / 32)][8]
@group(0) @binding(6) var<storage, read_write> ys: array<vec2<f32>>;   // [ceil(F / 32)]
{% else %}
@group(0) @binding(5) var<storage, read_write> y: array<vec4<f32>>;    // [ceil(F / 32) * 8], zeros beyond F
{% endif %}
var<workgroup> outputs: array<f32, 32>;
{% include "common/silu.wgsl" %}
{% else %}
override N: u32;      // rows of this part
override ROW0: u32;   // where in y this part begins
@group(0) @binding(5) var<storage, read_write> y: array<f32>;    // [>= ROW0 + N]
{% if not normed %}
override ADD: u32;    // 1: y is added to, the residual
var<workgroup> parts: array<f32, {{ workgroup // lanes * rows }}>;   // [GROUPS][{{ rows }}]
{% endif %}
{% endif %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let group = li / LANES;
    let lane = li % LANES + group % SPLIT * LANES;
    // Rows beyond the last repeat it and are not written.
{% if gated %}
    let first = (wid.x + wid.y * grid.x) * 32u;
    if (first >= F) { return; }
{% for r in range(half) %}
    let b{{ r }} = min(first + group * {{ half }}u + {{ r }}u, F - 1u) * KB;
    let b{{ half + r }} = b{{ r }} + F * KB;
{% endfor %}
{% else %}
    let first = (wid.x + wid.y * grid.x) * (GROUPS / SPLIT * {{ rows }}u);
    if (first >= N) { return; }
{% for r in range(rows) %}
    let b{{ r }} = min(first + group / SPLIT * {{ rows }}u + {{ r }}u, N - 1u) * KB;
{% endfor %}
{% endif %}
{% for r in range(rows) %}
    var sum{{ r }} = 0.0;
{% endfor %}
{% if act == "q8" %}
{% if normed %}
    prologue(li);
{% endif %}
{% macro blocks(unroll) %}
    for (var i0 = lane; i0 < KB; i0 += LANES * SPLIT * {{ unroll }}u) {
        // Loads first: what takes time is the wait for them.
{% for u in range(unroll) %}
{% if u > 0 %}
        let i{{ u }} = min(i0 + {{ u }}u * LANES * SPLIT, KB - 1u);
{% endif %}
{% for r in range(rows) %}
        let w{{ u }}_{{ r }} = load_w(b{{ r }} + i{{ u }});
{% endfor %}
{% endfor %}
{% for u in range(unroll) %}
        {
{% if normed %}
            let xa = vec4<u32>(nq[i{{ u }} * 4u], nq[i{{ u }} * 4u + 1u]);
            let xb = vec4<u32>(nq[i{{ u }} * 4u + 2u], nq[i{{ u }} * 4u + 3u]);
            var s = ns[i{{ u }}];
{% else %}
            let xa = xq[i{{ u }} * 2u];
            let xb = xq[i{{ u }} * 2u + 1u];
            var s = xs[i{{ u }}];
{% endif %}
{% if u > 0 %}
            if (i0 + {{ u }}u * LANES * SPLIT >= KB) { s = vec2<f32>(); }
{% endif %}
{% for r in range(rows) %}
            sum{{ r }} += dot_w(w{{ u }}_{{ r }}, xa, xb, s);
{% endfor %}
        }
{% endfor %}
    }
{% endmacro %}
{% if normed and (lanes == 32 or not gated) %}
    // Two blocks under way at once where a row has two for each lane; the pipeline's compiler keeps one of the two. Fewer lanes a row mean
    // more groups, which hide the wait for one another.
    if (KB > LANES) {
{{ blocks(2) }}
    } else {
{{ blocks(1) }}
    }
{% else %}
{{ blocks(1) }}
{% endif %}
{% if normed %}
    let factor = norm_factor();
{% endif %}
{% elif act == "f16" %}
    // Four products at a time in halves, their sums in f32. Pieces of a block as memory holds them: 16 bytes where numbers have so many.
{% set units = {"f32": 8, "f16": 4, "bf16": 4, "q8_0": 2}[weight] | default(1) %}
    for (var i = lane; i < KB * {{ units }}u; i += LANES * SPLIT) {
{% for j in range(8 // units) %}
        {
            let v = x[i * {{ 8 // units }}u + {{ j }}u];
{% for r in range(rows) %}
            sum{{ r }} += f32(dot(vec4<f16>(w4(b{{ r }} + i / {{ units }}u, i % {{ units }}u * {{ 8 // units }}u + {{ j }}u)), v));
{% endfor %}
        }
{% endfor %}
    }
{% else %}
{% if normed %}
    var sq = 0.0;
{% endif %}
    for (var i = lane; i < KB * UNITS; i += LANES * SPLIT) {
        let v = load_x(i);
{% for r in range(rows) %}
        sum{{ r }} += dot_x(b{{ r }} * UNITS + i, v);
{% endfor %}
{% if normed %}
        for (var j = i * (8u / UNITS); j < (i + 1u) * (8u / UNITS); j++) { sq += dot(h[j], h[j]); }
{% endif %}
    }
{% if normed %}
    // Every group of lanes has walked over all of h.
    let factor = inverseSqrt(lane_sum(sq, li) / f32(D) + EPS);
{% endif %}
{% endif %}
{% for r in range(rows) %}
    let s{{ r }} = lane_sum(sum{{ r }}, li){% if normed %} * factor{% endif %};
{% endfor %}
{% if gated %}
    if (li % LANES == 0u) {
{% for r in range(half) %}
        outputs[group * {{ half }}u + {{ r }}u] = select(0.0, silu(s{{ r }}) * s{{ half + r }}, first + group * {{ half }}u + {{ r }}u < F);
{% endfor %}
    }
    workgroupBarrier();
    // Eight invocations take four outputs each{% if out == "q8" and reduce != "wg" and lanes >= 8 %}; all groups of eight do, as shuffles want everybody{% endif %}.
    let at = li % 8u;
    let v = vec4<f32>(outputs[at * 4u], outputs[at * 4u + 1u], outputs[at * 4u + 2u], outputs[at * 4u + 3u]);
{% if out == "q8" %}
{% if reduce != "wg" and lanes >= 8 %}
    var largest = largest4(v);
{% for x in [1, 2, 4] %}
    largest = max(largest, subgroupShuffleXor(largest, {{ x }}u));
{% endfor %}
    let d = largest / 127.0;
    let packed = quantize4(v, d);
    var sum = total4(packed);
{% for x in [1, 2, 4] %}
    sum += subgroupShuffleXor(sum, {{ x }}u);
{% endfor %}
{% else %}
    if (li >= 8u) { return; }
    var largest = 0.0;
    for (var i = 0u; i < 32u; i++) { largest = max(largest, abs(outputs[i])); }
    let d = largest / 127.0;
    let packed = quantize4(v, d);
    var sum = 0;
    if (li == 0u) {
        for (var i = 0u; i < 32u; i += 4u) { sum += total4(quantize4(vec4<f32>(outputs[i], outputs[i + 1u], outputs[i + 2u], outputs[i + 3u]), d)); }
    }
{% endif %}
    if (li < 8u) { yq[first / 4u + li] = packed; }
    if (li == 0u) { ys[first / 32u] = vec2<f32>(d, d * f32(sum)); }
{% else %}
    if (li < 8u) { y[first / 4u + li] = v; }
{% endif %}
{% elif normed %}
    if (li % LANES == 0u) {
{% for r in range(rows) %}
        if (first + group * {{ rows }}u + {{ r }}u < N) { y[ROW0 + first + group * {{ rows }}u + {{ r }}u] = s{{ r }}; }
{% endfor %}
    }
{% else %}
    if (li % LANES == 0u) {
{% for r in range(rows) %}
        parts[group * {{ rows }}u + {{ r }}u] = s{{ r }};
{% endfor %}
    }
    workgroupBarrier();
    // parts is [rows of groups][SPLIT][{{ rows }}].
    if (li < GROUPS / SPLIT * {{ rows }}u && first + li < N) {
        var v = 0.0;
        for (var k = 0u; k < SPLIT; k++) { v += parts[(li / {{ rows }}u * SPLIT + k) * {{ rows }}u + li % {{ rows }}u]; }
        let at = ROW0 + first + li;
        if (ADD == 1u) { v += y[at]; }
        y[at] = v;
    }
{% endif %}
}
