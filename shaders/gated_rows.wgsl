// y[t][f] = act(w[f] . x[t]) * (w[F + f] . x[t]) for up to {{ tile[1] }} rows of x: gates in the first F rows of w, up rows in the next F; 32 outputs of
// each row a workgroup, whose blocks of w are read once for all of them.
{# What sets `normed` is a template that extends this one: the rows are of the residual stream, normed here. #}
{% set normed = normed | default(false) %}
{% set most = tile[1] %}
{% set half = rows // 2 %}
{% set at_once = 4 %}{# rows of x whose sums come together #}
{% include "common/state.wgsl" %}
{% include "common/weight.wgsl" %}
{% set through = "_memory" if reduce[:2] == "wg" else emulated | default("") %}
{% include "common/lanes.wgsl" %}
{% include "common/int8.wgsl" %}
override KB: u32;     // blocks of a row, ceil(K / 32)
override T: u32 = {{ most }}u;   // most rows of x
override F: u32;      // outputs
{% include "common/" ~ ("normed_rows" if normed else "activations") ~ ".wgsl" %}
{% from "common/shuffles" ~ through ~ ".wgsl" import most as largest_of, sum with context %}
{% from "common/sums.wgsl" import sums, which with context %}
{% if not normed %}{% include "common/open.wgsl" %}{% endif %}
@group(0) @binding(5) var<storage, read_write> yq: array<u32>;         // [T][ceil(F / 32)][8]
@group(0) @binding(6) var<storage, read_write> ys: array<vec2<f32>>;   // [T][ceil(F / 32)]
{% include "common/activation.wgsl" %}
var<workgroup> outputs: array<f32, {{ most * 32 }}>;   // [{{ most }}][32]

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let group = li / LANES;
    let lane = li % LANES;
    let first = (wid.x + wid.y * grid.x) * 32u;
    if (first >= F) { return; }
    let last = state.rows - 1u;
{% for r in range(half) %}
    let b{{ r }} = min(first + group * {{ half }}u + {{ r }}u, F - 1u) * KB;
    let b{{ half + r }} = b{{ r }} + F * KB;
{% endfor %}
{% if normed %}
    prologue(li, last, wid.x + wid.y * grid.x == 0u);
{% else %}
    if (D != 0u) { open_factors(li); }
{% endif %}
{% for t in range(most) %}
{% if not normed %}
    let x{{ t }} = min({{ t }}u, last) * KB;
{% endif %}
{% for r in range(rows) %}
    var s{{ r }}_{{ t }} = 0.0;
{% endfor %}
{% endfor %}
{# A loop for each number of rows: one that asks within it how many there are is slower. #}
{% for count in [1, 4, 8] if count <= most %}
    {% if not loop.first %}else {% endif %}{% if not loop.last %}if (last < {{ count }}u || T <= {{ count }}u) {% endif %}{
    for (var i = lane; i < KB; i += LANES) {
{% for r in range(rows) %}
        let w{{ r }} = load_w(b{{ r }} + i);
{% endfor %}
{% for t in range(count) %}
        {
{% include "common/row_of_x.wgsl" %}
{% for r in range(rows) %}
            s{{ r }}_{{ t }} += dot_w(w{{ r }}, xa, xb, xd);
{% endfor %}
        }
{% endfor %}
    }
    }
{% endfor %}
{% if not normed %}
    if (D != 0u) { workgroupBarrier(); }
{% endif %}
{% for part in range(most // at_once) %}
    if (T > {{ part * at_once }}u && last >= {{ part * at_once }}u) {
{% set values = namespace(gates=[], ups=[]) %}
{% for r in range(half) %}{% for t in range(part * at_once, (part + 1) * at_once) %}
{% set values.gates = values.gates + ["s" ~ r ~ "_" ~ t] %}
{% set values.ups = values.ups + ["s" ~ (half + r) ~ "_" ~ t] %}
{% endfor %}{% endfor %}
        var gate = 0.0;
        var up = 0.0;
{{ sums("gate", values.gates, lanes) }}
{{ sums("up", values.ups, lanes) }}
        let i = {{ which(half * at_once) }};
        if (lane < {{ half * at_once }}u) {
            let f = group * {{ half }}u + i / {{ at_once }}u;
{% if normed %}
            let factor = norm_factor({{ part * at_once }}u + i % {{ at_once }}u);
            gate *= factor;
            up *= factor;
{% else %}
            if (D != 0u) {
                gate *= factors[{{ part * at_once }}u + i % {{ at_once }}u];
                up *= factors[{{ part * at_once }}u + i % {{ at_once }}u];
            }
{% endif %}
            outputs[({{ part * at_once }}u + i % {{ at_once }}u) * 32u + f] = select(0.0, activation(gate) * lifted(up), first + f < F);
        }
    }
{% endfor %}
    workgroupBarrier();
    // Eight invocations take a row, four outputs each.
    let t = li / 8u;
    let at = li % {{ most * 8 }}u * 4u;
    let v = vec4<f32>(outputs[at], outputs[at + 1u], outputs[at + 2u], outputs[at + 3u]);
    let block = t * ((F + 31u) / 32u) + first / 32u;
{% include "common/rows_to_q8.wgsl" %}
}
