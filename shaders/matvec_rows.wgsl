// y[t][ROW0 + n] (+)= sum over k of w[n][k] * x[t][k] (+ bias[n]) for up to {{ tile[1] }} rows of x (of more, for as
// many from {{ tile[1] }} times the grid's third number on): as matvec, each block of w read and decoded once for all of
// them. LANES neighbouring invocations share {{ rows }} rows of w; SPLIT such groups deal K out among themselves.
{# What sets `normed` is a template that extends this one: the rows are of the residual stream, normed here. #}
{% set normed = normed | default(false) %}
{# What sets `opens`: y is the residual stream, and its int8 go into yq and ys, with the norm's factor left open. #}
{% set opens = opens | default(false) %}
{% set most = tile[1] %}
{% set at_once = 4 %}{# rows of x that are compiled together: with fewer, the others are skipped #}
{% include "common/state.wgsl" %}
{% include "common/weight.wgsl" %}
{% set through = "_memory" if reduce[:2] == "wg" else emulated | default("") %}
{% include "common/lanes.wgsl" %}
{% from "common/sums.wgsl" import sums, which with context %}
override KB: u32;        // blocks of a row, ceil(K / 32)
{% if opens %}
const SPLIT = {{ workgroup // lanes * rows // 32 }}u;   // groups of lanes that share a row
{% else %}
override SPLIT: u32;     // groups of lanes that share a row: a power of two, at most GROUPS
{% endif %}
override N: u32;         // rows of w in this part
override ROW0: u32;      // where in a row of y this part begins
{% if not normed and not opens %}
override ADD: u32;       // 1: y is added to, the residual
{% endif %}
override NSTRIDE: u32;   // f32 elements between rows of y
override T: u32 = {{ most }}u;        // most rows of x
{% if not normed and not opens %}
override SOFTCAP: f32 = 0.0;   // c: y becomes c tanh(y / c); 0: it stays
{% endif %}
{% if normed %}
{% include "common/int8.wgsl" %}
{% include "common/normed_rows.wgsl" %}
{% else %}
{% include "common/activations.wgsl" %}
{% endif %}
@group(0) @binding(5) var<storage, read_write> y: array<f32>;    // [T][NSTRIDE]
{% if opens %}
{% include "common/int8.wgsl" %}
{% from "common/shuffles" ~ through ~ ".wgsl" import most as largest_of, sum with context %}
@group(0) @binding(6) var<storage, read> nw: array<vec4<f32>>;         // [NSTRIDE / 4]
@group(0) @binding(7) var<storage, read_write> yq: array<u32>;         // [T][NSTRIDE / 32][8]
@group(0) @binding(8) var<storage, read_write> ys: array<vec2<f32>>;   // [T][NSTRIDE / 32], and behind it [T][NSTRIDE / 32] sums of squares
var<workgroup> outputs: array<f32, {{ most * 32 }}>;   // [{{ most }}][32]
{% else %}
override BIAS: u32 = 0u;   // 1: the bias is added
@group(0) @binding(6) var<storage, read> bias: array<f32>;       // [>= ROW0 + N], read where BIAS is 1
{% endif %}
const GROUPS = {{ workgroup // lanes }}u;   // groups of lanes in a workgroup
var<workgroup> parts: array<f32, {{ workgroup // lanes * rows * most }}>;   // [GROUPS][{{ rows }}][{{ most }} t]

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let group = li / LANES;
    let lane = li % LANES + group % SPLIT * LANES;
    let first = (wid.x + wid.y * grid.x) * (GROUPS / SPLIT * {{ rows }}u);
    if (first >= N) { return; }
    let t0 = wid.z * {{ most }}u;
    if (t0 >= state.rows) { return; }
    // Rows beyond the last repeat it and are not written.
    let last = state.rows - 1u - t0;
{% for r in range(rows) %}
    let b{{ r }} = min(first + group / SPLIT * {{ rows }}u + {{ r }}u, N - 1u) * KB;
{% for t in range(most) %}
    var s{{ r }}_{{ t }} = 0.0;
{% endfor %}
{% endfor %}
{% if normed %}
    prologue(li, last, wid.x + wid.y * grid.x == 0u);
{% else %}
{% for t in range(most) %}
    let x{{ t }} = (t0 + min({{ t }}u, last)) * KB;
{% endfor %}
{% endif %}
{% if act == "q8" %}
    for (var i = lane; i < KB; i += LANES * SPLIT) {
{% for r in range(rows) %}
        let w{{ r }} = load_w(b{{ r }} + i);
{% endfor %}
{% for part in range(most // at_once) %}
        if (T > {{ part * at_once }}u && last >= {{ part * at_once }}u) {
{% for t in range(part * at_once, (part + 1) * at_once) %}
            {
{% include "common/row_of_x.wgsl" %}
{% for r in range(rows) %}
                s{{ r }}_{{ t }} += dot_w(w{{ r }}, xa, xb, xd);
{% endfor %}
            }
{% endfor %}
        }
{% endfor %}
    }
{% else %}
    for (var i = lane; i < KB * UNITS; i += LANES * SPLIT) {
{% for r in range(rows) %}
        let w{{ r }} = load_piece(b{{ r }} * UNITS + i);
{% endfor %}
{% for part in range(most // at_once) %}
        if (T > {{ part * at_once }}u && last >= {{ part * at_once }}u) {
{% for t in range(part * at_once, (part + 1) * at_once) %}
            {
                let v = load_x(x{{ t }} * UNITS + i);
{% for r in range(rows) %}
                s{{ r }}_{{ t }} += dot_piece(w{{ r }}, v);
{% endfor %}
            }
{% endfor %}
        }
{% endfor %}
    }
{% endif %}
{% for part in range(most // at_once) %}
    if (T > {{ part * at_once }}u && last >= {{ part * at_once }}u) {
{% set values = namespace(all=[]) %}
{% for r in range(rows) %}{% for t in range(part * at_once, (part + 1) * at_once) %}
{% set values.all = values.all + ["s" ~ r ~ "_" ~ t] %}
{% endfor %}{% endfor %}
        var all = 0.0;
{{ sums("all", values.all, lanes) }}
        let i = {{ which(rows * at_once) }};
        if (li % LANES < {{ rows * at_once }}u) {
            parts[(group * {{ rows }}u + i / {{ at_once }}u) * {{ most }}u + {{ part * at_once }}u + i % {{ at_once }}u] = all;
        }
    }
{% endfor %}
    workgroupBarrier();
    // parts is [rows of groups][SPLIT][{{ rows }}][{{ most }}].
    for (var i = li; i < GROUPS / SPLIT * {{ rows * most }}u; i += {{ workgroup }}u) {
        let t = i % {{ most }}u;
        let n = i / {{ most }}u;
        if (t <= last && first + n < N) {
            var v = 0.0;
            for (var k = 0u; k < SPLIT; k++) { v += parts[((n / {{ rows }}u * SPLIT + k) * {{ rows }}u + n % {{ rows }}u) * {{ most }}u + t]; }
            let at = (t0 + t) * NSTRIDE + ROW0 + first + n;
{% if opens %}
            v += y[at];
            outputs[t * 32u + n] = v;
{% else %}
{% if normed %}
            v *= norm_factor(t);
{% endif %}
            if (BIAS == 1u) { v += bias[ROW0 + first + n]; }
{% if not normed %}
            if (ADD == 1u) { v += y[at]; }
{% include "common/softcap.wgsl" %}
{% endif %}
{% endif %}
            y[at] = v;
        }
    }
{% if opens %}
    workgroupBarrier();
    // Eight invocations take a row, four outputs each.
    let t = li / 8u;
    let at = li % {{ most * 8 }}u * 4u;
    let h = vec4<f32>(outputs[at], outputs[at + 1u], outputs[at + 2u], outputs[at + 3u]);
    let v = h * nw[(ROW0 + first) / 4u + li % 8u];
    var squares = dot(h, h);
{{ sum("squares", 8) }}
    let block = t * (NSTRIDE / 32u) + (ROW0 + first) / 32u;
{% include "common/rows_to_q8.wgsl" %}
    if (li % 8u == 0u) { ys[T * (NSTRIDE / 32u) + block] = vec2<f32>(squares, 0.0); }
{% endif %}
}
