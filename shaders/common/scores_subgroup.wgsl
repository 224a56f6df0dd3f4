{# As scores_workgroup.wgsl, by subgroup operations: of 32 lanes, or of the eight of a key, and then across keys through workgroup memory. #}
{% import "common/scores_workgroup.wgsl" as by_workgroup with context %}
{% macro memory() %}{% if lanes != 32 %}{{ by_workgroup.memory() }}{% endif %}{% endmacro %}
{% macro join() %}
        // Shuffles that halve what each lane holds: at the end one score.
{% if rounds == 2 %}
        var four_sums = select(s0, s1, own_round == 1u);
        four_sums += subgroupShuffleXor(select(s1, s0, own_round == 1u), 4u);
{% else %}
        let four_sums = s0 + subgroupShuffleXor(s0, 4u);
{% endif %}
        var two_sums = select(four_sums.xy, four_sums.zw, (lane & 2u) != 0u);
        two_sums += subgroupShuffleXor(select(four_sums.zw, four_sums.xy, (lane & 2u) != 0u), 2u);
        var s = select(two_sums.x, two_sums.y, (lane & 1u) != 0u);
        s += subgroupShuffleXor(select(two_sums.y, two_sums.x, (lane & 1u) != 0u), 1u);
{% endmacro %}
{% macro most() %}
{% if lanes == 32 %}
        var most = max(s, subgroupShuffleXor(s, 8u));
        most = max(most, subgroupShuffleXor(most, 16u));
        most = max(most, subgroupShuffleXor(most, 4u));
        if (li % 32u < HEADS) { maxima[li / 32u * HEADS + own_head] = most; }
{% else %}
{{ by_workgroup.most() }}
{% endif %}
{% endmacro %}
{% macro share() %}
        let w4 = vec4<f32>(weight, subgroupShuffleXor(weight, 1u), subgroupShuffleXor(weight, 2u), subgroupShuffleXor(weight, 3u));
        if (own_head == 0u{% if rounds == 1 %} && own_round == 0u{% endif %}) { weights[own_key] = w4; }
{% endmacro %}
{% macro total() %}
{% if lanes == 32 %}
    var l = own_l + subgroupShuffleXor(own_l, 8u);
    l += subgroupShuffleXor(l, 16u);
    l += subgroupShuffleXor(l, 4u);
    if (li % 32u < HEADS) { sums[li / 32u * HEADS + own_head] = l; }
{% else %}
{{ by_workgroup.total() }}
{% endif %}
{% endmacro %}
