// The product of activations in floats: each lane takes every so manieth piece of a block, `step` apart, of all its rows. With `normed` the
// activations are what common/normed.wgsl left in workgroup memory; with `sliced` a slice of the row at a time is there.
{% if sliced %}
    // The next piece of each row is under way while a slice is filled and read; behind the last piece it comes again.
    let last = KB * UNITS - 1u;
    var i = lane;
{% for r in range(rows) %}
    var w{{ r }} = load_piece(b{{ r }} * UNITS + min(i, last));
{% endfor %}
    for (var start = 0u; start < KB; start += SLICE) {
        let blocks = min(SLICE, KB - start);
        // The slice before it has been read by all.
        if (start > 0u) { workgroupBarrier(); }
        fill_slice(x0 + start, blocks, li);
        workgroupBarrier();
        // The next slice begins with the piece that is under way.
        while (i < (start + blocks) * UNITS) {
            let v = load_x(i - start * UNITS);
{% for r in range(rows) %}
            sum{{ r }} += dot_piece(w{{ r }}, v);
{% endfor %}
            i += {{ step }};
{% for r in range(rows) %}
            w{{ r }} = load_piece(b{{ r }} * UNITS + min(i, last));
{% endfor %}
        }
    }
{% else %}
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
{% endif %}
