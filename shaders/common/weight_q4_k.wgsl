// q4_k: 1 vec4 of nibbles a block, as q4_0's; blocks in groups of eight with 16 bytes of scales (common/scales_k.wgsl);
// value = scale * nibble - min.
{% set units = 1 %}{% set numbers = true %}{% set has_min = true %}{% set halves_scale = false %}
{% include "common/scales_k.wgsl" %}
fn w_i8(b: u32, j: u32) -> u32 {
    return (wq[b][j & 3u] >> (j & 4u)) & 0x0f0f0f0fu;
}
{% set raw = "nibbles" %}
{% include "common/numbers.wgsl" %}
{% include "common/nibbles_min.wgsl" %}
