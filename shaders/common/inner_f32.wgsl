// The product of activations in floats: each lane takes every so manieth piece of a block, `step` apart, of all its rows. With `normed` the
// activations are what common/normed.wgsl left in workgroup memory.
    for (var i = lane; i < KB * UNITS; i += {{ step }}) {
        // Loads first: what takes time is the wait for them.
{% for r in range(rows) %}
        let w{{ r }} = load_piece(b{{ r }} * UNITS + i);
{% endfor %}
        let v = load_x(x0 * UNITS + i);
{% for r in range(rows) %}
        sum{{ r }} += dot_piece(w{{ r }}, v);
{% endfor %}
    }
