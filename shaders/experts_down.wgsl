// y[t][n] (+)= sum over u of weight[t][u] * (w[e][n] . x[t][u]) for the experts e that row t has chosen, those that this part holds. SPLIT groups of
// lanes deal out the experts.
{% extends "matvec.wgsl" %}
{% set experts = true %}
{% set deals = "experts" %}
{% block output %}
override N: u32;      // rows of an expert
@group(0) @binding(5) var<storage, read_write> y: array<f32>;    // [T][NSTRIDE]
override NSTRIDE: u32;   // f32 elements between rows of y
override ADD: u32 = 1u;  // 1: y is added to
override BIAS: u32 = 0u; // 1: what each expert gives has a bias
@group(0) @binding(8) var<storage, read> bias: array<f32>;       // [experts][N], read where BIAS is 1
{% if not memory %}{% include "common/parts.wgsl" %}{% endif %}
{% include "common/experts.wgsl" %}
{% endblock %}
{% block rows %}
    let first = wid.x * (GROUPS / SPLIT * {{ rows }}u);
    if (wid.y >= state.rows) { return; }
    if (first >= N) { return; }
{% for r in range(rows) %}
    let of_expert{{ r }} = min(first + group / SPLIT * {{ rows }}u + {{ r }}u, N - 1u) * KB;
{% endfor %}
{% endblock %}
{% block product %}
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
{{ super() }}
    let weight = bitcast<f32>(chosen[slot].y);
{% for r in range(rows) %}
    if (BIAS == 1u && li % LANES == 0u) { sum{{ r }} += bias[expert * N + of_expert{{ r }} / KB]; }
    total{{ r }} += sum{{ r }} * weight;
{% endfor %}
    }
{% endblock %}
{% block sums %}
{% if memory %}
{{ left.leave("total") }}
{% else %}
{% for r in range(rows) %}
    let s{{ r }} = lane_sum(total{{ r }}, li);
{% endfor %}
{% endif %}
{% endblock %}
{% block store %}
        let at = wid.y * NSTRIDE + first + li;
        if (ADD == 1u) { v += y[at]; }
        y[at] = v;
{% endblock %}
