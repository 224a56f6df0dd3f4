// Takes each row's chosen token its way through the row's grammar, before `accept` moves the state on. Grid [1, T]. Rows without a grammar stay as they are.
{% include "common/state.wgsl" %}
{% include "common/best.wgsl" %}
{% include "common/beside.wgsl" %}

@group(0) @binding(1) var<storage, read> cand: array<vec2<u32>>;        // [T][SLICES], from `pick`
@group(0) @binding(2) var<storage, read> automaton: array<u32>;
@group(0) @binding(3) var<storage, read_write> walk: array<u32>;
@group(0) @binding(4) var<storage, read> vocabulary: array<vec4<u32>>;  // [V], as `constrain` has it
@group(0) @binding(5) var<storage, read> token_bytes: array<u32>;

{% include "common/grammar.wgsl" %}
{% include "common/follow.wgsl" %}

@compute @workgroup_size({{ slices }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    let row = BESIDE * wid.y;
    if (rests(row)) { return; }
    let token = best_of(cand[row * {{ slices }}u + li], li).y;
    if (li != 0u || token == NO_TOKEN || !has_grammar(row)) { return; }
    if (vocabulary[token].w == 0u) { follow(vocabulary[token]); }
}
