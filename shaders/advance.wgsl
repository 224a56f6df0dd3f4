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

// What `constrain` has let through needs no more checks; whatever leaves the language all the same ends in state 0, from where nothing goes on.
fn follow(token: vec4<u32>) {
    let length = token.y & 255u;
    var word = token.x;
    for (var i = 0u; i < length; i++) {
        if (i > 3u && (i & 3u) == 0u) { word = token_bytes[(token.y >> 8u) + (i >> 2u)]; }
        let entry = entry_of(walk[0], word & 255u);
        word >>= 8u;
        let kind = entry >> 30u;
        let depth = walk[1];
        walk[3] = select(0u, walk[3] + 1u, kind == {{ entry_space }}u);
        walk[0] = entry & 0xffffu;
        if (kind == {{ entry_push }}u && depth < MAX_STACK) {
            walk[FRAMES + 2u * depth] = (entry >> 16u) & 0x3fffu;
            walk[FRAMES + 2u * depth + 1u] = walk[2];
            walk[1] = depth + 1u;
            walk[2] = 0u;
        } else if (kind == {{ entry_pop }}u && depth > 0u) {
            walk[0] = after_symbol(walk[FRAMES + 2u * (depth - 1u)], entry & 0xffffu);
            walk[2] = walk[FRAMES + 2u * (depth - 1u) + 1u];
            walk[1] = depth - 1u;
        } else if (kind == {{ entry_plain }}u && (entry & {{ entry_count }}u) != 0u) {
            walk[2] += 1u;
        }
    }
}
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
    if (vocabulary[token].w == 0u) { follow(vocabulary[token]); }
{% endif %}
}
