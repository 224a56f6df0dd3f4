// The int8 product of types whose blocks are nibbles w_q(b) and fifth bits w_h(b) with a scale and a min.
{% if act is defined and act == "q8" %}
struct W { q: vec4<u32>, h: u32, s: vec2<f32> }
fn load_w(b: u32) -> W {
    return W(w_q(b), w_h(b), w_scales(b).xz);
}
fn dot_w(w: W, xa: vec4<u32>, xb: vec4<u32>, xs: vec2<f32>) -> f32 {
    return w.s.x * (xs.x * f32(dot_fifths(w.q, w.h, xa, xb))) - w.s.y * xs.y;
}
{% endif %}
fn w_i8(b: u32, j: u32) -> u32 {
    return ((w_q(b)[j & 3u] >> (j & 4u)) & 0x0f0f0f0fu) | fifth(w_h(b), j);
}
{% set unsigned = "w_i8" %}
{% include "common/numbers.wgsl" %}
