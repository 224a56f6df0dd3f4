// q5_k: blocks in groups of eight: 8 vec4 of nibbles as q4_0's, one a block, then 2 vec4 of fifth bits, a word a block; scales as q4_k;
// value = scale * number - min.
{% set units = 1 %}{% set numbers = true %}{% set has_min = true %}{% set halves_scale = false %}
{% include "common/scales_k.wgsl" %}
{% include "common/fifth.wgsl" %}
fn w_q(b: u32) -> vec4<u32> { return wq[(b >> 3u) * 10u + (b & 7u)]; }
fn w_h(b: u32) -> u32 { return wq[(b >> 3u) * 10u + 8u + ((b & 7u) >> 2u)][b & 3u]; }
{% include "common/fifths_min.wgsl" %}
