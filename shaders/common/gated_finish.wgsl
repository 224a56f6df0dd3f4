// Each gate with its up product; then the workgroup's 32 outputs are stored, behind block y0.
{% set half = rows // 2 %}
{% set factor = " * factor" if normed else "" %}
{% if memory %}
    if (li < 32u) {
        let gate = row_sum(li / {{ half }}u, li % {{ half }}u){{ factor }};
        var up = select(1.0, lifted(row_sum(li / {{ half }}u, {{ half }}u + li % {{ half }}u){{ factor }}), GATED == 1u);
{% if normed and out == "f32" %}
        if (BESIDE == 1u) { up = beside[u32(nw[D / 2u].x) + min(first + li, F - 1u)]; }
{% endif %}
        outputs[li] = select(0.0, activation(gate) * up, first + li < F);
    }
{% else %}
    if (li % LANES == 0u) {
{% for r in range(half) %}
{% if normed and out == "f32" %}
        var up{{ r }} = select(1.0, lifted(s{{ half + r }}), GATED == 1u);
        if (BESIDE == 1u) { up{{ r }} = beside[u32(nw[D / 2u].x) + min(first + group * {{ half }}u + {{ r }}u, F - 1u)]; }
{% else %}
        let up{{ r }} = select(1.0, lifted(s{{ half + r }}), GATED == 1u);
{% endif %}
        outputs[group * {{ half }}u + {{ r }}u] = select(0.0, activation(s{{ r }}) * up{{ r }}, first + group * {{ half }}u + {{ r }}u < F);
{% endfor %}
    }
{% endif %}
    write_outputs(y0 + first / 32u, li);
