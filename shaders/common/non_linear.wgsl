// Nibbles that number sixteen values, as signed bytes. Each bit of a value is a function of the four of its number, found for many numbers at once.
{# Bits 0 to 7 of -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113: the highest bit of the number chooses first. #}
{% set bit0 = "((p3 & (p2 | (~p1 | ~p0))) | (~p3 & ((p2 & ~p1) | (~p2 & (p1 | ~p0)))))" %}
{% set bit1 = "((p3 & (~p2 & (p1 & p0))) | (~p3 & ((p2 & (p1 | ~p0)) | (~p2 & (p1 & p0)))))" %}
{% set bit2 = "((p3 & ((p2 & ~p1) | (~p2 & p0))) | (~p3 & ((p2 & (~p1 | p0)) | (~p2 & p1))))" %}
{% set bit3 = "((p3 & ((p2 & (p1 & ~p0)) | (~p2 & (p1 ^ p0)))) | (~p3 & ((p2 & (~p1 | ~p0)) | (~p2 & (p1 | p0)))))" %}
{% set bit4 = "((p3 & ((p2 & (p1 | ~p0)) | (~p2 & (p1 & ~p0)))) | (~p3 & p0))" %}
{% set bit5 = "((p3 & ((p2 & (p1 ^ ~p0)) | (~p2 & (p1 & p0)))) | (~p3 & p1))" %}
{% set bit6 = "((p3 & (p2 & (p1 | p0))) | (~p3 & p2))" %}
{% set bit7 = "~p3" %}
{% set bits = [bit0, bit1, bit2, bit3, bit4, bit5, bit6, bit7] %}
// Of four nibbles, one a byte.
fn non_linear4(p0: u32) -> u32 {
    let p1 = p0 >> 1u;
    let p2 = p0 >> 2u;
    let p3 = p0 >> 3u;
    var v = {{ bits[0] }} & 0x01010101u;
{% for i in range(1, 8) %}
    v |= ({{ bits[i] }} & 0x01010101u) << {{ i }}u;
{% endfor %}
    return v;
}
{% if act is defined and act == "q8" %}
struct Bytes { a: vec4<u32>, b: vec4<u32> }
// The last steps of turning bits: the bits of two, then of neighbouring words and places are exchanged.
fn turned(v: vec4<u32>) -> vec4<u32> {
    const TWO = vec2<u32>(0x33333333u);
    const ONE = vec2<u32>(0x55555555u);
    let low = (v.xy & TWO) | ((v.zw & TWO) << vec2<u32>(2u));
    let high = ((v.xy >> vec2<u32>(2u)) & TWO) | (v.zw & ~TWO);
    let even = vec2<u32>(low.x, high.x);
    let odd = vec2<u32>(low.y, high.y);
    let first = (even & ONE) | ((odd & ONE) << vec2<u32>(1u));
    let second = ((even >> vec2<u32>(1u)) & ONE) | (odd & ~ONE);
    return vec4<u32>(first.x, second.x, first.y, second.y);
}
// All of a block: four words of nibbles are turned into words of their bits, these into words of the values' bits, these into bytes.
fn non_linear(q: vec4<u32>) -> Bytes {
    let p = turned(q);
    let p0 = p.x;
    let p1 = p.y;
    let p2 = p.z;
    let p3 = p.w;
    let low = vec4<u32>({% for i in range(4) %}{{ bits[i] }}{% if not loop.last %}, {% endif %}{% endfor %});
    let high = vec4<u32>({% for i in range(4, 8) %}{{ bits[i] }}{% if not loop.last %}, {% endif %}{% endfor %});
    const FOUR = vec4<u32>(0x0f0f0f0fu);
    return Bytes(turned((low & FOUR) | ((high & FOUR) << vec4<u32>(4u))), turned(((low >> vec4<u32>(4u)) & FOUR) | (high & ~FOUR)));
}
struct W { q: vec4<u32>, d: f32 }
fn load_w(b: u32) -> W {
    return W(wq[b], w_scales(b).x);
}
fn dot_w(w: W, xa: vec4<u32>, xb: vec4<u32>, xs: vec2<f32>) -> f32 {
    let v = non_linear(w.q);
    let t = dot4I8Packed(v.a.x, xa.x) + dot4I8Packed(v.a.y, xa.y) + dot4I8Packed(v.a.z, xa.z) + dot4I8Packed(v.a.w, xa.w)
          + dot4I8Packed(v.b.x, xb.x) + dot4I8Packed(v.b.y, xb.y) + dot4I8Packed(v.b.z, xb.z) + dot4I8Packed(v.b.w, xb.w);
    return w.d * (xs.x * f32(t));
}
{% endif %}
fn w_i8(b: u32, j: u32) -> u32 {
    return non_linear4((wq[b][j & 3u] >> (j & 4u)) & 0x0f0f0f0fu);
}
{% include "common/numbers.wgsl" %}
