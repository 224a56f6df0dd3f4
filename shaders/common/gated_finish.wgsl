// Each gate with its up product; then the workgroup's 32 outputs are stored, behind block y0.
{% set half = rows // 2 %}
    if (li % LANES == 0u) {
{% for r in range(half) %}
        let up{{ r }} = select(1.0, s{{ half + r }}, GATED == 1u);
        outputs[group * {{ half }}u + {{ r }}u] = select(0.0, activation(s{{ r }}) * up{{ r }}, first + group * {{ half }}u + {{ r }}u < F);
{% endfor %}
    }
    write_outputs(y0 + first / 32u, li);
