// q4_0: 1 vec4 a block, GGUF's own 16 bytes: the low nibbles of word i are elements 4i..4i+3, the high nibbles elements
// 16+4i..16+4i+3; value = (nibble - 8) * scale.
{% set units = 1 %}{% set numbers = true %}{% set has_min = false %}{% set halves_scale = false %}
{% include "common/scales.wgsl" %}
// Four nibbles, one a byte -> four signed bytes, 8 less each: the top bit keeps a byte's borrow from its neighbour.
fn minus8(v: u32) -> u32 {
    return ((v | 0x80808080u) - 0x08080808u) ^ 0x80808080u;
}
fn w_i8(b: u32, j: u32) -> u32 {
    return minus8((wq[b][j & 3u] >> (j & 4u)) & 0x0f0f0f0fu);
}
{% set raw = "nibbles" %}{% set zero = 8 %}
{% include "common/numbers.wgsl" %}
{% if act is defined and act == "q8" %}
struct W { q: vec4<u32>, d: f32 }
fn load_w(b: u32) -> W {
    return W(wq[b], w_scale(b));
}
fn dot_w(w: W, xa: vec4<u32>, xb: vec4<u32>, xs: vec2<f32>) -> f32 {
    let lo = w.q & vec4<u32>(0x0f0f0f0fu);
    let hi = (w.q >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
    let t = dot4I8Packed(lo.x, xa.x) + dot4I8Packed(lo.y, xa.y) + dot4I8Packed(lo.z, xa.z) + dot4I8Packed(lo.w, xa.w)
          + dot4I8Packed(hi.x, xb.x) + dot4I8Packed(hi.y, xb.y) + dot4I8Packed(hi.z, xb.z) + dot4I8Packed(hi.w, xb.w);
    return w.d * (xs.x * f32(t) - 8.0 * xs.y);
}
{% endif %}
