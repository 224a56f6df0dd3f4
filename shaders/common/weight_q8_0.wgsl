// q8_0: 2 vec4 a block, 32 signed bytes in element order; value = byte * scale.
{% set units = 2 %}{% set numbers = true %}{% set has_min = false %}{% set halves_scale = false %}
{% include "common/scales.wgsl" %}
fn w_i8(b: u32, j: u32) -> u32 {
    return wq[b * 2u + (j >> 2u)][j & 3u];
}
{% set raw = "bytes" %}
{% include "common/numbers.wgsl" %}
{% if act is defined and act == "q8" %}
struct W { qa: vec4<u32>, qb: vec4<u32>, d: f32 }
fn load_w(b: u32) -> W {
    return W(wq[b * 2u], wq[b * 2u + 1u], w_scale(b));
}
fn dot_w(w: W, xa: vec4<u32>, xb: vec4<u32>, xs: vec2<f32>) -> f32 {
    let t = dot4I8Packed(w.qa.x, xa.x) + dot4I8Packed(w.qa.y, xa.y) + dot4I8Packed(w.qa.z, xa.z) + dot4I8Packed(w.qa.w, xa.w)
          + dot4I8Packed(w.qb.x, xb.x) + dot4I8Packed(w.qb.y, xb.y) + dot4I8Packed(w.qb.z, xb.z) + dot4I8Packed(w.qb.w, xb.w);
    return w.d * (xs.x * f32(t));
}
{% endif %}
