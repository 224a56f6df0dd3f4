{% if kernel == "matvec" %}
// y[ROW0 + n] (+)= sum over k of w[n][k] * x[k] (+ bias[n]), for the N rows of w in this part.
{% elif kernel == "norm_matvec" %}
// y[ROW0 + n] = sum over k of w[n][k] * norm(h)[k] (+ bias[n]), for the N rows of w in this part.
{% elif kernel == "norm_gated" %}
// y[f] = act(w[f] . norm(h)) * (w[F + f] . norm(h)): gates in the first F rows of w, up rows in the next F; 32 outputs a workgroup.
{% elif kernel == "experts_gated" %}
// y[t][u][f] = act(w[e][f] . x[t]) * (w[e][F + f] . x[t]) for the expert e that row t has chosen as its u-th, where this part holds it: grid
// [ceil(F / 32), T USED]. Only the chosen experts are read.
{% else %}
// h[t][n] += sum over u of weight[t][u] * (w[e][n] . x[t][u]) for the experts e that row t has chosen, those that this part holds.
{% endif %}
// LANES neighbouring invocations share a row of w and walk along K together, so that they read neighbouring 16 bytes; SPLIT such groups
// deal K out among themselves where there are too few rows to fill the GPU{% if kernel == "experts_down" %}; here they deal out the experts{% endif %}.
{% include "common/state.wgsl" %}
{% include "common/weight.wgsl" %}
{% include "common/lanes.wgsl" %}
{% set gated = kernel in ["norm_gated", "experts_gated"] %}
{% set normed = kernel in ["norm_matvec", "norm_gated"] %}
{% set experts = kernel in ["experts_gated", "experts_down"] %}
{% set down = kernel == "experts_down" %}
{% set step = "LANES" if down else "LANES * SPLIT" %}
override KB: u32;     // blocks of a row, ceil(K / 32)
{% if normed or gated %}
{% include "common/int8.wgsl" %}
{% endif %}
{% if normed %}
{% include "common/normed.wgsl" %}
const SPLIT = 1u;
{% else %}
{% if kernel == "experts_gated" %}
const SPLIT = 1u;
{% else %}
override SPLIT: u32;  // groups of lanes that share a row: a power of two, at most GROUPS
{% endif %}
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
{% include "common/gated.wgsl" %}
{% include "common/activation.wgsl" %}
{% else %}
override N: u32;      // rows of this part
@group(0) @binding(5) var<storage, read_write> y: array<f32>;    // {% if down %}[T][NSTRIDE]{% else %}[>= ROW0 + N]{% endif %}
{% if down %}
override NSTRIDE: u32;   // f32 elements between rows of y
{% else %}
override ROW0: u32;   // where in y this part begins
override BIAS: u32 = 0u;   // 1: the bias is added
@group(0) @binding(6) var<storage, read> bias: array<f32>;       // [>= ROW0 + N], read where BIAS is 1
{% endif %}
{% if kernel == "matvec" %}
override ADD: u32;    // 1: y is added to, the residual
override SOFTCAP: f32 = 0.0;   // c: y becomes c tanh(y / c); 0: it stays
{% endif %}
{% if not normed %}
var<workgroup> parts: array<f32, {{ workgroup // lanes * rows }}>;   // [GROUPS][{{ rows }}]
{% endif %}
{% endif %}
{% if experts %}
@group(0) @binding(7) var<storage, read> chosen: array<vec2<u32>>;   // [T][USED]: expert, bits of its weight
override USED: u32;    // experts that a row chooses
override FIRST: u32;   // first expert of this part
override COUNT: u32;   // experts of this part
{% endif %}
{% macro add_bias(v, n) %}{% if not down %}
        if (BIAS == 1u) { {{ v }} += bias[ROW0 + {{ n }}]; }
{% endif %}{% endmacro %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let group = li / LANES;
    let lane = li % LANES{% if not down %} + group % SPLIT * LANES{% endif %};
    // Rows beyond the last repeat it and are not written.
{% if gated %}
{% if experts %}
    let first = wid.x * 32u;
    let t = wid.y / USED;
    if (t >= state.rows) { return; }
    let expert = chosen[wid.y].x;
    if (expert < FIRST || expert - FIRST >= COUNT) { return; }
    let w0 = (expert - FIRST) * 2u * F * KB;
    let x0 = t * KB;
    let y0 = wid.y * ((F + 31u) / 32u);
{% else %}
    let first = (wid.x + wid.y * grid.x) * 32u;
    const w0 = 0u;
    const x0 = 0u;
    const y0 = 0u;
{% endif %}
    if (first >= F) { return; }
{% for r in range(half) %}
    let b{{ r }} = w0 + min(first + group * {{ half }}u + {{ r }}u, F - 1u) * KB;
    let b{{ half + r }} = b{{ r }} + F * KB;
{% endfor %}
{% else %}
{% if down %}
    let first = wid.x * (GROUPS / SPLIT * {{ rows }}u);
    if (wid.y >= state.rows) { return; }
{% else %}
    const x0 = 0u;
    let first = (wid.x + wid.y * grid.x) * (GROUPS / SPLIT * {{ rows }}u);
{% endif %}
    if (first >= N) { return; }
{% for r in range(rows) %}
    let {{ "of_expert" if down else "b" }}{{ r }} = min(first + group / SPLIT * {{ rows }}u + {{ r }}u, N - 1u) * KB;
{% endfor %}
{% endif %}
{% if down %}
{% for r in range(rows) %}
    var total{{ r }} = 0.0;
{% endfor %}
    for (var slot = wid.y * USED + group % SPLIT; slot < (wid.y + 1u) * USED; slot += SPLIT) {
    let expert = chosen[slot].x;
    if (expert < FIRST || expert - FIRST >= COUNT) { continue; }
    let x0 = slot * KB;
{% for r in range(rows) %}
    let b{{ r }} = (expert - FIRST) * N * KB + of_expert{{ r }};
{% endfor %}
{% endif %}
{% for r in range(rows) %}
    var sum{{ r }} = 0.0;
{% endfor %}
{% if normed %}
    if (POST == 1u) { add_block(li, wid.x + wid.y * grid.x == 0u); }
{% endif %}
{% if act == "q8" %}
{% if normed %}
    prologue(li);
{% endif %}
{% macro blocks(unroll) %}
    for (var i0 = lane; i0 < KB; i0 += {{ step }} * {{ unroll }}u) {
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
            let xa = xq[(x0 + i{{ u }}) * 2u];
            let xb = xq[(x0 + i{{ u }}) * 2u + 1u];
            var s = xs[x0 + i{{ u }}];
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
    for (var i = lane; i < KB * {{ units }}u; i += {{ step }}) {
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
    for (var i = lane; i < KB * UNITS; i += {{ step }}) {
        let v = load_x({% if experts %}x0 * UNITS + {% endif %}i);
{% for r in range(rows) %}
        sum{{ r }} += dot_x(b{{ r }} * UNITS + i, v);
{% endfor %}
{% if normed %}
        for (var j = i * (8u / UNITS); j < (i + 1u) * (8u / UNITS); j++) { sq += dot(residual(j), residual(j)); }
{% endif %}
    }
{% if normed %}
    // Every group of lanes has walked over all of h.
    let factor = inverseSqrt(lane_sum(sq, li) / f32(D) + EPS);
{% endif %}
{% endif %}
{% if down %}
    let weight = bitcast<f32>(chosen[slot].y);
{% for r in range(rows) %}
    total{{ r }} += sum{{ r }} * weight;
{% endfor %}
    }
{% endif %}
{% for r in range(rows) %}
    let s{{ r }} = lane_sum({{ "total" if down else "sum" }}{{ r }}, li){% if normed %} * factor{% endif %};
{% endfor %}
{% if gated %}
    if (li % LANES == 0u) {
{% for r in range(half) %}
        outputs[group * {{ half }}u + {{ r }}u] = select(0.0, activation(s{{ r }}) * s{{ half + r }}, first + group * {{ half }}u + {{ r }}u < F);
{% endfor %}
    }
    write_outputs(y0 + first / 32u, li);
{% elif normed %}
    if (li % LANES == 0u) {
{% for r in range(rows) %}
        let n{{ r }} = first + group * {{ rows }}u + {{ r }}u;
        if (n{{ r }} < N) {
            var v = s{{ r }};
{{ add_bias("v", "n" ~ r) }}
            y[ROW0 + n{{ r }}] = v;
        }
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
{% if down %}
        y[wid.y * NSTRIDE + first + li] += v;
{% else %}
        let at = ROW0 + first + li;
{{ add_bias("v", "first + li") }}
        if (ADD == 1u) { v += y[at]; }
        // With the exponential of what is not positive: no tanh overflows.
        if (SOFTCAP != 0.0) {
            let e = exp(-2.0 * abs(v / SOFTCAP));
            v = sign(v) * SOFTCAP * (1.0 - e) / (1.0 + e);
        }
        y[at] = v;
{% endif %}
    }
{% endif %}
}
