// y[t][ROW0 + n] (+)= sum over k of w[n][k] * x[t][k] (+ bias[n]): a tile of {{ tile[0] }} (n) x 64 (t) a workgroup, {{ tile[0] // 16 }} x 4 an invocation. K goes through
// workgroup memory: two blocks of 32 at a time (int8: half as many barriers as with one), or half a block (f32).
{% set across = tile[0] // 16 %}
{% include "common/state.wgsl" %}
{% include "common/weight.wgsl" %}
{% include "common/activations.wgsl" %}
{% if act == "q8" %}
{% import "common/weight_" ~ weight ~ ".wgsl" as type with context %}
{% set halves = type.halves_scale %}
{% set mins = type.has_min %}
const SPAN = {{ tile[0] }}u;
var<workgroup> wt: array<vec4<u32>, SPAN * 4u>;   // [2 blocks][2 halves][SPAN n]: 16 int8 each
var<workgroup> xt: array<vec4<u32>, 256>;         // [2 blocks][2 halves][64 t]
var<workgroup> wd: array<{{ "vec2<f32>" if halves or mins else "f32" }}, SPAN * 2u>;   // [2 blocks][SPAN]: scales{% if halves %} of both halves{% elif mins %} and mins{% endif %}

var<workgroup> xd: array<{{ "vec2<f32>" if mins else "f32" }}, 128>;                    // [2 blocks][64]: scales{% if mins %}, and scales times sums{% endif %}

{% else %}
var<workgroup> wt: array<vec4<f32>, 256>;   // [4][64 n]: 4 values of k each
var<workgroup> xt: array<vec4<f32>, 256>;   // [4][64 t]
{% endif %}
@group(0) @binding(5) var<storage, read_write> y: array<f32>;    // [T][NSTRIDE]

override KB: u32;        // blocks of a row, ceil(K / 32)
override N: u32;         // rows of w in this part
override ROW0: u32;      // where in a row of y this part begins
override ADD: u32;       // 1: y is added to, the residual
override NSTRIDE: u32;   // f32 elements between rows of y
override BIAS: u32 = 0u; // 1: the bias is added
@group(0) @binding(6) var<storage, read> bias: array<f32>;       // [>= ROW0 + N], read where BIAS is 1

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let n0 = wid.x * {{ tile[0] }}u;
    let t0 = wid.y * 64u;
    if (n0 >= N || t0 >= state.rows) { return; }
    let tx = li % 16u;          // columns n0 + tx + 16 j
    let ty = (li / 16u) * 4u;   // rows t0 + ty + i
    let busy = t0 + ty < state.rows;
{% for i in range(4) %}{% for g in range(across // 4) %}
    var c{{ i }}_{{ g }} = vec4<f32>();
{% endfor %}{% endfor %}
{% if act == "q8" %}
    // Four invocations bring a row's two blocks; rows beyond the last repeat it and are not written.
    let part = li % 2u;
    let which = li / 2u % 2u;
    let at = li / 4u;
    let xrow = min(t0 + at, state.rows - 1u) * KB;
    for (var first = 0u; first < KB; first += 2u) {
        // A block beyond the last counts nothing.
        let kb = min(first + which, KB - 1u);
        let counts = first + which < KB;
        xt[(which * 2u + part) * 64u + at] = xq[(xrow + kb) * 2u + part];
        if (part == 0u) { xd[which * 64u + at] = select({{ "vec2<f32>()" if mins else "0.0" }}, xs[xrow + kb]{{ "" if mins else ".x" }}, counts); }
        for (var row = at; row < SPAN; row += 64u) {
            let b = min(n0 + row, N - 1u) * KB + kb;
            wt[(which * 2u + part) * SPAN + row] = vec4<u32>({% for c in range(4) %}w_i8(b, part * 4u + {{ c }}u){% if not loop.last %}, {% endif %}{% endfor %});
            if (part == 0u) { wd[which * SPAN + row] = w_scales(b).{{ "xy" if halves else "xz" if mins else "x" }}; }
        }
        workgroupBarrier();
        if (busy) {
            for (var k = 0u; k < 2u; k++) {
{% for i in range(4) %}
                let p{{ i }} = xt[k * 128u + ty + {{ i }}u];
                let q{{ i }} = xt[k * 128u + 64u + ty + {{ i }}u];
                let x{{ i }} = xd[k * 64u + ty + {{ i }}u];
{% endfor %}
{% for j in range(across) %}
                {
                    let u = wt[k * 2u * SPAN + tx + {{ j * 16 }}u];
                    let v = wt[(k * 2u + 1u) * SPAN + tx + {{ j * 16 }}u];
                    let d = wd[k * SPAN + tx + {{ j * 16 }}u];
{% for i in range(4) %}
                    {
                        let ta = {% for c in ["x", "y", "z", "w"] %}dot4I8Packed(u.{{ c }}, p{{ i }}.{{ c }}){% if not loop.last %} + {% endif %}{% endfor %};
                        let tb = {% for c in ["x", "y", "z", "w"] %}dot4I8Packed(v.{{ c }}, q{{ i }}.{{ c }}){% if not loop.last %} + {% endif %}{% endfor %};
{% set c = "c" ~ i ~ "_" ~ (j // 4) ~ "." ~ ["x", "y", "z", "w"][j % 4] %}
{% if halves %}
                        {{ c }} += x{{ i }} * (d.x * f32(ta) + d.y * f32(tb));
{% elif mins %}
                        {{ c }} += d.x * (x{{ i }}.x * f32(ta + tb)) - d.y * x{{ i }}.y;
{% else %}
                        {{ c }} += d * (x{{ i }} * f32(ta + tb));
{% endif %}
                    }
{% endfor %}
                }
{% endfor %}
            }
        }
        workgroupBarrier();
    }
{% else %}
    let j4 = li % 4u;
    let at = li / 4u;
    let xrow = min(t0 + at, state.rows - 1u) * KB;
    let wrow = min(n0 + at, N - 1u) * KB;
    for (var half = 0u; half < KB * 2u; half++) {
        let kb = half / 2u;
        let j = (half % 2u) * 4u + j4;
        xt[j4 * 64u + at] = x[(xrow + kb) * 8u + j];
        wt[j4 * 64u + at] = w4(wrow + kb, j);
        workgroupBarrier();
        if (busy) {
            for (var k = 0u; k < 256u; k += 64u) {
{% for j in range(4) %}
                let w{{ j }} = wt[k + tx + {{ j * 16 }}u];
{% endfor %}
{% for i in range(4) %}
                let x{{ i }} = xt[k + ty + {{ i }}u];
                c{{ i }}_0 += vec4<f32>(dot(w0, x{{ i }}), dot(w1, x{{ i }}), dot(w2, x{{ i }}), dot(w3, x{{ i }}));
{% endfor %}
            }
        }
        workgroupBarrier();
    }
{% endif %}
{% for i in range(4) %}{% for g in range(across // 4) %}
    put(t0 + ty + {{ i }}u, n0 + tx + {{ g * 64 }}u, c{{ i }}_{{ g }});
{% endfor %}{% endfor %}
}

// Four columns of row t, 16 apart.
fn put(t: u32, n: u32, v: vec4<f32>) {
    if (t >= state.rows) { return; }
    for (var j = 0u; j < 4u; j++) {
        let column = n + j * 16u;
        if (column < N) {
            let at = t * NSTRIDE + ROW0 + column;
            var sum = v[j];
            if (BIAS == 1u) { sum += bias[ROW0 + column]; }
            y[at] = select(sum, y[at] + sum, ADD == 1u);
        }
    }
}
