// y[t][ROW0 + n] (+)= sum over k of w[n][k] * x[t][k]: a tile of 64 (n) x 64 (t) a workgroup, 4 x 4 an invocation, one block of 32
// (int8) or half a block (f32) of K at a time through workgroup memory.
{% include "common/state.wgsl" %}
{% include "common/weight.wgsl" %}
{% if act == "q8" %}
@group(0) @binding(3) var<storage, read> xq: array<vec4<u32>>;   // [T][KB][2]
@group(0) @binding(4) var<storage, read> xs: array<vec2<f32>>;   // [T][KB]
var<workgroup> wt: array<vec4<u32>, 128>;   // [2][64 n]: 16 int8 each
var<workgroup> xt: array<vec4<u32>, 128>;   // [2][64 t]
{% set halves = weight == "q6_k" %}
{% set mins = weight in ["q4_k", "q5_k"] %}
var<workgroup> wd: array<{{ "vec2<f32>" if halves or mins else "f32" }}, 64>;   // scales{% if halves %} of both halves{% elif mins %} and mins{% endif %}

var<workgroup> xd: array<{{ "vec2<f32>" if mins else "f32" }}, 64>;             // scales{% if mins %}, and scales times sums{% endif %}

{% else %}
@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;    // [T][KB * 8]
fn x4(j: u32) -> vec4<f32> { return x[j]; }
var<workgroup> wt: array<vec4<f32>, 256>;   // [4][64 n]: 4 values of k each
var<workgroup> xt: array<vec4<f32>, 256>;   // [4][64 t]
{% endif %}
@group(0) @binding(5) var<storage, read_write> y: array<f32>;    // [T][NSTRIDE]

override KB: u32;        // blocks of a row, ceil(K / 32)
override N: u32;         // rows of w in this part
override ROW0: u32;      // where in a row of y this part begins
override ADD: u32;       // 1: y is added to, the residual
override NSTRIDE: u32;   // f32 elements between rows of y

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let n0 = wid.x * 64u;
    let t0 = wid.y * 64u;
    if (n0 >= N || t0 >= state.rows) { return; }
    let tx = li % 16u;          // columns n0 + tx + 16 j
    let ty = (li / 16u) * 4u;   // rows t0 + ty + i
    let busy = t0 + ty < state.rows;
{% for i in range(4) %}
    var c{{ i }} = vec4<f32>();
{% endfor %}
{% if act == "q8" %}
    // Half of the invocations load x, half w; rows beyond the last repeat it and are not written.
    let part = li % 2u;
    let at = (li / 2u) % 64u;
    let xrow = min(t0 + at, state.rows - 1u) * KB;
    let wrow = min(n0 + at, N - 1u) * KB;
    for (var kb = 0u; kb < KB; kb++) {
        if (li < 128u) {
            xt[part * 64u + at] = xq[(xrow + kb) * 2u + part];
            if (part == 0u) { xd[at] = xs[xrow + kb]{{ "" if mins else ".x" }}; }
        } else {
            let b = wrow + kb;
            wt[part * 64u + at] = vec4<u32>({% for c in range(4) %}w_i8(b, part * 4u + {{ c }}u), {% endfor %});
            if (part == 0u) { wd[at] = w_scales(b).{{ "xy" if halves else "xz" if mins else "x" }}; }
        }
        workgroupBarrier();
        if (busy) {
{% for j in range(4) %}
            let u{{ j }} = wt[tx + {{ j * 16 }}u];
            let v{{ j }} = wt[64u + tx + {{ j * 16 }}u];
{% endfor %}
{% if halves or mins %}
            let d = vec4<f32>(wd[tx].x, wd[tx + 16u].x, wd[tx + 32u].x, wd[tx + 48u].x);
            let e = vec4<f32>(wd[tx].y, wd[tx + 16u].y, wd[tx + 32u].y, wd[tx + 48u].y);
{% else %}
            let d = vec4<f32>(wd[tx], wd[tx + 16u], wd[tx + 32u], wd[tx + 48u]);
{% endif %}
{% for i in range(4) %}
            {
                let p = xt[ty + {{ i }}u];
                let q = xt[64u + ty + {{ i }}u];
{% for t, w, x in [("ta", "u", "p"), ("tb", "v", "q")] %}
                let {{ t }} = vec4<i32>(
{% for j in range(4) %}
                    {% for c in ["x", "y", "z", "w"] %}dot4I8Packed({{ w }}{{ j }}.{{ c }}, {{ x }}.{{ c }}){% if not loop.last %} + {% endif %}{% endfor %},
{% endfor %}
                );
{% endfor %}
{% if halves %}
                c{{ i }} += xd[ty + {{ i }}u] * (d * vec4<f32>(ta) + e * vec4<f32>(tb));
{% elif mins %}
                c{{ i }} += d * (xd[ty + {{ i }}u].x * vec4<f32>(ta + tb)) - e * xd[ty + {{ i }}u].y;
{% else %}
                c{{ i }} += d * (xd[ty + {{ i }}u] * vec4<f32>(ta + tb));
{% endif %}
            }
{% endfor %}
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
                c{{ i }} += vec4<f32>(dot(w0, x{{ i }}), dot(w1, x{{ i }}), dot(w2, x{{ i }}), dot(w3, x{{ i }}));
{% endfor %}
            }
        }
        workgroupBarrier();
    }
{% endif %}
{% for i in range(4) %}
    put(t0 + ty + {{ i }}u, n0 + tx, c{{ i }});
{% endfor %}
}

// Four columns of row t, 16 apart.
fn put(t: u32, n: u32, v: vec4<f32>) {
    if (t >= state.rows) { return; }
    for (var j = 0u; j < 4u; j++) {
        let column = n + j * 16u;
        if (column < N) {
            let at = t * NSTRIDE + ROW0 + column;
            y[at] = select(v[j], y[at] + v[j], ADD == 1u);
        }
    }
}
