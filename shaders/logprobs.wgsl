// What log probabilities are made of: the largest logit among the tokens that each workgroup looks at, the sum of exp(logit - largest), and the
// likeliest of these tokens, as many as are wanted, best first. Grid [SLICES, T]. NaN counts nowhere.
{% set sum = "f32" %}
{% set reduce = "wg" %}
{% include "common/state.wgsl" %}
{% include "common/sampling.wgsl" %}
{% include "common/ordered.wgsl" %}
{% include "common/best.wgsl" %}
{% include "common/reduce.wgsl" %}
override V: u32;  // logits
override PADDING: u32 = 0u;  // behind those of each row, of no token
{% include "common/beside.wgsl" %}

@group(0) @binding(1) var<uniform> params: array<Sampling, {{ few_rows }}>;
@group(0) @binding(2) var<storage, read> raw: array<f32>;               // [T][V + PADDING], from `penalize`
@group(0) @binding(3) var<storage, read_write> sums: array<vec2<u32>>;  // [T][SLICES] (key of the largest, f32 sum)
@group(0) @binding(4) var<storage, read_write> tops: array<vec2<u32>>;  // [T][SLICES, {{ max_top_logprobs }}] (key, token id); after the last (0, NO_TOKEN)

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    let row = BESIDE * wid.y;
    if (rests(row)) { return; }
    let begin = row * (V + PADDING);
    let slice = row * {{ slices }}u + wid.x;
    let first = wid.x * {{ workgroup }}u + li;
    let step = grid.x * {{ workgroup }}u;
    var top = 0u;
    for (var i = first; i < V; i += step) { top = max(top, ordered(raw[begin + i])); }
    let largest = best_of(vec2<u32>(top, 0u), li).x;
    var total = 0.0;
    for (var i = first; i < V; i += step) {
        let key = ordered(raw[begin + i]);
        // Relative to the largest, which may be infinite.
        if (key != 0u) { total += select(exp(raw[begin + i] - unordered(largest)), 1.0, key == largest); }
    }
    total = workgroup_sum(total, li);
    if (li == 0u) { sums[slice] = vec2<u32>(largest, bitcast<u32>(total)); }

    // The best of those that come after the last.
    var last = vec2<u32>(0xffffffffu, 0u);
    for (var n = 0u; n < min(params[asks(row)].top_logprobs, {{ max_top_logprobs }}u); n++) {
        var mine = vec2<u32>(0u, NO_TOKEN);
        for (var i = first; i < V; i += step) {
            let key = ordered(raw[begin + i]);
            let after = key < last.x || (key == last.x && i > last.y);
            // Ids ascend, so the first of equals stays.
            if (after && key > mine.x) { mine = vec2<u32>(key, i); }
        }
        last = best_of(mine, li);
        if (li == 0u) { tops[slice * {{ max_top_logprobs }}u + n] = last; }
    }
}
