// Each gate with its up product; then the workgroup's 32 outputs are stored, behind block y0.
{% set half = rows // 2 %}
{% set factor = " * factor" if normed else "" %}
{% if memory %}
    if (li < 32u) {
        let gate = row_sum(li / {{ half }}u, li % {{ half }}u){{ factor }};
        var up = select(1.0, lifted(row_sum(li / {{ half }}u, {{ half }}u + li % {{ half }}u){{ factor }}), GATED == 1u);
{% if normed and out == "f32" %}
        if (BESIDE != 0u) { up = beside[wid.z * EACH * BESIDE + u32(nw[D / 2u].x) + min(first + li, F - 1u)]; }
{% endif %}
        outputs[li] = select(0.0, activation(gate) * up, first + li < F);
    }
{% else %}
{% from "common/sums.wgsl" import sums, which with context %}
{% set values = namespace(gates=[], ups=[]) %}
{% for r in range(half) %}
{% set values.gates = values.gates + ["sum" ~ r] %}
{% set values.ups = values.ups + ["sum" ~ (half + r)] %}
{% endfor %}
    var gate = 0.0;
    var up = 0.0;
{{ sums("gate", values.gates, lanes) }}
{{ sums("up", values.ups, lanes) }}
    let mine = group * {{ half }}u + {{ which(half) }};
    if (li % LANES < {{ half }}u) {
{% if experts | default(false) %}
        if (BIAS == 1u) {
            let at = (expert * F + min(first + mine, F - 1u)) * (1u + INTERLEAVED);
            gate += bias[at];
            if (GATED == 1u) { up += bias[at + select(UP_AT, 1u, INTERLEAVED == 1u)]; }
        }
{% endif %}
        up = select(1.0, lifted(up{{ factor }}), GATED == 1u);
{% if normed and out == "f32" %}
        if (BESIDE != 0u) { up = beside[wid.z * EACH * BESIDE + u32(nw[D / 2u].x) + min(first + mine, F - 1u)]; }
{% endif %}
        outputs[mine] = select(0.0, activation(gate{{ factor }}) * up, first + mine < F);
    }
{% endif %}
    write_outputs(y0 + first / 32u, li);
