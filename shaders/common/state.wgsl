// What changes from pass to pass (Rust: crates/twins/src/state.rs). 192 bytes.
struct State {
    pos: u32,     // absolute position of row 0
    token: u32,   // the token to embed next, in decode
    done: u32,    // not 0: every kernel returns at once
    rows: u32,    // T, rows of this pass; 1 in decode
    step: u32,    // tokens sampled so far
    limit: u32,   // done is set when step reaches it
    slot: u32,    // of the sequence's state
    turn: u32,    // steps so far of those that may take several tokens
    apart: u32,   // 1: the rows are of several sequences, and `each` says where they are
    lag: u32,     // by how many positions, which rotate queries and keys, are fewer than slots of the cache
    kept: u32,    // rows of the step before this one that count, which recurrent states have yet to take over (common/kept.wgsl)
    side: u32,    // the half of what is kept of rows that this step writes to; those of the step before are in the other
    taken: u32,   // tokens that the step before this one has taken, of those that may take several
    r13: u32, r14: u32, r15: u32,
    each: array<vec4<u32>, {{ few_rows }}>,  // of a row: its position, its sequence's slot, the tokens that it may still sample, its lag
}
{% if state_access is not defined %}
@group(0) @binding(0) var<uniform> state: State;
{% endif %}
