// q1_0: 1 word a block: bit j of byte k is set where element 4j + k is positive; value = scale or -scale; a scale for each 128 elements.
{% set units = 1 %}{% set numbers = true %}{% set has_min = false %}{% set halves_scale = false %}
{% set shared = 2 %}
{% include "common/scales.wgsl" %}
fn w_q(b: u32) -> u32 { return wq[b >> 2u][b & 3u]; }
fn w_i8(b: u32, j: u32) -> u32 {
    let positive = (w_q(b) >> j) & 0x01010101u;
    return positive | ((positive ^ 0x01010101u) * 255u);
}
{% include "common/numbers.wgsl" %}
{% if act is defined and act == "q8" %}
struct W { q: u32, d: f32 }
fn load_w(b: u32) -> W {
    return W(w_q(b), w_scale(b));
}
fn dot_w(w: W, xa: vec4<u32>, xb: vec4<u32>, xs: vec2<f32>) -> f32 {
    let t = {% for j in range(8) %}dot4I8Packed((w.q >> {{ j }}u) & 0x01010101u, x{{ "a" if j < 4 else "b" }}.{{ ["x", "y", "z", "w"][j % 4] }}){% if not loop.last %}
          + {% endif %}{% endfor %};
    return w.d * (xs.x * f32(2 * t) - xs.y);
}
{% endif %}
