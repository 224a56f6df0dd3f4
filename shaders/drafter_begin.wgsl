// Sets a draft model's decode state to where the next step of the model begins: at its token and position, or at its end. Of what its steps before
// the last step of the model have kept as many rows count as that step has taken tokens; of the first step of a chunk none. Grid [1].
{% include "common/state.wgsl" %}

@group(0) @binding(1) var<storage, read_write> drafter: array<u32>;  // the draft model's state, words as in `State`

@compute @workgroup_size(1)
fn main() {
    // Behind an end none of its steps runs: what they have kept is taken over once.
    if (drafter[2] == 0u) {
        drafter[10] = select(0u, state.taken, drafter[7] != 0u);   // kept
        drafter[11] = 1u - min(drafter[11], 1u);                   // side
    }
    drafter[0] = state.pos;
    drafter[1] = state.token;
    drafter[2] = state.done;
    drafter[3] = 1u;   // rows
    drafter[4] = 0u;   // step: drafts are in the ring from its beginning on
    drafter[7] = 1u;   // turn
}
