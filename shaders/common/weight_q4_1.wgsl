// q4_1: 1 vec4 of nibbles a block, as q4_0's; value = scale * nibble + what is added.
{% set units = 1 %}{% set numbers = true %}{% set has_min = true %}{% set halves_scale = false %}
@group(0) @binding(2) var<storage, read> ws: array<u32>;   // of block b: the scale, and above it what is added, as halves
{% include "common/half.wgsl" %}
fn w_scales(b: u32) -> vec3<f32> {
    let d = half_value(ws[b] & 0xffffu);
    return vec3<f32>(d, d, -half_value(ws[b] >> 16u));
}
fn w_i8(b: u32, j: u32) -> u32 {
    return (wq[b][j & 3u] >> (j & 4u)) & 0x0f0f0f0fu;
}
{% set raw = "nibbles" %}
{% include "common/numbers.wgsl" %}
{% include "common/nibbles_min.wgsl" %}
