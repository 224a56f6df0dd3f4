// Fills `words` with bits of a hash of their place, for weights that need no download: (hash & keep) | fixed. {{ streamed }} words an invocation.
{% include "common/state.wgsl" %}
struct Fill {
    seed: u32,
    keep: u32,   // bits that are random
    fixed: u32,  // bits that are always there: an exponent
    unused: u32,
}
@group(0) @binding(1) var<uniform> params: Fill;
@group(0) @binding(2) var<storage, read_write> words: array<u32>;

fn mix(v: u32) -> u32 {
    var x = (v ^ (v >> 16u)) * 0x7feb352du;
    x = (x ^ (x >> 15u)) * 0x846ca68bu;
    return x ^ (x >> 16u);
}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let first = (wid.x + wid.y * grid.x) * {{ workgroup * streamed }}u + li;
    for (var i = 0u; i < {{ streamed }}u; i++) {
        let at = first + i * {{ workgroup }}u;
        if (at < arrayLength(&words)) { words[at] = (mix(at + params.seed) & params.keep) | params.fixed; }
    }
}
