// y[f] = act(w[f] . norm(h)) * (w[F + f] . norm(h)): gates in the first F rows of w, up rows in the next F; 32 outputs a workgroup.
{% extends "norm_matvec.wgsl" %}
{# Fewer lanes a row mean more groups, which hide the wait for one another. #}
{% set unrolled = lanes == 32 %}
{% block output %}
{% include "common/gated.wgsl" %}
{% if out == "f32" %}
override BESIDE: u32 = 0u;   // not 0: the factors of the activations are numbers that are there, so many a row, from where nw says
@group(0) @binding(6) var<storage, read> beside: array<f32>;
{% endif %}
{% endblock %}
{% block rows %}
    let first = (wid.x + wid.y * grid.x) * 32u;
    const w0 = 0u;
    const x0 = 0u;
    let y0 = wid.z * EACH * ((F + 31u) / 32u);
    if (EACH == 1u && wid.z >= state.rows) { return; }
{% include "common/gated_rows.wgsl" %}
{% endblock %}
{% block sums %}
    let factor = norm_factor();
{% if memory %}
{{ left.leave("sum") }}
{% endif %}
{% endblock %}
{% block finish %}
{% include "common/gated_finish.wgsl" %}
{% endblock %}
