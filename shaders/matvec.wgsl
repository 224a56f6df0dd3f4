// y[ROW0 + n] (+)= sum over k of w[n][k] * x[k] (+ bias[n]), for the N rows of w in this part.
//
// LANES neighbouring invocations share a row of w and walk along K together, so that they read neighbouring 16 bytes; SPLIT such groups
// deal K out among themselves where there are too few rows to fill the GPU.
//
// Other products of one row of activations are this one with some of its blocks replaced:
//   input     the activations, and SPLIT
//   output    where the results go, and what of w is this part's
//   rows      first, the first row of this workgroup; b0, b1, …, blocks where the rows of this invocation begin; x0, where its activations do;
//             y0, where its results do
//   product   sum0, sum1, …, what this lane adds up of each of its rows
//   prologue  what comes before the first load of w
//   sums      s0, s1, …, the rows' sums over all lanes of the group; without subgroups they are left to row_sum (common/left.wgsl)
//   finish    from the sums to what is stored
{# What sets them is a template that extends this one. #}
{% set normed = normed | default(false) %}{# the activations are the residual stream, normed here #}
{% set unrolled = unrolled | default(false) %}{# two blocks are under way at once #}
{% set experts = experts | default(false) %}{# there are several rows of activations, each with experts of its own #}
{% set deals = deals | default("blocks") %}{# what the groups of a row deal out among themselves: blocks of K, or experts #}
{% set step = "LANES * SPLIT" if deals == "blocks" else "LANES" %}{# from a block of this lane to its next #}
{% set memory = memory | default(reduce[:2] == "wg") %}{# without subgroups, what lanes have summed is left to row_sum #}
{% set exchanges = exchanges | default(normed) %}{# sums or maxima of some lanes are wanted by all of them #}
{% set through = "_memory" if reduce[:2] == "wg" else emulated | default("") %}
{% import "common/weight_" ~ weight ~ ".wgsl" as type with context %}
{# A lane's activations in f32, 128 bytes of a block, are far from its neighbour's: they go through workgroup memory. The tuner compares these
   variants with those of eight lanes and less, which read them where they are. #}
{% set sliced = act == "f32" and not normed and not experts and type.numbers and lanes > 8 %}
{% include "common/state.wgsl" %}
{% include "common/weight.wgsl" %}
{% include "common/lanes.wgsl" %}
override KB: u32;     // blocks of a row, ceil(K / 32)
{% if not experts %}
override EACH: u32 = 0u;   // 1: there are as many rows of activations as the grid's third number, each with workgroups of its own
{% endif %}
{% block input %}
override SPLIT: u32;  // groups of lanes that share a row: a power of two, at most GROUPS
{% include "common/activations.wgsl" %}
{% endblock %}
const GROUPS = {{ workgroup // lanes }}u;   // groups of lanes in a workgroup
{% block output %}
override N: u32;      // rows of this part
@group(0) @binding(5) var<storage, read_write> y: array<f32>;    // [>= ROW0 + N]
override NSTRIDE: u32 = 0u;   // f32 elements between rows of y, where EACH is 1
override ROW0: u32;   // where in y this part begins
override BIAS: u32 = 0u;   // 1: the bias is added
@group(0) @binding(6) var<storage, read> bias: array<f32>;       // [>= ROW0 + N], read where BIAS is 1
{% block join %}
override ADD: u32;    // 1: y is added to, the residual
override SOFTCAP: f32 = 0.0;   // c: y becomes c tanh(y / c); 0: it stays
{% if not memory %}{% include "common/parts.wgsl" %}{% endif %}
{% endblock %}
{% endblock %}
{% if memory %}
{% import "common/left.wgsl" as left with context %}
{{ left.module() }}
{% endif %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let group = li / LANES;
    let lane = li % LANES{{ " + group % SPLIT * LANES" if deals == "blocks" }};
    // Rows beyond the last repeat it and are not written.
{% block rows %}
    let x0 = {{ "0u" if normed else "wid.z * EACH * KB" }};
    let y0 = wid.z * EACH * NSTRIDE;
    let first = (wid.x + wid.y * grid.x) * (GROUPS / SPLIT * {{ rows }}u);
    if (first >= N || (EACH == 1u && wid.z >= state.rows)) { return; }
{% for r in range(rows) %}
    let b{{ r }} = min(first + group / SPLIT * {{ rows }}u + {{ r }}u, N - 1u) * KB;
{% endfor %}
{% endblock %}
{% block product %}
{% for r in range(rows) %}
    var sum{{ r }} = 0.0;
{% endfor %}
{% block prologue %}{% endblock %}
{% include "common/inner_" ~ ("q8" if act == "q8" else "f32") ~ ".wgsl" %}
{% endblock %}
{% block sums %}
{% if memory %}
{{ left.leave("sum") }}
{% else %}
{% for r in range(rows) %}
    let s{{ r }} = lane_sum(sum{{ r }}, li);
{% endfor %}
{% endif %}
{% endblock %}
{% block finish %}
{% if not memory %}
    if (li % LANES == 0u) {
{% for r in range(rows) %}
        parts[group * {{ rows }}u + {{ r }}u] = s{{ r }};
{% endfor %}
    }
    workgroupBarrier();
{% endif %}
    if (li < GROUPS / SPLIT * {{ rows }}u && first + li < N) {
        var v = 0.0;
{% if memory %}
        for (var k = 0u; k < SPLIT; k++) { v += row_sum(li / {{ rows }}u * SPLIT + k, li % {{ rows }}u); }
{% else %}
        for (var k = 0u; k < SPLIT; k++) { v += parts[(li / {{ rows }}u * SPLIT + k) * {{ rows }}u + li % {{ rows }}u]; }
{% endif %}
{% block store %}
        let at = y0 + ROW0 + first + li;
        if (BIAS == 1u) { v += bias[ROW0 + first + li]; }
        if (ADD == 1u) { v += y[at]; }
{% include "common/softcap.wgsl" %}
        y[at] = v;
{% endblock %}
    }
{% endblock %}
}
