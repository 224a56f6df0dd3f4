{# Sums of several values over a group of n neighbouring invocations, a power of two; all of a workgroup come by, and `li` is the invocation's
   number. `through` is how they come together (common/shuffles.wgsl), whose exchange() is there.
     sums(all, values, n) statements: `all` becomes the group's sum of one of the values, of the number which(values | length); the values,
                          a power of two of them, at most n, are used up. Each shuffle halves what an invocation adds up: n - 1 shuffles
                          for n values of n invocations, where n sums take n log2(n). The order of addition is that of `sum` #}
{% if through != "_memory" %}{% from "common/shuffles" ~ through ~ ".wgsl" import xor with context %}{% endif %}
{# The number of the value that `sums` gives invocation li, of n. #}
{% macro which(n) %}({% for bit in [1, 2, 4, 8, 16] %}{% if bit < n %}{{ " | " if bit > 1 }}select(0u, {{ n // (2 * bit) }}u, (li & {{ bit }}u) != 0u){% endif %}{% endfor %}{{ "0u" if n == 1 }}){% endmacro %}
{% macro sums(all, values, n) %}
{% if through == "_memory" %}
{% for v in values %}
    {{ v }} = sum_f32({{ v }}, {{ n }}u, li);
    if ({{ which(values | length) }} == {{ loop.index0 }}u) { {{ all }} = {{ v }}; }
{% endfor %}
{% else %}
{% set left = namespace(count=values | length) %}
{% for mask in [1, 2, 4, 8, 16] %}{% if mask < n %}
{% if left.count > 1 %}
{% set half = left.count // 2 %}
{% for i in range(half) %}
{% set a = values[i] %}{% set b = values[i + half] %}
    {{ a }} = select({{ a }}, {{ b }}, (li & {{ mask }}u) != 0u) + {{ xor("select(" ~ b ~ ", " ~ a ~ ", (li & " ~ mask ~ "u) != 0u)", mask) }};
{% endfor %}
{% set left.count = half %}
{% else %}
    {{ values[0] }} += {{ xor(values[0], mask) }};
{% endif %}
{% endif %}{% endfor %}
    {{ all }} = {{ values[0] }};
{% endif %}
{% endmacro %}
