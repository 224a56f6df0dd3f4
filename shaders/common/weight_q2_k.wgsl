// q2_k: 2 words of pairs of bits a block, as q2_0's; blocks in groups of eight with common factors of scales and mins, one of each for 16
// elements; value = scale * number - min.
{% set units = 1 %}{% set numbers = true %}{% set has_min = "halves" %}{% set halves_scale = true %}
// Five words for eight blocks: a byte for each 16 elements, a 4-bit scale and above it a min, then the factors of both as halves.
@group(0) @binding(2) var<storage, read> ws: array<u32>;
{% include "common/half.wgsl" %}
fn w_q(b: u32) -> vec2<u32> {
    let q = wq[b >> 1u];
    return select(q.xy, q.zw, (b & 1u) == 1u);
}
// The factors, and in bits that a half leaves free the numbers of both halves: half the room of w_scales.
fn w_tile(b: u32) -> vec2<u32> {
    let at = (b >> 3u) * 5u;
    let two = ws[at + ((b & 7u) >> 1u)] >> ((b & 1u) * 16u);
    let factors = bitcast<vec2<u32>>(vec2<f32>(half_value(ws[at + 4u] & 0xffffu), half_value(ws[at + 4u] >> 16u)));
    return factors | (vec2<u32>(two, two >> 4u) & vec2<u32>(15u)) | ((vec2<u32>(two >> 4u, two >> 8u) & vec2<u32>(0xf0u)));
}
fn of_tile(v: vec2<u32>) -> vec4<f32> {
    let factors = bitcast<vec2<f32>>(v & vec2<u32>(0xffffff00u));
    return factors.xxyy * vec4<f32>(vec4<u32>(v.x, v.x >> 4u, v.y, v.y >> 4u) & vec4<u32>(15u));
}
fn w_scales(b: u32) -> vec4<f32> { return of_tile(w_tile(b)); }
fn w_i8(b: u32, j: u32) -> u32 {
    return (w_q(b)[j >> 2u] >> (2u * (j & 3u))) & 0x03030303u;
}
{% set unsigned = "w_i8" %}
{% include "common/numbers.wgsl" %}
{% if act is defined and act == "q8" %}
struct W { q: vec2<u32>, s: vec4<f32> }
fn load_w(b: u32) -> W {
    return W(w_q(b), w_scales(b));
}
fn dot_w(w: W, xa: vec4<u32>, xb: vec4<u32>, xs: vec2<f32>) -> f32 {
{% for x, n in [("a", "x"), ("b", "y")] %}
    let t{{ x }} = {% for i in range(4) %}dot4I8Packed((w.q.{{ n }} >> {{ i * 2 }}u) & 0x03030303u, x{{ x }}.{{ ["x", "y", "z", "w"][i] }}){% if not loop.last %}
        + {% endif %}{% endfor %};
{% endfor %}
    // The activations' sum is known of the whole block.
    let second = xs.x * f32({% for c in ["x", "y", "z", "w"] %}dot4I8Packed(0x01010101u, xb.{{ c }}){% if not loop.last %} + {% endif %}{% endfor %});
    return xs.x * (w.s.x * f32(ta) + w.s.y * f32(tb)) - (w.s.z * (xs.y - second) + w.s.w * second);
}
{% endif %}
