// y[t][ROW0 + n] (+)= sum over k of w[n][k] * x[t][k] on a GPU's matrix units: halves, summed in f32. A tile of {{ tile[0] }} (n) x {{ tile[1] }} (t) a
// workgroup of four subgroups of 32, whose parts are [2 n][2 t]. A block of K at a time goes through workgroup memory as halves.
// Whole tiles are written: y has room for them, N, ROW0 and NSTRIDE are multiples of {{ tile[0] }}, 16 and 16. Rows from T on repeat the last.
{% include "common/state.wgsl" %}
{% include "common/weight.wgsl" %}
@group(0) @binding(3) var<storage, read> x: array<vec4<{{ act }}>>;         // [T][KB * 8]
fn x4(j: u32) -> vec4<f32> { return vec4<f32>(x[j]); }   // for common/weight
@group(0) @binding(5) var<storage, read_write> y: array<f32>;         // [T up to whole tiles][NSTRIDE]

override KB: u32;        // blocks of a row, ceil(K / 32)
override N: u32;         // rows of w in this part
override ROW0: u32;      // where in a row of y this part begins
override ADD: u32;       // 1: y is added to, the residual
override NSTRIDE: u32;   // f32 elements between rows of y

const THREADS = {{ workgroup }}u;
const STRIDE = 40u;      // halves between rows: those of 16 rows begin in different banks
var<workgroup> wt: array<f16, {{ tile[0] }}u * STRIDE>;   // [n][k]
var<workgroup> xt: array<f16, {{ tile[1] }}u * STRIDE>;   // [t][k]
{% set across = tile[0] // 32 %}
{% set down = tile[1] // 32 %}

// Four halves of block b of w; what is beyond the largest half saturates.
fn w_halves(b: u32, j: u32) -> vec4<f16> {
{% import "common/weight_" ~ weight ~ ".wgsl" as type with context %}
{% if not type.numbers %}
    return saturated(w4(b, j));
{% else %}
    let d = w_scales(b);
    let q = vec4<f16>(unpack4xI8(w_i8(b, j)));
{% if type.halves_scale %}
    return q * f16(select(d.x, d.y, j >= 4u)){{ " - f16(select(d.z, d.w, j >= 4u))" if type.has_min }};
{% elif type.has_min %}
    return q * f16(d.x) - f16(d.z);
{% else %}
    return q * f16(d.x);
{% endif %}
{% endif %}
}
fn saturated(v: vec4<f32>) -> vec4<f16> { return vec4<f16>(clamp(v, vec4<f32>(-65504.0), vec4<f32>(65504.0))); }
fn x_halves(j: u32) -> vec4<f16> { return {{ "saturated(x[j])" if act == "f32" else "x[j]" }}; }
{% set x_fours = tile[1] * 8 // workgroup %}
{% macro fetch(kb) %}
{% for r in range(x_fours) %}
        {
            let i = li + {{ r }}u * THREADS;
            next_x{{ r }} = x_halves((min(t0 + i / 8u, state.rows - 1u) * KB + {{ kb }}) * 8u + i % 8u);
        }
{% endfor %}
{% endmacro %}
{% macro place(to, value, r) %}
        {
            let i = li + {{ r }}u * THREADS;
            let h = {{ value }};
            let at = i / 8u * STRIDE + i % 8u * 4u;
{% for c in range(4) %}
            {{ to }}[at + {{ c }}u] = h[{{ c }}];
{% endfor %}
        }
{% endmacro %}
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32{% if matrices %}, @builtin(subgroup_id) part: u32{% endif %}) {
    if (state.done != 0u) { return; }
    let n0 = wid.x * {{ tile[0] }}u;
    let t0 = wid.y * {{ tile[1] }}u;
    if (n0 >= N || t0 >= state.rows) { return; }
{% if matrices %}
    let own_n = part % 2u * {{ tile[0] // 2 }}u;
    let own_t = part / 2u * {{ tile[1] // 2 }}u;
    let out = (t0 + own_t) * NSTRIDE + ROW0 + n0 + own_n;
{% for i in range(down) %}{% for j in range(across) %}
    var c{{ i }}_{{ j }} = subgroup_matrix_result<f32, 16, 16>();
{% endfor %}{% endfor %}
    if (ADD == 1u) {
{% for i in range(down) %}{% for j in range(across) %}
        c{{ i }}_{{ j }} = subgroupMatrixLoad<subgroup_matrix_result<f32, 16, 16>>(&y, out + {{ i * 16 }}u * NSTRIDE + {{ j * 16 }}u, false, NSTRIDE);
{% endfor %}{% endfor %}
    }
{% endif %}
{% for r in range(x_fours) %}
    var next_x{{ r }} = vec4<f16>();
{% endfor %}
{{ fetch("0u") }}
    for (var kb = 0u; kb < KB; kb++) {
        // What is replaced has been read.
        workgroupBarrier();
{% for r in range(tile[0] * 8 // workgroup) %}
{{ place("wt", "w_halves((n0 + i / 8u) * KB + kb, i % 8u)", r) }}
{% endfor %}
{% for r in range(tile[1] * 8 // workgroup) %}
{{ place("xt", "next_x" ~ r, r) }}
{% endfor %}
        workgroupBarrier();
        // Activations of the next block come from memory meanwhile.
        if (kb + 1u < KB) {
{{ fetch("(kb + 1u)") }}
        }
{% if matrices %}
{% for half in range(2) %}
        {
{% for i in range(down) %}
            let a{{ i }} = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 16>>(&xt, (own_t + {{ i * 16 }}u) * STRIDE + {{ half * 16 }}u, false, STRIDE);
{% endfor %}
{% for j in range(across) %}
            let b{{ j }} = subgroupMatrixLoad<subgroup_matrix_right<f16, 16, 16>>(&wt, (own_n + {{ j * 16 }}u) * STRIDE + {{ half * 16 }}u, true, STRIDE);
{% for i in range(down) %}
            c{{ i }}_{{ j }} = subgroupMatrixMultiplyAccumulate(a{{ i }}, b{{ j }}, c{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
        }
{% endfor %}
{% else %}
        // What compilers without matrices see: the interface, not the work. No such device runs it.
        y[t0 * NSTRIDE + ROW0 + n0 + li] = f32(wt[li]) + f32(xt[li]) + f32(ADD);
{% endif %}
    }
{% if matrices %}
{% for i in range(down) %}{% for j in range(across) %}
    subgroupMatrixStore(&y, out + {{ i * 16 }}u * NSTRIDE + {{ j * 16 }}u, c{{ i }}_{{ j }}, false, NSTRIDE);
{% endfor %}{% endfor %}
{% endif %}
}
