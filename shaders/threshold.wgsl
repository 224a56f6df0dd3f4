// The smallest key (common/ordered.wgsl) of a logit that survives top-k, top-p and min-p: thr = (that key, the key of the largest logit). Key 0 keeps
// every token. Grid [1]. It makes the search ready for the next step.
{% include "common/state.wgsl" %}
{% include "common/sampling.wgsl" %}
{% include "common/ordered.wgsl" %}
override V: u32;  // logits

@group(0) @binding(1) var<uniform> params: Sampling;
@group(0) @binding(2) var<storage, read> part: array<f32>;       // [SLICES], maxima from `logit_stats`
@group(0) @binding(3) var<storage, read_write> search: Search;
@group(0) @binding(4) var<storage, read_write> thr: array<u32>;  // [4]: threshold, key of the maximum, 0, 0
{% include "common/search.wgsl" %}

var<workgroup> top: atomic<u32>;

@compute @workgroup_size({{ slices }})
fn main(@builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    if (params.temperature == 0.0) {
        if (li < 4u) { thr[li] = 0u; }
        return;
    }
    atomicMax(&top, ordered(part[li]));
    workgroupBarrier();
    if (li != 0u) { return; }
    let top_key = atomicLoad(&top);
    var key = 0u;
    if (rounds() != 0u) { key = search.floor_key; }
    if (params.min_p > 0.0) {
        // Probability >= min_p * the largest: a bound on the logit. The likeliest token itself always survives.
        let bound = unordered(top_key) + params.temperature * log(params.min_p);
        key = max(key, min(ordered(bound), top_key));
    }
    thr[0] = key;
    thr[1] = top_key;
    thr[2] = 0u;
    thr[3] = 0u;
    search = Search();
}
