// What types give whose blocks are decoded number by number: w4, and the product with activations in floats, from w_i8 and w_scales.
{% include "common/floats.wgsl" %}
{% include "common/bytes.wgsl" %}
