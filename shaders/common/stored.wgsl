{# A vec4<f32> as `y` holds it. #}
{% macro stored(v) %}{% if out == "f16" %}vec4<f16>(clamp({{ v }}, vec4<f32>(-65504.0), vec4<f32>(65504.0))){% else %}{{ v }}{% endif %}{% endmacro %}
