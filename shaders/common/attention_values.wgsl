{# What decode attention does with the values of a tile: 32 lanes share a value (64 of the widest), a column each, and the groups of them deal the keys out. #}
{% macro load() %}
{% for k in range(keys // deals) %}
        let p{{ k }} = tile + min(part + {{ deals * k }}u, count - 1u);
        var v{{ k }} = load_v((cache + slot(p{{ k }}, first_key, first_slot, cap)) * row_columns + column);
{% endfor %}
{% endmacro %}
{# Where there are values of earlier rows of the step among these, they are made here: at most one a lane. #}
{% macro earlier() %}
        if (sees_earlier) {
            let first = max(state.pos, tile) - tile;
            let made = tile + first + ((part - first) & {{ deals - 1 }}u);
            if (made < pos && made - tile < count) {
                let v = earlier_v(made - state.pos, kv_head, column);
{% for k in range(keys // deals) %}
                if (p{{ k }} == made) { v{{ k }} = v; }
{% endfor %}
            }
        }
{% endmacro %}
{# o0_0, o0_1, …: this lane's columns of the output, for each of four heads. #}
{% macro add() %}
{% for k in range(keys // deals) %}
        {
{% if fused %}
            if (appends && p{{ k }} == pos) { v{{ k }} = new_v(column); }
{% endif %}
            let w = weights[part + {{ deals * k }}u];
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
{% if not fused %}
    // Four groups' sums of the output, a head at a time.
{% for g in range(4) %}
    workgroupBarrier();
{% for n in range(vectors) %}
    q[part * {{ width // 4 }}u + li % {{ across }}u * {{ vectors }}u + {{ n }}u] = o{{ g }}_{{ n }};
{% endfor %}
    workgroupBarrier();
    if ({{ g }}u < heads && li < {{ width // 4 }}u && li * 4u < E) {
        var sum = vec4<f32>();
        for (var k = 0u; k < {{ deals }}u; k++) { sum += q[k * {{ width // 4 }}u + li]; }
        let at = (at_split * H + head + {{ g }}u) * E + li * 4u;
        for (var c = 0u; c < 4u; c++) { po[at + c] = sum[c]; }
    }
{% endfor %}
{% else %}
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
{% endif %}
    if (li < heads) {
        var sum = 0.0;
        for (var k = li; k < 32u; k += HEADS) { sum += sums[k]; }
        ml[at_split * H + head + li] = vec2<f32>(own_m, sum);
    }
{% endmacro %}
