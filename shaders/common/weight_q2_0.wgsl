// q2_0: 2 words a block: bits 2i and 2i+1 of byte k of word n belong to element 16n + 4i + k; value = (number - 1) * scale; a scale for each
// 64 elements.
{% set units = 1 %}{% set numbers = true %}{% set has_min = false %}{% set halves_scale = false %}
{% set shared = 1 %}
{% include "common/scales.wgsl" %}
fn w_q(b: u32) -> vec2<u32> {
    let q = wq[b >> 1u];
    return select(q.xy, q.zw, (b & 1u) == 1u);
}
fn w_i8(b: u32, j: u32) -> u32 {
    let v = (w_q(b)[j >> 2u] >> (2u * (j & 3u))) & 0x03030303u;
    return ((v | 0x80808080u) - 0x01010101u) ^ 0x80808080u;   // the top bit keeps a byte's borrow from its neighbour
}
{% include "common/numbers.wgsl" %}
{% if act is defined and act == "q8" %}
struct W { q: vec2<u32>, d: f32 }
fn load_w(b: u32) -> W {
    return W(w_q(b), w_scale(b));
}
fn dot_w(w: W, xa: vec4<u32>, xb: vec4<u32>, xs: vec2<f32>) -> f32 {
    let t = {% for j in range(8) %}dot4I8Packed((w.q.{{ "x" if j < 4 else "y" }} >> {{ j % 4 * 2 }}u) & 0x03030303u, x{{ "a" if j < 4 else "b" }}.{{ ["x", "y", "z", "w"][j % 4] }}){% if not loop.last %}
          + {% endif %}{% endfor %};
    return w.d * (xs.x * f32(t) - xs.y);
}
{% endif %}
