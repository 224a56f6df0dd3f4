// Sets a draft model's decode state to where the next step of the model begins: at its token and position, or at its end. Grid [1].
{% include "common/state.wgsl" %}

@group(0) @binding(1) var<storage, read_write> drafter: array<u32>;  // the draft model's state, words as in `State`

@compute @workgroup_size(1)
fn main() {
    drafter[0] = state.pos;
    drafter[1] = state.token;
    drafter[2] = state.done;
    drafter[3] = 1u;   // rows
    drafter[4] = 0u;   // step: drafts are in the ring from its beginning on
}
