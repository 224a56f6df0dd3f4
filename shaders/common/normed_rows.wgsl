// The prologue of products that read up to {{ most }} rows of the residual stream: RMSNorm and quantization, by every workgroup for itself; as
// common/normed.wgsl, with the norm's factors multiplied to the finished sums.
{% include "common/residual.wgsl" %}
{% from "common/shuffles" ~ through ~ ".wgsl" import most as largest_of_lanes, sum as sum_of_lanes with context %}
{% from "common/sums.wgsl" import sums, which with context %}
{% set of_rows = namespace(all=[]) %}
{% for t in range(most) %}{% set of_rows.all = of_rows.all + ["sq" ~ t] %}{% endfor %}
{# What the rows' sq0, sq1, … come to in this group of lanes. #}
{% macro leave() %}
        {
            var all = 0.0;
{{ sums("all", of_rows.all, lanes) }}
            if (li % LANES < {{ most }}u) { squares[{{ which(most) }} * {{ workgroup // lanes }}u + li / LANES] = all; }
        }
{% endmacro %}
const ROOM = {{ rows_prologue_blocks }}u;
var<workgroup> nq: array<vec2<u32>, {{ most * 4 * rows_prologue_blocks }}>;   // [{{ most }}][4][ROOM]: int8 of h * nw, eight each
var<workgroup> ns: array<vec2<f32>, {{ most * rows_prologue_blocks }}>;   // [{{ most }}][ROOM]: (scale, scale * sum of the int8)
var<workgroup> squares: array<f32, {{ most * (workgroup // lanes) }}>;   // [{{ most }}][groups of lanes]: sums of h^2, before that of block^2

// 1 / sqrt of the mean of what `squares` holds the sums of, for row t.
fn mean_factor(t: u32) -> f32 {
    var sum = 0.0;
    for (var i = 0u; i < {{ workgroup // lanes }}u; i++) { sum += squares[t * {{ workgroup // lanes }}u + i]; }
    return inverseSqrt(sum / f32(D) + EPS);
}
// The factor of row t's norm, after the prologue.
fn norm_factor(t: u32) -> f32 { return select(mean_factor(t), 1.0, PLAIN == 1u); }

// Rows beyond `last` repeat it; with POST `first` writes the sums.
fn prologue(li: u32, last: u32, first: bool) {
{% for t in range(most) %}
    let h{{ t }} = min({{ t }}u, last) * KB * 8u;
    var post{{ t }} = 0.0;
{% endfor %}
    if (POST == 1u) {
{% for t in range(most) %}
        var sq{{ t }} = 0.0;
{% endfor %}
        for (var j = li; j < D / 4u; j += {{ workgroup }}u) {
{% for t in range(most) %}
            sq{{ t }} += dot(block[h{{ t }} + j], block[h{{ t }} + j]);
{% endfor %}
        }
{{ leave() }}
        workgroupBarrier();
{% for t in range(most) %}
        post{{ t }} = mean_factor({{ t }}u);
{% endfor %}
        workgroupBarrier();
        if (first) {
            for (var j = li; j < KB * 8u; j += {{ workgroup }}u) {
{% for t in range(most) %}
                if (last >= {{ t }}u) { sum[h{{ t }} + j] = complete(h{{ t }}, j, post{{ t }}); }
{% endfor %}
            }
        }
    }
{% for t in range(most) %}
    var sq{{ t }} = 0.0;
{% endfor %}
    // Four invocations share a block.
    for (var begin = 0u; begin < KB * 4u; begin += {{ workgroup }}u) {
        let inside = begin + li < KB * 4u;
        let j = min(begin + li, KB * 4u - 1u);
        let w0 = nw[j * 2u];
        let w1 = nw[j * 2u + 1u];
        // Loads first: what takes time is the wait for them.
{% for t in range(most) %}
        let a{{ t }} = complete(h{{ t }}, j * 2u, post{{ t }});
        let b{{ t }} = complete(h{{ t }}, j * 2u + 1u, post{{ t }});
{% endfor %}
{% for t in range(most) %}
        {
            sq{{ t }} += select(0.0, dot(a{{ t }}, a{{ t }}) + dot(b{{ t }}, b{{ t }}), inside);
            var largest = max(largest4(a{{ t }} * w0), largest4(b{{ t }} * w1));
{{ largest_of_lanes("largest", 4) }}
            let d = largest / 127.0;
            let q = vec2<u32>(quantize4(a{{ t }} * w0, d), quantize4(b{{ t }} * w1, d));
            var total = total4(q.x) + total4(q.y);
{{ sum_of_lanes("total", 4, "i32") }}
            if (inside) {
                nq[({{ t * 4 }}u + j % 4u) * ROOM + j / 4u] = q;
                if (j % 4u == 0u) { ns[{{ t }}u * ROOM + j / 4u] = vec2<f32>(d, d * f32(total)); }
            }
        }
{% endfor %}
    }
{{ leave() }}
    workgroupBarrier();
}
