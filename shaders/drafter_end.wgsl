// Begins a step of several rows with the tokens that a draft model has sampled after the token that is read next. Grid [1].
{% set state_access = "read_write" %}
{% include "common/state.wgsl" %}
override T: u32;   // rows of the step, at most {{ few_rows }}
override V: u32;   // ids that the model has rows for

@group(0) @binding(0) var<storage, read_write> state: State;
@group(0) @binding(1) var<storage, read> ring: array<u32>;          // [>= T - 1]: the drafts
@group(0) @binding(2) var<storage, read_write> tokens: array<u32>;  // [{{ few_rows }}]: the token that is read next, and the drafts

@compute @workgroup_size(1)
fn main() {
    if (state.done != 0u) { return; }
    tokens[0] = state.token;
    // No more than may still be sampled: no row is beyond what there is room for.
    let most = min(T, max(state.limit - min(state.step, state.limit), 1u));
    var rows = 1u;
    for (; rows < most; rows++) {
        let draft = ring[rows - 1u];
        // The draft model found no token to choose, or one that the model does not have.
        if (draft >= V) { break; }
        tokens[rows] = draft;
    }
    state.rows = rows;
}
