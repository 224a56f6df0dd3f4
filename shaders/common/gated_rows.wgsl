// Gates of {{ rows // 2 }} of the F outputs, then their up rows, behind block w0.
{% set half = rows // 2 %}
    if (first >= F) { return; }
{% for r in range(half) %}
    let b{{ r }} = w0 + min(first + group * {{ half }}u + {{ r }}u, F - 1u) * KB;
    let b{{ half + r }} = b{{ r }} + GATED * F * KB;
{% endfor %}
