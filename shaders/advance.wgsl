// Takes the best of the candidates as the next token, appends it to the ring, moves the state on and sets `done` at a
// stop token or at the limit. Grid [1]. After the end it marks the ring's slots as empty, so that a readback of a fixed number
// of slots needs nothing else. `walk`: it also takes the token's way through the grammar.
{% set state_access = "read_write" %}
{% include "common/state.wgsl" %}
{% include "common/sampling.wgsl" %}
{% include "common/best.wgsl" %}

@group(0) @binding(0) var<storage, read_write> state: State;
@group(0) @binding(1) var<uniform> params: array<Sampling, {{ few_rows }}>;
@group(0) @binding(2) var<storage, read> cand: array<vec2<u32>>;  // [SLICES], from `pick`
@group(0) @binding(3) var<storage, read_write> ring: array<u32>;  // [ring_len]
{% if grammar == "walk" %}
@group(0) @binding(4) var<storage, read> automaton: array<u32>;
@group(0) @binding(5) var<storage, read_write> walk: array<u32>;
@group(0) @binding(6) var<storage, read> vocabulary: array<vec4<u32>>;  // [V], as `constrain` has it
@group(0) @binding(7) var<storage, read> token_bytes: array<u32>;

{% include "common/grammar.wgsl" %}

{% include "common/follow.wgsl" %}
{% endif %}

const AFTER_END = {{ after_end }}u;     // in the ring: nothing was sampled in this step
const NOT_A_NUMBER = {{ not_a_number }}u;  // in the ring: there was no logit to choose from

@compute @workgroup_size({{ slices }})
fn main(@builtin(local_invocation_index) li: u32) {
    let token = best_of(cand[li], li).y;
    if (li != 0u) { return; }

    let slot = state.step % max(params[0].ring_len, 1u);
    state.step += 1u;
    if (state.done != 0u) {
        ring[slot] = AFTER_END;
        return;
    }
    // No candidate had a number for a logit.
    if (token == NO_TOKEN) {
        ring[slot] = NOT_A_NUMBER;
        state.done = 1u;
        return;
    }
    ring[slot] = token;
    state.token = token;
    state.pos += state.rows;
    state.rows = 1u;
    var done = state.step >= state.limit;
    for (var i = 0u; i < min(params[0].n_stop, {{ max_stop }}u); i++) {
        if (params[0].stop[i / 4u][i % 4u] == token) { done = true; }
    }
    if (done) { state.done = 1u; }
{% if grammar == "walk" %}
    if (has_grammar(0u) && vocabulary[token].w == 0u) { follow(vocabulary[token]); }
{% endif %}
}
