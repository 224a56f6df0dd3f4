{# What decode attention does with the keys of a tile: eight lanes share a key, `lane` of them has every eighth eight of its elements. #}
{% macro load() %}
        // Keys beyond the last repeat it and do not count below: a load without a condition need not wait for one.
{% for r in range(rounds) %}
        let at{{ r }} = tile + min(key + {{ 32 * r }}u, count - 1u);
{% endfor %}
{% for u in range(units) %}
{% for r in range(rounds) %}
        var k{{ r }}_{{ u }} = load_k((cache + slot(at{{ r }}, first_key, first_slot, cap)) * eights + min(lane + {{ 8 * u }}u, eights - 1u));
{% endfor %}
{% endfor %}
{% endmacro %}
{# Where there are keys of earlier rows of the step among these, they are made here: at most one a lane, as there are fewer than a round has keys. #}
{% macro earlier() %}
        if (sees_earlier) {
            let first = max(state.pos, tile) - tile;
            let made = tile + first + ((key - first) & 31u);
            if (made < pos && made - tile < count) {
{% for u in range(units) %}
                if (lane + {{ 8 * u }}u < eights) {
                    let k = earlier_k(made - state.pos, kv_head, lane + {{ 8 * u }}u);
{% for r in range(rounds) %}
                    if (at{{ r }} == made) { k{{ r }}_{{ u }} = k; }
{% endfor %}
                }
{% endfor %}
            }
        }
{% endmacro %}
{# s0, s1, …: this lane's parts of the scores of a key for four heads, one key a round of 32. #}
{% macro scores() %}
{% for r in range(rounds) %}
        var s{{ r }} = vec4<f32>();
{% endfor %}
{% for u in range(units) %}
        if (lane + {{ 8 * u }}u < eights) {
            let four = (lane + {{ 8 * u }}u) * 2u;
{% for g in range(4) %}
            let a{{ g }} = q[{{ g }}u * eights * 2u + four];
            let b{{ g }} = q[{{ g }}u * eights * 2u + four + 1u];
{% endfor %}
{% for r in range(rounds) %}
{% if fused %}
            if (appends && at{{ r }} == pos) { k{{ r }}_{{ u }} = new_k(lane + {{ 8 * u }}u); }
{% endif %}
            let x{{ r }} = low(k{{ r }}_{{ u }});
            let y{{ r }} = high(k{{ r }}_{{ u }});
            s{{ r }} += vec4<f32>({% for g in range(4) %}dot(x{{ r }}, a{{ g }}) + dot(y{{ r }}, b{{ g }}), {% endfor %});
{% endfor %}
        }
{% endfor %}
{% endmacro %}
