// q5_k: blocks in groups of eight: 8 vec4 of nibbles as q4_0's, one a block, then 2 vec4 of fifth bits, a word a block; scales as q4_k;
// value = scale * number - min.
{% include "common/scales_k.wgsl" %}
// Elements 4j..4j+3's fifth bits, in the place of bit 4 of each byte: bit j of byte k of `bits` belongs to element 4j + k.
fn fifth(bits: u32, j: u32) -> u32 {
    return ((bits >> j) & 0x01010101u) << 4u;
}
fn w_q(b: u32) -> vec4<u32> { return wq[(b >> 3u) * 10u + (b & 7u)]; }
fn w_h(b: u32) -> u32 { return wq[(b >> 3u) * 10u + 8u + ((b & 7u) >> 2u)][b & 3u]; }
fn w_i8(b: u32, j: u32) -> u32 {
    return ((w_q(b)[j & 3u] >> (j & 4u)) & 0x0f0f0f0fu) | fifth(w_h(b), j);
}
fn w4(b: u32, j: u32) -> vec4<f32> {
    let s = w_scales(b);
    return vec4<f32>(unpack4xI8(w_i8(b, j))) * select(s.x, s.y, j >= 4u) - s.z;
}
{% if act is defined and act == "f32" %}
const UNITS: u32 = 1u;
struct X { {% for j in range(8) %}x{{ j }}: vec4<f32>, {% endfor %} }
fn load_x(i: u32) -> X {
    return X({% for j in range(8) %}x4(i * 8u + {{ j }}u), {% endfor %});
}
fn dot_x(i: u32, v: X) -> f32 {
    let s = w_scales(i);
    var sum = vec2<f32>();
{% for j in range(8) %}
    sum.{{ "x" if j < 4 else "y" }} += dot(vec4<f32>(unpack4xI8(w_i8(i, {{ j }}u))), v.x{{ j }});
{% endfor %}
    let all = {% for j in range(8) %}v.x{{ j }}{% if j < 7 %} + {% endif %}{% endfor %};
    return dot(s.xy, sum) - s.z * dot(all, vec4<f32>(1.0));
}
{% endif %}
{% if act is defined and act == "q8" %}
struct W { q: vec4<u32>, h: u32, s: vec2<f32> }
fn load_w(b: u32) -> W {
    return W(w_q(b), w_h(b), w_scales(b).xz);
}
fn dot_w(w: W, xa: vec4<u32>, xb: vec4<u32>, xs: vec2<f32>) -> f32 {
    let lo = w.q & vec4<u32>(0x0f0f0f0fu);
    let hi = (w.q >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
    let t = dot4I8Packed(lo.x | fifth(w.h, 0u), xa.x)
          + dot4I8Packed(lo.y | fifth(w.h, 1u), xa.y)
          + dot4I8Packed(lo.z | fifth(w.h, 2u), xa.z)
          + dot4I8Packed(lo.w | fifth(w.h, 3u), xa.w)
          + dot4I8Packed(hi.x | fifth(w.h, 4u), xb.x)
          + dot4I8Packed(hi.y | fifth(w.h, 5u), xb.y)
          + dot4I8Packed(hi.z | fifth(w.h, 6u), xb.z)
          + dot4I8Packed(hi.w | fifth(w.h, 7u), xb.w);
    return w.s.x * (xs.x * f32(t)) - w.s.y * xs.y;
}
{% endif %}
