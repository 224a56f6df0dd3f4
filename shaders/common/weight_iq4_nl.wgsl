// iq4_nl: 1 vec4 of nibbles a block, as q4_0's, which number sixteen values; these times the scale.
{% set units = 1 %}{% set numbers = true %}{% set has_min = false %}{% set halves_scale = false %}
{% include "common/scales.wgsl" %}
{% include "common/non_linear.wgsl" %}
