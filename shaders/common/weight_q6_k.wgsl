// q6_k: blocks in groups of eight: 8 vec4 of nibbles as q4_0's, one a block, then 4 vec4 of high bits, two words a block: bits 2i and 2i+1
// of byte k of word n belong to element 16n + 4i + k; value = (number - 32) * scale, a scale for each 16 elements.
{% set units = 1 %}{% set numbers = true %}{% set has_min = false %}{% set halves_scale = true %}
{% include "common/scales_16.wgsl" %}
fn w_q(b: u32) -> vec4<u32> { return wq[(b >> 3u) * 12u + (b & 7u)]; }
fn w_h(b: u32) -> vec2<u32> {
    let h = wq[(b >> 3u) * 12u + 8u + ((b & 7u) >> 1u)];
    return select(h.xy, h.zw, (b & 1u) == 1u);
}
// Four numbers below 64, one a byte -> four signed bytes, 32 less each: the top bit keeps a byte's borrow from its neighbour.
fn minus32(v: u32) -> u32 {
    return ((v | 0x80808080u) - 0x20202020u) ^ 0x80808080u;
}
fn w_u8(b: u32, j: u32) -> u32 {
    let high = (w_h(b)[j >> 2u] >> (2u * (j & 3u))) & 0x03030303u;
    return ((w_q(b)[j & 3u] >> (j & 4u)) & 0x0f0f0f0fu) | (high << 4u);
}
fn w_i8(b: u32, j: u32) -> u32 { return minus32(w_u8(b, j)); }
{% set unsigned = "w_u8" %}{% set zero = 32 %}
{% include "common/numbers.wgsl" %}
{% if act is defined and act == "q8" %}
struct W { q: vec4<u32>, h: vec2<u32>, s: vec2<f32> }
fn load_w(b: u32) -> W {
    return W(w_q(b), w_h(b), w_scales(b).xy);
}
fn dot_w(w: W, xa: vec4<u32>, xb: vec4<u32>, xs: vec2<f32>) -> f32 {
    let lo = w.q & vec4<u32>(0x0f0f0f0fu);
    let hi = (w.q >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
{% for x, half, n in [("a", "lo", "x"), ("b", "hi", "y")] %}
    let t{{ x }} = dot4I8Packed(minus32({{ half }}.x | ((w.h.{{ n }} << 4u) & 0x30303030u)), x{{ x }}.x)
        + dot4I8Packed(minus32({{ half }}.y | ((w.h.{{ n }} << 2u) & 0x30303030u)), x{{ x }}.y)
        + dot4I8Packed(minus32({{ half }}.z | (w.h.{{ n }} & 0x30303030u)), x{{ x }}.z)
        + dot4I8Packed(minus32({{ half }}.w | ((w.h.{{ n }} >> 2u) & 0x30303030u)), x{{ x }}.w);
{% endfor %}
    return xs.x * (w.s.x * f32(ta) + w.s.y * f32(tb));
}
{% endif %}
