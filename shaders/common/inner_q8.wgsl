// The product of int8 activations: each lane takes every so manieth block, `step` apart, of all its rows. With `normed` the activations are what
// common/normed.wgsl left in workgroup memory.
{% macro blocks(unroll) %}
    for (var i0 = lane; i0 < KB; i0 += {{ step }} * {{ unroll }}u) {
        // Loads first: what takes time is the wait for them.
{% for u in range(unroll) %}
{% if u > 0 %}
        let i{{ u }} = min(i0 + {{ u }}u * {{ step }}, KB - 1u);
{% endif %}
{% for r in range(rows) %}
        let w{{ u }}_{{ r }} = load_w(b{{ r }} + i{{ u }});
{% endfor %}
{% endfor %}
{% for u in range(unroll) %}
        {
{% if normed %}
            let xa = vec4<u32>(nq[i{{ u }} * 4u], nq[i{{ u }} * 4u + 1u]);
            let xb = vec4<u32>(nq[i{{ u }} * 4u + 2u], nq[i{{ u }} * 4u + 3u]);
            var s = ns[i{{ u }}];
{% else %}
            let xa = xq[(x0 + i{{ u }}) * 2u];
            let xb = xq[(x0 + i{{ u }}) * 2u + 1u];
            var s = xs[x0 + i{{ u }}];
{% endif %}
{% if u > 0 %}
            if (i0 + {{ u }}u * {{ step }} >= KB) { s = vec2<f32>(); }
{% endif %}
{% for r in range(rows) %}
            sum{{ r }} += dot_w(w{{ u }}_{{ r }}, xa, xb, s);
{% endfor %}
        }
{% endfor %}
    }
{% endmacro %}
{% if unrolled %}
    // Two blocks under way at once where a row has two for each lane; the pipeline's compiler keeps one of the two.
    if (KB > LANES) {
{{ blocks(2) }}
    } else {
{{ blocks(1) }}
    }
{% else %}
{{ blocks(1) }}
{% endif %}
