// Joins the splits of `attention`: y = sum of exp(m_s - m) po_s / sum of exp(m_s - m) l_s, m the largest m_s.
// Works on blocks of 32 of the flattened H*E outputs, so that a block can be quantized whatever E is: grid [ceil(KB / 8)],
// four elements an invocation.
{% include "common/state.wgsl" %}
{% if out == "q8" %}{% include "common/quantize.wgsl" %}{% endif %}
override H: u32;      // query heads
override E: u32;      // head width, a multiple of 4
override SPLIT: u32;  // keys a split
override KB: u32;     // blocks of 32: ceil(H*E / 32)

@group(0) @binding(1) var<storage, read> po: array<vec4<f32>>;  // [splits][H][E/4]
@group(0) @binding(2) var<storage, read> ml: array<vec2<f32>>;  // [splits][H]
{% if out == "f32" %}
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;   // [KB*8], zero beyond H*E
{% else %}
@group(0) @binding(3) var<storage, read_write> yq: array<u32>;        // [KB][8]
@group(0) @binding(4) var<storage, read_write> ys: array<vec2<f32>>;  // [KB]
{% endif %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let width = H * E / 4u;
    let i = wid.x * {{ workgroup }}u + li;
    var value = vec4<f32>();
    if (i < width) {
        let head = i / (E / 4u);
        let splits = state.pos / SPLIT + 1u;
        var m = ml[head].x;
        for (var s = 1u; s < splits; s++) { m = max(m, ml[s * H + head].x); }
        var l = 0.0;
        for (var s = 0u; s < splits; s++) {
            let of_split = ml[s * H + head];
            let weight = exp(of_split.x - m);
            l += weight * of_split.y;
            value += weight * po[s * width + i];
        }
        value /= l;
    }
    let block = i / 8u;
{% if out == "f32" %}
    if (block < KB) { y[i] = value; }
{% else %}
    let q = quantize(value, li);
    if (block < KB) {
        yq[i] = q.packed;
        if (li % 8u == 0u) { ys[block] = q.scale; }
    }
{% endif %}
}
