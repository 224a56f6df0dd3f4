// y[ROW0 + n] (+)= sum over k of w[n][k] * x[k] (+ bias[n]), for the N rows of w in this part.
//
// LANES neighbouring invocations share a row of w and walk along K together, so that they read neighbouring 16 bytes; SPLIT such groups
// deal K out among themselves where there are too few rows to fill the GPU.
//
// Other products of one row of activations are this one with some of its blocks replaced:
//   input     the activations, and SPLIT
//   output    where the results go, and what of w is this part's
//   rows      first, the first row of this workgroup; b0, b1, …, blocks where the rows of this invocation begin; x0, where its activations do
//   product   sum0, sum1, …, what this lane adds up of each of its rows
//   prologue  what comes before the first load of w
//   sums      s0, s1, …, the rows' sums over all lanes of the group
//   finish    from the sums to what is stored
{# What sets them is a template that extends this one. #}
{% set normed = normed | default(false) %}{# the activations are the residual stream, normed here #}
{% set unrolled = unrolled | default(false) %}{# two blocks are under way at once #}
{% set experts = experts | default(false) %}{# there are several rows of activations, each with experts of its own #}
{% set deals = deals | default("blocks") %}{# what the groups of a row deal out among themselves: blocks of K, or experts #}
{% set step = "LANES * SPLIT" if deals == "blocks" else "LANES" %}{# from a block of this lane to its next #}
{% include "common/state.wgsl" %}
{% include "common/weight.wgsl" %}
{% include "common/lanes.wgsl" %}
override KB: u32;     // blocks of a row, ceil(K / 32)
{% block input %}
override SPLIT: u32;  // groups of lanes that share a row: a power of two, at most GROUPS
{% include "common/activations.wgsl" %}
{% endblock %}
const GROUPS = {{ workgroup // lanes }}u;   // groups of lanes in a workgroup
{% block output %}
override N: u32;      // rows of this part
@group(0) @binding(5) var<storage, read_write> y: array<f32>;    // [>= ROW0 + N]
override ROW0: u32;   // where in y this part begins
override BIAS: u32 = 0u;   // 1: the bias is added
@group(0) @binding(6) var<storage, read> bias: array<f32>;       // [>= ROW0 + N], read where BIAS is 1
{% block join %}
override ADD: u32;    // 1: y is added to, the residual
override SOFTCAP: f32 = 0.0;   // c: y becomes c tanh(y / c); 0: it stays
{% include "common/parts.wgsl" %}
{% endblock %}
{% endblock %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let group = li / LANES;
    let lane = li % LANES{{ " + group % SPLIT * LANES" if deals == "blocks" }};
    // Rows beyond the last repeat it and are not written.
{% block rows %}
    const x0 = 0u;
    let first = (wid.x + wid.y * grid.x) * (GROUPS / SPLIT * {{ rows }}u);
    if (first >= N) { return; }
{% for r in range(rows) %}
    let b{{ r }} = min(first + group / SPLIT * {{ rows }}u + {{ r }}u, N - 1u) * KB;
{% endfor %}
{% endblock %}
{% block product %}
{% for r in range(rows) %}
    var sum{{ r }} = 0.0;
{% endfor %}
{% block prologue %}{% endblock %}
{% include "common/inner_" ~ act ~ ".wgsl" %}
{% endblock %}
{% block sums %}
{% for r in range(rows) %}
    let s{{ r }} = lane_sum(sum{{ r }}, li);
{% endfor %}
{% endblock %}
{% block finish %}
    if (li % LANES == 0u) {
{% for r in range(rows) %}
        parts[group * {{ rows }}u + {{ r }}u] = s{{ r }};
{% endfor %}
    }
    workgroupBarrier();
    if (li < GROUPS / SPLIT * {{ rows }}u && first + li < N) {
        var v = 0.0;
        for (var k = 0u; k < SPLIT; k++) { v += parts[(li / {{ rows }}u * SPLIT + k) * {{ rows }}u + li % {{ rows }}u]; }
{% block store %}
        let at = ROW0 + first + li;
        if (BIAS == 1u) { v += bias[ROW0 + first + li]; }
        if (ADD == 1u) { v += y[at]; }
        // With the exponential of what is not positive: no tanh overflows.
        if (SOFTCAP != 0.0) {
            let e = exp(-2.0 * abs(v / SOFTCAP));
            v = sign(v) * SOFTCAP * (1.0 - e) / (1.0 + e);
        }
        y[at] = v;
{% endblock %}
    }
{% endblock %}
}
