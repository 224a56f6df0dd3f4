// The smallest key (common/ordered.wgsl) of a logit that survives top-k, top-p and min-p: thr = (that key, the key of the largest logit). Key 0 keeps
// every token. Grid [1]. It makes the search ready for the next step.
{% include "common/state.wgsl" %}
{% include "common/sampling.wgsl" %}
{% include "common/ordered.wgsl" %}
override V: u32;  // logits
{% include "common/beside.wgsl" %}

@group(0) @binding(1) var<uniform> params: array<Sampling, {{ few_rows }}>;
@group(0) @binding(2) var<storage, read> part: array<f32>;       // [T][SLICES], maxima from `logit_stats`
@group(0) @binding(3) var<storage, read_write> searches: array<Search>;   // [T]
@group(0) @binding(4) var<storage, read_write> thr: array<u32>;  // [T][4]: threshold, key of the maximum, 0, 0
{% include "common/search.wgsl" %}

var<workgroup> top: atomic<u32>;

@compute @workgroup_size({{ slices }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    let row = BESIDE * wid.y;
    if (rests(row)) { return; }
    let ask = asks(row);
    if (params[ask].temperature == 0.0) {
        if (li < 4u) { thr[row * 4u + li] = 0u; }
        return;
    }
    atomicMax(&top, ordered(part[row * {{ slices }}u + li]));
    workgroupBarrier();
    if (li != 0u) { return; }
    let top_key = atomicLoad(&top);
    var key = 0u;
    if (rounds(ask) != 0u) { key = searches[row].floor_key; }
    if (params[ask].min_p > 0.0) {
        // Probability >= min_p * the largest: a bound on the logit. The likeliest token itself always survives.
        let bound = unordered(top_key) + params[ask].temperature * log(params[ask].min_p);
        key = max(key, min(ordered(bound), top_key));
    }
    thr[row * 4u] = key;
    thr[row * 4u + 1u] = top_key;
    thr[row * 4u + 2u] = 0u;
    thr[row * 4u + 3u] = 0u;
    searches[row] = Search();
}
