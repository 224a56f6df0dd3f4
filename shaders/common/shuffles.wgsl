{# Subgroup operations of groups of n neighbouring invocations, a power of two; all of a workgroup come by. Where they are used, `li` is the
   invocation's number. Tests compile shuffles_emulated.wgsl in this file's place, which does the same through workgroup memory, so that what only
   large subgroups run runs anywhere.
     exchange()           at module level, once: what they need
     xor(v, mask, type)   v of invocation li ^ mask
     sum(v, n, type)      statements: v becomes its sum over the group
     most(v, n)           statements: v becomes the largest of the group #}
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
