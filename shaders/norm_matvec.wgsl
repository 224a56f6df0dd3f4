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
    h0 = wid.z * EACH * KB * 8u;
    if (POST == 1u) { add_block(li, wid.x + wid.y * grid.x == 0u); }
    prologue(li);
{% endblock %}
{% block sums %}
    let factor = norm_factor();
{% if memory %}
{{ left.leave("sum") }}
{% else %}
{% for r in range(rows) %}
    let s{{ r }} = lane_sum(sum{{ r }}, li) * factor;
{% endfor %}
{% endif %}
{% endblock %}
{% block finish %}
{% if memory %}
    if (li < GROUPS * {{ rows }}u && first + li < N) {
        var v = row_sum(li / {{ rows }}u, li % {{ rows }}u) * factor;
        if (BIAS == 1u) { v += bias[ROW0 + first + li]; }
        y[y0 + ROW0 + first + li] = v;
    }
{% else %}
    if (li % LANES == 0u) {
{% for r in range(rows) %}
        let n{{ r }} = first + group * {{ rows }}u + {{ r }}u;
        if (n{{ r }} < N) {
            var v = s{{ r }};
            if (BIAS == 1u) { v += bias[ROW0 + n{{ r }}]; }
            y[y0 + ROW0 + n{{ r }}] = v;
        }
{% endfor %}
    }
{% endif %}
{% endblock %}
