// q5_k: blocks in groups of eight: 8 vec4 of nibbles as q4_0's, one a block, then 2 vec4 of fifth bits, a word a block; scales as q4_k;
// value = scale * number - min.
{% set units = 1 %}{% set numbers = true %}{% set has_min = true %}{% set halves_scale = false %}
{% include "common/scales_k.wgsl" %}
{% include "common/fifth.wgsl" %}
fn w_q(b: u32) -> vec4<u32> { return wq[(b >> 3u) * 10u + (b & 7u)]; }
fn w_h(b: u32) -> u32 { return wq[(b >> 3u) * 10u + 8u + ((b & 7u) >> 2u)][b & 3u]; }
fn w_i8(b: u32, j: u32) -> u32 {
    return ((w_q(b)[j & 3u] >> (j & 4u)) & 0x0f0f0f0fu) | fifth(w_h(b), j);
}
{% include "common/numbers.wgsl" %}
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
