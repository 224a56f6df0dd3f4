// Drafts the tokens after the one that is read next, and begins a step of several rows with them: they are what came after the latest place where
// the text's last four tokens (or three, or two) stood before. Where that place is near, what follows it is repeated. Grid [1].
{% set state_access = "read_write" %}
{% include "common/state.wgsl" %}
override T: u32;   // rows of the step

@group(0) @binding(0) var<storage, read_write> state: State;
@group(0) @binding(1) var<storage, read> text: array<u32>;          // [C], up to and with the token that is read next, at state.pos
@group(0) @binding(2) var<storage, read_write> tokens: array<u32>;  // [{{ few_rows }}]: the token that is read next, and the drafts

var<workgroup> found: atomic<u32>;   // (tokens that are the same) << 28 | where the last of them stands

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(local_invocation_index) li: u32) {
    let pos = min(state.pos, arrayLength(&text) - 1u);
    let live = state.done == 0u && T > 1u;
    let a = text[pos];
    let b = text[max(pos, 1u) - 1u];
    let c = text[max(pos, 2u) - 2u];
    let d = text[max(pos, 3u) - 3u];
    for (var e = li + 1u; live && e < pos; e += {{ workgroup }}u) {
        if (text[e] != a || text[e - 1u] != b) { continue; }
        var same = 2u;
        if (e > 1u && text[max(e, 2u) - 2u] == c) {
            same = 3u;
            if (e > 2u && text[max(e, 3u) - 3u] == d) { same = 4u; }
        }
        atomicMax(&found, (same << 28u) | e);
    }
    workgroupBarrier();
    if (li != 0u || state.done != 0u) { return; }
    let best = atomicLoad(&found);
    tokens[0] = state.token;
    var rows = 1u;
    if (best != 0u) {
        let place = best & 0xfffffffu;
        let period = pos - place;
        // No more than may still be sampled: no row is beyond what there is room for.
        rows = min(T, max(state.limit - min(state.step, state.limit), 1u));
        for (var i = 1u; i < rows; i++) { tokens[i] = text[place + 1u + (i - 1u) % period]; }
    }
    state.rows = rows;
}
