// The product of f32 activations: each lane takes every so manieth piece of a block, `step` apart. With `normed` it also adds up their squares: every
// group of lanes walks over all of h.
    for (var i = lane; i < KB * UNITS; i += {{ step }}) {
        let v = load_x({{ "x0 * UNITS + " if experts }}i);
{% for r in range(rows) %}
        sum{{ r }} += dot_x(b{{ r }} * UNITS + i, v);
{% endfor %}
{% if normed %}
        for (var j = i * (8u / UNITS); j < (i + 1u) * (8u / UNITS); j++) { sq += dot(residual(j), residual(j)); }
{% endif %}
    }
