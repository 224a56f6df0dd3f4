// y[ROW0 + n] = sum over k of w[n][k] * norm(h)[k] (+ bias[n]), for the N rows of w in this part: matvec of the residual stream, normed here.
{% extends "matvec.wgsl" %}
{% set normed = true %}
{% set unrolled = unrolled | default(true) %}
{% block input %}
{% include "common/int8.wgsl" %}
{% include "common/normed.wgsl" %}
const SPLIT = 1u;
{% endblock %}
{% block join %}{% endblock %}
{% block prologue %}
    if (POST == 1u) { add_block(li, wid.x + wid.y * grid.x == 0u); }
{% if act == "q8" %}
    prologue(li);
{% else %}
    var sq = 0.0;
{% endif %}
{% endblock %}
{% block sums %}
    let factor = {{ "norm_factor()" if act == "q8" else "inverseSqrt(lane_sum(sq, li) / f32(D) + EPS)" }};
{% for r in range(rows) %}
    let s{{ r }} = lane_sum(sum{{ r }}, li) * factor;
{% endfor %}
{% endblock %}
{% block finish %}
    if (li % LANES == 0u) {
{% for r in range(rows) %}
        let n{{ r }} = first + group * {{ rows }}u + {{ r }}u;
        if (n{{ r }} < N) {
            var v = s{{ r }};
            if (BIAS == 1u) { v += bias[ROW0 + n{{ r }}]; }
            y[ROW0 + n{{ r }}] = v;
        }
{% endfor %}
    }
{% endblock %}
