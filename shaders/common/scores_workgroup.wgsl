{# How the eight lanes of a key, and then all keys, come together in decode attention, through workgroup memory; the same by subgroup
   operations in scores_subgroup.wgsl. Both give, of a tile's scores s0, s1, …, of which each lane has summed a part,
     memory()   what they need of workgroup memory
     join()     s: of key own_key and head own_head, summed over the lanes
     most()     maxima[32]: [8][HEADS], of an eighth of the scores each
     share()    weights[own_key]: the weights of its four heads
     total()    sums[32]: [8][HEADS], of an eighth of all weights each #}
{% macro memory() %}
// Scalars, as lanes write components of one vec4: a component's store may touch the whole vector.
var<workgroup> scores: array<f32, 256>;                  // [KEYS][HEADS], at the end a weight's sum a lane
{% endmacro %}
{# With one round a tile half of the lanes own no score. #}
{% macro own_score(value) %}
        {% if rounds == 1 %}if (own_round == 0u) { {% endif %}scores[own_key * HEADS + own_head] = {{ value }};{% if rounds == 1 %} }{% endif %}
{% endmacro %}
{% macro join() %}
{% for r in range(rounds) %}
{% for g in range(4) %}
        summands[((key + {{ 32 * r }}u) * LANES + lane) * HEADS + {{ g }}u] = s{{ r }}[{{ g }}];
{% endfor %}
{% endfor %}
        workgroupBarrier();
        var s = 0.0;
        for (var i = 0u; i < LANES; i++) { s += summands[(min(own_key, KEYS - 1u) * LANES + i) * HEADS + own_head]; }
{% endmacro %}
{% macro most() %}
{{ own_score("s") }}
        workgroupBarrier();
        if (li < 32u) {
            var most = LOWEST;
            for (var i = li; i < KEYS * HEADS; i += 32u) { most = max(most, scores[i]); }
            maxima[li] = most;
        }
{% endmacro %}
{% macro share() %}
{{ own_score("weight") }}
        workgroupBarrier();
        if (li < KEYS) { weights[li] = vec4<f32>(scores[li * 4u], scores[li * 4u + 1u], scores[li * 4u + 2u], scores[li * 4u + 3u]); }
{% endmacro %}
{% macro total() %}
    scores[li] = own_l;
    workgroupBarrier();
    if (li < 32u) {
        var l = 0.0;
        for (var i = li; i < THREADS; i += 32u) { l += scores[i]; }
        sums[li] = l;
    }
{% endmacro %}
