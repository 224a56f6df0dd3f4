// The product of activations in halves: four products at a time in halves, their sums in f32. Each lane takes every so manieth piece of a block,
// `step` apart, pieces as memory holds them: 16 bytes where numbers have so many.
{% import "common/weight_" ~ weight ~ ".wgsl" as type with context %}
{% set units = type.units %}
    for (var i = lane; i < KB * {{ units }}u; i += {{ step }}) {
{% for j in range(8 // units) %}
        {
            let v = x[i * {{ 8 // units }}u + {{ j }}u];
{% for r in range(rows) %}
            sum{{ r }} += f32(dot(vec4<f16>(w4(b{{ r }} + i / {{ units }}u, i % {{ units }}u * {{ 8 // units }}u + {{ j }}u)), v));
{% endfor %}
        }
{% endfor %}
    }
