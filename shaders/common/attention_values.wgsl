{# What decode attention does with the values of a tile: 32 lanes share a value, a column each, and the eight groups of them deal the keys out. #}
{% macro load() %}
{% for k in range(keys // 8) %}
        let p{{ k }} = tile + min(part + {{ 8 * k }}u, count - 1u);
        var v{{ k }} = load_v((cache + slot(p{{ k }}, first_key, first_slot, cap)) * row_columns + column);
{% endfor %}
{% endmacro %}
{# o0_0, o0_1, …: this lane's columns of the output, for each of four heads. #}
{% macro add() %}
{% for k in range(keys // 8) %}
        {
            if (appends && p{{ k }} == pos) { v{{ k }} = new_v(column); }
            let w = weights[part + {{ 8 * k }}u];
{% for n in range(vectors) %}
            let x{{ n }} = part{{ n }}(v{{ k }});
{% for g in range(4) %}
            o{{ g }}_{{ n }} += w[{{ g }}] * x{{ n }};
{% endfor %}
{% endfor %}
        }
{% endfor %}
{% endmacro %}
{% macro store() %}
    // Eight groups' sums of the output, as many heads at a time as there is room for.
{% set at_once = 256 // width %}
{% for round in range(4 // at_once) %}
{% if round > 0 %}
    workgroupBarrier();
{% endif %}
{% for g in range(at_once) %}{% for n in range(vectors) %}{% for c in range(pairs) %}
    summands[(part * {{ at_once }}u + {{ g }}u) * {{ width }}u + li % 32u * {{ columns }}u + {{ n * pairs + c }}u] = o{{ round * at_once + g }}_{{ n }}[{{ c }}];
{% endfor %}{% endfor %}{% endfor %}
    workgroupBarrier();
    {
        let g = {{ round * at_once }}u + li / {{ width }}u;
        let e = li % {{ width }}u;
        if (g < heads && e < E) {
            var sum = 0.0;
            for (var k = 0u; k < 8u; k++) { sum += summands[k * 256u + li]; }
            po[(at_split * H + head + g) * E + e] = sum;
        }
    }
{% endfor %}
    if (li < heads) {
        var sum = 0.0;
        for (var k = li; k < 32u; k += HEADS) { sum += sums[k]; }
        ml[at_split * H + head + li] = vec2<f32>(own_m, sum);
    }
{% endmacro %}
