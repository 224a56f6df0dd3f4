// q3_k: blocks in groups of eight: 4 vec4 of pairs of bits, two words a block, as q2_0's; then 2 vec4 of bits as q1_0's, a word a block, where
// numbers are 4 smaller; value = number * scale, a scale for each 16 elements.
{% set units = 1 %}{% set numbers = true %}{% set has_min = false %}{% set halves_scale = true %}
{% include "common/scales_16.wgsl" %}
fn w_q(b: u32) -> vec2<u32> {
    let q = wq[(b >> 3u) * 6u + ((b & 7u) >> 1u)];
    return select(q.xy, q.zw, (b & 1u) == 1u);
}
fn w_h(b: u32) -> u32 { return wq[(b >> 3u) * 6u + 4u + ((b & 7u) >> 2u)][b & 3u]; }
// Four signed bytes of a word of pairs from bit `at` on, and of a word of bits from bit j on.
fn signed(q: u32, h: u32, at: u32, j: u32) -> u32 { return ((q >> at) & 0x03030303u) + 252u * ((h >> j) & 0x01010101u); }
fn w_i8(b: u32, j: u32) -> u32 {
    return signed(w_q(b)[j >> 2u], w_h(b), 2u * (j & 3u), j);
}
{% include "common/numbers.wgsl" %}
{% if act is defined and act == "q8" %}
struct W { q: vec2<u32>, h: u32, s: vec2<f32> }
fn load_w(b: u32) -> W {
    return W(w_q(b), w_h(b), w_scales(b).xy);
}
fn dot_w(w: W, xa: vec4<u32>, xb: vec4<u32>, xs: vec2<f32>) -> f32 {
{% for x, n in [("a", "x"), ("b", "y")] %}
    let t{{ x }} = {% for i in range(4) %}dot4I8Packed(signed(w.q.{{ n }}, w.h, {{ i * 2 }}u, {{ i + (4 if x == "b" else 0) }}u), x{{ x }}.{{ ["x", "y", "z", "w"][i] }}){% if not loop.last %}
        + {% endif %}{% endfor %};
{% endfor %}
    return xs.x * (w.s.x * f32(ta) + w.s.y * f32(tb));
}
{% endif %}
