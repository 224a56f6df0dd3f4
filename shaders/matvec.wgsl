// y[ROW0 + n] (+)= sum over k of w[n][k] * x[k], for the N rows of w in this part. A workgroup shares {{ tile[0] }} rows: each
// invocation walks along K with a stride of the workgroup, so that neighbours read neighbouring 16 bytes.
{% include "common/state.wgsl" %}
{% include "common/weight.wgsl" %}
{% with sum = "vec4<f32>" %}{% include "common/reduce.wgsl" %}{% endwith %}
{% if act == "q8" %}
@group(0) @binding(3) var<storage, read> xq: array<vec4<u32>>;   // [KB][2]
@group(0) @binding(4) var<storage, read> xs: array<vec2<f32>>;   // [KB]
{% else %}
@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;    // [KB * 32]
{% endif %}
@group(0) @binding(5) var<storage, read_write> y: array<f32>;    // [>= ROW0 + N]

override KB: u32;     // blocks of a row, ceil(K / 32)
override N: u32;      // rows of this part
override ROW0: u32;   // where in y this part begins
override ADD: u32;    // 1: y is added to, the residual

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let row = (wid.x + wid.y * grid.x) * {{ tile[0] }}u;
    if (row >= N) { return; }
    var acc = vec4<f32>();
    // Rows beyond the last repeat it and are not written.
{% for r in range(tile[0]) %}
    let b{{ r }} = min(row + {{ r }}u, N - 1u) * KB;
{% endfor %}
{% if act == "q8" %}
    for (var i = li; i < KB; i += {{ workgroup }}u) {
        let xa = xq[i * 2u];
        let xb = xq[i * 2u + 1u];
        let s = xs[i];
        acc += vec4<f32>({% for r in range(tile[0]) %}dot_q8(b{{ r }} + i, xa, xb, s), {% endfor %});
    }
{% else %}
    for (var i = li; i < KB * UNITS; i += {{ workgroup }}u) {
        let v = load_x(i);
        acc += vec4<f32>({% for r in range(tile[0]) %}dot_x(b{{ r }} * UNITS + i, v), {% endfor %});
    }
{% endif %}
    let total = workgroup_sum(acc, li);
    if (li < {{ tile[0] }}u && row + li < N) {
        let at = ROW0 + row + li;
        var v = total[li];
        if (ADD == 1u) { v += y[at]; }
        y[at] = v;
    }
}
