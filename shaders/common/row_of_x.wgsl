{# Block i of row t of the activations of a product of several rows, as xa, xb and xd. #}
{% if normed %}
            let xa = vec4<u32>(nq[{{ t * 4 }}u * ROOM + i], nq[{{ t * 4 + 1 }}u * ROOM + i]);
            let xb = vec4<u32>(nq[{{ t * 4 + 2 }}u * ROOM + i], nq[{{ t * 4 + 3 }}u * ROOM + i]);
            let xd = ns[{{ t }}u * ROOM + i];
{% else %}
            let xa = xq[(x{{ t }} + i) * 2u];
            let xb = xq[(x{{ t }} + i) * 2u + 1u];
            let xd = xs[x{{ t }} + i];
{% endif %}
