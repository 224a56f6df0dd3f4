// f32 activations -> int8 in blocks of 32. Eight blocks a workgroup: grid [ceil(KB / 8), T].
{% include "common/state.wgsl" %}
{% include "common/quantize.wgsl" %}
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;           // [T][KB * 32]
@group(0) @binding(2) var<storage, read_write> yq: array<u32>;          // [T][KB][8]
@group(0) @binding(3) var<storage, read_write> ys: array<vec2<f32>>;    // [T][KB]

override KB: u32;   // blocks of a row

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    if (wid.y >= state.rows) { return; }
    let block = wid.x * 8u + li / 8u;
    let at = wid.y * KB * 8u + wid.x * 64u + li;
    var v = vec4<f32>();
    if (block < KB) { v = x[at]; }
    let q = quantize(v, li);
    if (block < KB) {
        yq[at] = q.packed;
        if (li % 8u == 0u) { ys[wid.y * KB + block] = q.scale; }
    }
}
