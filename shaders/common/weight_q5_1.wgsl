// q5_1: 1 vec4 of nibbles a block, as q4_0's; value = scale * number + what is added.
{% set units = 1 %}{% set numbers = true %}{% set has_min = true %}{% set halves_scale = false %}
@group(0) @binding(2) var<storage, read> ws: array<vec2<u32>>;   // of block b: the scale, above it what is added, as halves; the fifth bits
{% include "common/half.wgsl" %}
{% include "common/fifth.wgsl" %}
fn w_scales(b: u32) -> vec3<f32> {
    let d = half_value(ws[b].x & 0xffffu);
    return vec3<f32>(d, d, -half_value(ws[b].x >> 16u));
}
fn w_q(b: u32) -> vec4<u32> { return wq[b]; }
fn w_h(b: u32) -> u32 { return ws[b].y; }
{% include "common/fifths_min.wgsl" %}
