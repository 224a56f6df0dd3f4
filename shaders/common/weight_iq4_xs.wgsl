// iq4_xs: 1 vec4 of nibbles a block, as iq4_nl's; blocks in groups of eight with a common factor and a scale of 6 bits each, 32 too large.
{% set units = 1 %}{% set numbers = true %}{% set has_min = false %}{% set halves_scale = false %}
// Of eight blocks: x holds the factor as a half and above it the high 2 bits of each scale, y the low 4 bits.
@group(0) @binding(2) var<storage, read> ws: array<vec2<u32>>;
{% include "common/half.wgsl" %}
fn w_scales(b: u32) -> vec3<f32> {
    let s = ws[b >> 3u];
    let j = b & 7u;
    let scale = ((s.y >> (4u * j)) & 15u) | (((s.x >> (2u * j + 16u)) & 3u) << 4u);
    let d = half_value(s.x & 0xffffu) * (f32(scale) - 32.0);
    return vec3<f32>(d, d, 0.0);
}
{% include "common/non_linear.wgsl" %}
