{# As scores_workgroup.wgsl, by subgroup operations: of 32 lanes, or of the eight of a key, and then across keys through workgroup memory. #}
{% from "common/shuffles" ~ (emulated | default("")) ~ ".wgsl" import exchange, xor with context %}
{% import "common/scores_workgroup.wgsl" as by_workgroup with context %}
{% macro memory() %}
{{ exchange() }}
{% if lanes != 32 %}{{ by_workgroup.memory() }}{% endif %}
{% endmacro %}
{% macro join() %}
        // Shuffles that halve what each lane holds: at the end one score.
{% if rounds == 2 %}
        var four_sums = select(s0, s1, own_round == 1u);
        four_sums += {{ xor("select(s1, s0, own_round == 1u)", 4, "vec4") }};
{% else %}
        let four_sums = s0 + {{ xor("s0", 4, "vec4") }};
{% endif %}
        var two_sums = select(four_sums.xy, four_sums.zw, (lane & 2u) != 0u);
        two_sums += {{ xor("select(four_sums.zw, four_sums.xy, (lane & 2u) != 0u)", 2, "vec2") }};
        var s = select(two_sums.x, two_sums.y, (lane & 1u) != 0u);
        s += {{ xor("select(two_sums.y, two_sums.x, (lane & 1u) != 0u)", 1) }};
{% endmacro %}
{% macro most() %}
{% if lanes == 32 %}
        var most = max(s, {{ xor("s", 8) }});
        most = max(most, {{ xor("most", 16) }});
        most = max(most, {{ xor("most", 4) }});
        if (li % 32u < HEADS) { maxima[li / 32u * HEADS + own_head] = most; }
{% else %}
{{ by_workgroup.most() }}
{% endif %}
{% endmacro %}
{% macro share() %}
        let w4 = vec4<f32>(weight, {{ xor("weight", 1) }}, {{ xor("weight", 2) }}, {{ xor("weight", 3) }});
        if (own_head == 0u{% if rounds == 1 %} && own_round == 0u{% endif %}) { weights[own_key] = w4; }
{% endmacro %}
{% macro total() %}
{% if lanes == 32 %}
    var l = own_l + {{ xor("own_l", 8) }};
    l += {{ xor("l", 16) }};
    l += {{ xor("l", 4) }};
    if (li % 32u < HEADS) { sums[li / 32u * HEADS + own_head] = l; }
{% else %}
{{ by_workgroup.total() }}
{% endif %}
{% endmacro %}
