// Gates of {{ rows // 2 }} of the F outputs, then their up rows, behind block w0; of experts with INTERLEAVED each gate before its up row.
{% set half = rows // 2 %}
    if (first >= F) { return; }
{% for r in range(half) %}
{% if experts | default(false) %}
    let f{{ r }} = min(first + group * {{ half }}u + {{ r }}u, F - 1u);
    let b{{ r }} = w0 + f{{ r }} * (1u + INTERLEAVED) * KB;
    let b{{ half + r }} = b{{ r }} + GATED * select(F, 1u, INTERLEAVED == 1u) * KB;
{% else %}
    let b{{ r }} = w0 + min(first + group * {{ half }}u + {{ r }}u, F - 1u) * KB;
    let b{{ half + r }} = b{{ r }} + GATED * F * KB;
{% endif %}
{% endfor %}
