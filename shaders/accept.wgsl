// Takes what was chosen after each row of a step: the first row's choice, and as long as a choice is the draft that the next row has read, the next
// row's. Writes them into the ring, whose slots have room for {{ few_rows }} tokens and the number of drafts, moves the state on and sets `done` as
// `advance` does. Grid [1]. A step of one row ends so, too, where others have more. Rows of several sequences each take their own choice, which is
// what they read next; `done` is set when all have ended.
{% set state_access = "read_write" %}
{% include "common/state.wgsl" %}
{% include "common/sampling.wgsl" %}
{% include "common/best.wgsl" %}

@group(0) @binding(0) var<storage, read_write> state: State;
@group(0) @binding(1) var<uniform> params: array<Sampling, {{ few_rows }}>;
@group(0) @binding(2) var<storage, read> cand: array<vec2<u32>>;        // [{{ few_rows }}][SLICES], from `pick`
@group(0) @binding(3) var<storage, read_write> tokens: array<u32>;      // [{{ few_rows }}], from `draft`
@group(0) @binding(4) var<storage, read_write> accepted: array<u32>;    // [ring_len][{{ few_rows + 1 }}]
@group(0) @binding(5) var<storage, read_write> text: array<u32>;        // [C]

const AFTER_END = {{ after_end }}u;        // in the ring: nothing was sampled here
const NOT_A_NUMBER = {{ not_a_number }}u;  // in the ring: there was no logit to choose from
const ROWS = {{ few_rows }}u;
var<workgroup> choices: array<u32, ROWS>;

// Whether a row's text ends with that token.
fn ends(ask: u32, token: u32) -> bool {
    for (var i = 0u; i < min(params[ask].n_stop, {{ max_stop }}u); i++) {
        if (params[ask].stop[i / 4u][i % 4u] == token) { return true; }
    }
    return false;
}

@compute @workgroup_size({{ slices }})
fn main(@builtin(local_invocation_index) li: u32) {
    for (var t = 0u; t < ROWS; t++) {
        let best = best_of(cand[t * {{ slices }}u + li], li);
        if (li == 0u) { choices[t] = best.y; }
    }
    if (li != 0u) { return; }
    let slot = state.turn % max(params[0].ring_len, 1u) * (ROWS + 1u);
    state.turn += 1u;
    for (var t = 0u; t < ROWS; t++) { accepted[slot + t] = AFTER_END; }
    accepted[slot + ROWS] = 0u;
    if (state.done != 0u) { return; }
    let rows = min(state.rows, ROWS);
    if (state.apart != 0u) {
        var left = 0u;
        for (var t = 0u; t < rows; t++) {
            if (state.each[t].z == 0u) { continue; }
            let token = choices[t];
            accepted[slot + t] = select(token, NOT_A_NUMBER, token == NO_TOKEN);
            state.each[t].x += 1u;
            state.each[t].z -= 1u;
            if (token == NO_TOKEN || ends(t, token)) { state.each[t].z = 0u; }
            if (token != NO_TOKEN) { tokens[t] = token; }
            left |= state.each[t].z;
        }
        if (left == 0u) { state.done = 1u; }
        return;
    }
    accepted[slot + ROWS] = rows - 1u;
    // What recurrent layers have kept of the rows is in the other half from now on; one row alone they have taken over.
    let first = state.pos;
    state.side = 1u - min(state.side, 1u);
    for (var t = 0u; t < rows; t++) {
        let token = choices[t];
        // No candidate had a number for a logit.
        if (token == NO_TOKEN) {
            accepted[slot + t] = NOT_A_NUMBER;
            state.done = 1u;
            break;
        }
        accepted[slot + t] = token;
        state.token = token;
        state.pos += 1u;
        state.step += 1u;
        if (state.pos < arrayLength(&text)) { text[state.pos] = token; }
        let done = state.step >= state.limit || ends(0u, token);
        if (done) { state.done = 1u; }
        if (done || t + 1u >= rows || tokens[min(t + 1u, ROWS - 1u)] != token) { break; }
    }
    state.taken = state.pos - first;
    state.kept = select(0u, state.taken, rows > 1u);
    state.rows = 1u;
}
