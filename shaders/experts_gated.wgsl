// y[t][u][f] = act(w[e][f] . x[t]) * (w[e][F + f] . x[t]), or act(w[e][f] . x[t]) where nothing is gated, for the expert e that row t has chosen
// as its u-th, where this part holds it: grid [ceil(F / 32), T USED]. Only the chosen experts are read.
{% extends "matvec.wgsl" %}
{% set experts = true %}
{# Biases are added to the sums of rows before they become outputs. #}
{% set memory = false %}
{% set exchanges = true %}
{% block input %}
{% include "common/int8.wgsl" %}
const SPLIT = 1u;
{% include "common/activations.wgsl" %}
{% endblock %}
{% block output %}
{% include "common/gated.wgsl" %}
{% include "common/experts.wgsl" %}
override INTERLEAVED: u32 = 0u;   // 1: gates and up rows are neighbours
override BIAS: u32 = 0u;          // 1: biases are added, which are in the order of the rows; otherwise those of all gates come first
override UP_AT: u32 = 0u;         // and then, from here on, those of all up rows
@group(0) @binding(8) var<storage, read> bias: array<f32>;
{% endblock %}
{% block rows %}
    let first = wid.x * 32u;
    let t = wid.y / USED;
    if (t >= state.rows) { return; }
    let expert = chosen[wid.y].x;
    if (expert < FIRST || expert - FIRST >= COUNT) { return; }
    let w0 = (expert - FIRST) * (1u + GATED) * F * KB;
    let x0 = t * KB;
    let y0 = wid.y * ((F + 31u) / 32u);
{% include "common/gated_rows.wgsl" %}
{% endblock %}
{% block sums %}{% endblock %}
{% block finish %}
{% include "common/gated_finish.wgsl" %}
{% endblock %}
