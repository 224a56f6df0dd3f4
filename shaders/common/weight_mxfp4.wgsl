// mxfp4: 1 vec4 of nibbles a block, as q4_0's, which number the values of 4-bit floats so that little arithmetic finds them:
// twice the value of u is (u & 7) + 7 m + 12 b - 13, b the highest bit of u, and m whether of !bit 0, bit 1 and !b most are set.
// That times the scale, 2 ^ (exponent - 128), is the value.
{% set units = 1 %}{% set numbers = true %}{% set has_min = false %}{% set halves_scale = false %}
@group(0) @binding(2) var<storage, read> ws: array<u32>;   // exponent of block b: byte b & 3 of ws[b >> 2]
{% macro lower(type, each) %}
// (u & 7) + 7 m of each u.
fn lower_{{ each }}(v: {{ type }}) -> {{ type }} {
    let bit1 = v >> {{ type }}(1u);
    let bit3 = v >> {{ type }}(3u);
    let most = (bit3 & bit1 & ~v) | (~bit3 & (bit1 | ~v));
    return (v & {{ type }}(0x{{ each | replace("1", "7") }}u)) + 7u * (most & {{ type }}(0x{{ each }}u));
}
{% endmacro %}
{{ lower("u32", "01010101") }}
fn exponent(b: u32) -> u32 { return (ws[b >> 2u] >> ((b & 3u) * 8u)) & 255u; }
// Scales below 2 ^ -126 are zero here: a GPU may flush them.
fn w_scale(b: u32) -> f32 { return bitcast<f32>((max(exponent(b), 1u) - 1u) << 23u); }
fn w_scales(b: u32) -> vec3<f32> {
    let d = w_scale(b);
    return vec3<f32>(d, d, 0.0);
}
fn w_i8(b: u32, j: u32) -> u32 {
    let v = (wq[b][j & 3u] >> (j & 4u)) & 0x0f0f0f0fu;
    let above = lower_01010101(v) + 12u * ((v >> 3u) & 0x01010101u);
    // 13 less each: the top bit keeps a byte's borrow from its neighbour.
    return ((above | 0x80808080u) - 0x0d0d0d0du) ^ 0x80808080u;
}
// In two factors: neither is flushed.
fn w4(b: u32, j: u32) -> vec4<f32> {
    let e = exponent(b);
    let half = e >> 1u;
    return bytes4(w_i8(b, j)) / BYTES * bitcast<f32>((half + 63u) << 23u) * bitcast<f32>((e - half + 63u) << 23u);
}
{% set own_w4 = true %}
{% include "common/numbers.wgsl" %}
{% if act is defined and act == "q8" %}
{{ lower("vec4<u32>", "11111111") }}
struct W { q: vec4<u32>, d: f32 }
fn load_w(b: u32) -> W {
    return W(wq[b], w_scale(b));
}
fn dot_w(w: W, xa: vec4<u32>, xb: vec4<u32>, xs: vec2<f32>) -> f32 {
    let both = lower_11111111(w.q);
    let lo = both & vec4<u32>(0x0f0f0f0fu);
    let hi = (both >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
    let t = dot4I8Packed(lo.x, xa.x) + dot4I8Packed(lo.y, xa.y) + dot4I8Packed(lo.z, xa.z) + dot4I8Packed(lo.w, xa.w)
          + dot4I8Packed(hi.x, xb.x) + dot4I8Packed(hi.y, xb.y) + dot4I8Packed(hi.z, xb.z) + dot4I8Packed(hi.w, xb.w);
    // The highest bits where they stand: 8 b of the low nibbles, as signed bytes -128 b of the high ones.
    let a = w.q & vec4<u32>(0x08080808u);
    let b = w.q & vec4<u32>(0x80808080u);
    let ta = dot4I8Packed(a.x, xa.x) + dot4I8Packed(a.y, xa.y) + dot4I8Packed(a.z, xa.z) + dot4I8Packed(a.w, xa.w);
    let tb = dot4I8Packed(b.x, xb.x) + dot4I8Packed(b.y, xb.y) + dot4I8Packed(b.z, xb.z) + dot4I8Packed(b.w, xb.w);
    return w.d * (xs.x * f32(t + ((3 * ta) >> 1u) - ((3 * tb) >> 5u)) - 13.0 * xs.y);
}
{% endif %}
