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
fn w4(b: u32, j: u32) -> vec4<f32> {
    return vec4<f32>(unpack4xI8(w_i8(b, j))) * w_scale(b);
}
{% if act is defined and act == "f32" %}
const UNITS: u32 = {{ units }}u;
struct X { {% for j in range(8) %}x{{ j }}: vec4<f32>, {% endfor %} }
fn load_x(i: u32) -> X {
    return X({% for j in range(8) %}x4(i * 8u + {{ j }}u), {% endfor %});
}
fn dot_x(i: u32, v: X) -> f32 {
    let w = wq[i];
    var s = 0.0;
{% for j in range(4) %}
    s += dot(vec4<f32>(unpack4xI8(minus8(w[{{ j }}] & 0x0f0f0f0fu))), v.x{{ j }});
    s += dot(vec4<f32>(unpack4xI8(minus8((w[{{ j }}] >> 4u) & 0x0f0f0f0fu))), v.x{{ j + 4 }});
{% endfor %}
    return s * w_scale(i);
}
{% endif %}
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
