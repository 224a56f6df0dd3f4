// q5_0: 1 vec4 of nibbles a block, as q4_0's; value = (number - 16) * scale.
{% set units = 1 %}{% set numbers = true %}{% set has_min = false %}{% set halves_scale = false %}
@group(0) @binding(2) var<storage, read> ws: array<vec2<u32>>;   // of block b: the scale as an f32, and the fifth bits
{% include "common/fifth.wgsl" %}
// Four numbers below 32, one a byte -> four signed bytes, 16 less each: the top bit keeps a byte's borrow from its neighbour.
fn minus16(v: u32) -> u32 {
    return ((v | 0x80808080u) - 0x10101010u) ^ 0x80808080u;
}
fn w_scales(b: u32) -> vec3<f32> {
    let d = bitcast<f32>(ws[b].x);
    return vec3<f32>(d, d, 0.0);
}
fn w_u8(b: u32, j: u32) -> u32 {
    return ((wq[b][j & 3u] >> (j & 4u)) & 0x0f0f0f0fu) | fifth(ws[b].y, j);
}
fn w_i8(b: u32, j: u32) -> u32 { return minus16(w_u8(b, j)); }
{% set unsigned = "w_u8" %}{% set zero = 16 %}
{% include "common/numbers.wgsl" %}
{% if act is defined and act == "q8" %}
struct W { q: vec4<u32>, h: u32, d: f32 }
fn load_w(b: u32) -> W {
    let s = ws[b];
    return W(wq[b], s.y, bitcast<f32>(s.x));
}
fn dot_w(w: W, xa: vec4<u32>, xb: vec4<u32>, xs: vec2<f32>) -> f32 {
    return w.d * (xs.x * f32(dot_fifths(w.q, w.h, xa, xb)) - 16.0 * xs.y);
}
{% endif %}
