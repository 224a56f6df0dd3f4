{# Subgroup operations of groups of n neighbouring invocations, a power of two; all of a workgroup come by. Where they are used, `li` is the
   invocation's number. Tests compile shuffles_emulated.wgsl in this file's place, which does the same through workgroup memory, so that what only
   large subgroups run runs anywhere.
     exchange()           at module level, once: what they need
     xor(v, mask, type)   v of invocation li ^ mask
     sum(v, n, type)      statements: v becomes its sum over the group
     most(v, n)           statements: v becomes the largest of the group
     sums(all, values, n) statements: `all` becomes the group's sum of one of the values, of the number which(values | length); the values,
                          a power of two of them, at most n, are used up. Each exchange halves what an invocation adds up: n - 1
                          exchanges for n values of n invocations, where n sums take n log2(n). The order of addition is that of `sum` #}
{% macro exchange() %}{% endmacro %}
{% macro xor(v, mask, type="f32") %}subgroupShuffleXor({{ v }}, {{ mask }}u){% endmacro %}
{% macro sum(v, n, type="f32") %}
{% for mask in [1, 2, 4, 8, 16] %}{% if mask < n %}
    {{ v }} += subgroupShuffleXor({{ v }}, {{ mask }}u);
{% endif %}{% endfor %}
{% endmacro %}
{% macro most(v, n) %}
{% for mask in [1, 2, 4, 8, 16] %}{% if mask < n %}
    {{ v }} = max({{ v }}, subgroupShuffleXor({{ v }}, {{ mask }}u));
{% endif %}{% endfor %}
{% endmacro %}
{# The number of the value that `sums` gives invocation li, of n. #}
{% macro which(n) %}({% for bit in [1, 2, 4, 8, 16] %}{% if bit < n %}{{ " | " if bit > 1 }}select(0u, {{ n // (2 * bit) }}u, (li & {{ bit }}u) != 0u){% endif %}{% endfor %}{{ "0u" if n == 1 }}){% endmacro %}
{% macro sums(all, values, n) %}
{% set left = namespace(count=values | length) %}
{% for mask in [1, 2, 4, 8, 16] %}{% if mask < n %}
{% if left.count > 1 %}
{% set half = left.count // 2 %}
{% for i in range(half) %}
{% set a = values[i] %}{% set b = values[i + half] %}
    {{ a }} = select({{ a }}, {{ b }}, (li & {{ mask }}u) != 0u) + subgroupShuffleXor(select({{ b }}, {{ a }}, (li & {{ mask }}u) != 0u), {{ mask }}u);
{% endfor %}
{% set left.count = half %}
{% else %}
    {{ values[0] }} += subgroupShuffleXor({{ values[0] }}, {{ mask }}u);
{% endif %}
{% endif %}{% endfor %}
    {{ all }} = {{ values[0] }};
{% endmacro %}
