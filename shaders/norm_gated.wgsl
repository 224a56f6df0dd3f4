// y[f] = act(w[f] . norm(h)) * (w[F + f] . norm(h)): gates in the first F rows of w, up rows in the next F; 32 outputs a workgroup.
{% extends "norm_matvec.wgsl" %}
{# Fewer lanes a row mean more groups, which hide the wait for one another. #}
{% set unrolled = lanes == 32 %}
{% block output %}
{% include "common/gated.wgsl" %}
{% endblock %}
{% block rows %}
    let first = (wid.x + wid.y * grid.x) * 32u;
    const w0 = 0u;
    const x0 = 0u;
    const y0 = 0u;
{% include "common/gated_rows.wgsl" %}
{% endblock %}
{% block finish %}
{% include "common/gated_finish.wgsl" %}
{% endblock %}
