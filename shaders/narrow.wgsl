// Ends a round of the search for a threshold (common/search.wgsl): finds the eight bits at which the tokens, from the highest key on, weigh enough
// together. Grid [1].
{% include "common/state.wgsl" %}
{% include "common/sampling.wgsl" %}
{% include "common/u64.wgsl" %}
override V: u32;  // logits
{% include "common/beside.wgsl" %}

@group(0) @binding(1) var<uniform> params: array<Sampling, {{ few_rows }}>;
@group(0) @binding(2) var<storage, read> tallies: array<vec2<u32>>;  // [T][SLICES, BINS], from `tally`
@group(0) @binding(3) var<storage, read_write> searches: array<Search>;   // [T]
{% include "common/search.wgsl" %}

const BINS = {{ bins }}u;

var<workgroup> at_least: array<vec2<u32>, BINS>;  // weight of this bin and all above
var<workgroup> found: Search;

@compute @workgroup_size({{ bins }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    let row = BESIDE * wid.y;
    if (rests(row)) { return; }
    let ask = asks(row);
    if (params[ask].temperature == 0.0) { return; }
    if (li == 0u) { found = searches[row]; }
    var sum = vec2<u32>(0u);
    for (var w = 0u; w < {{ slices }}u; w++) { sum = add64(sum, tallies[(row * {{ slices }}u + w) * BINS + li]); }
    at_least[li] = sum;
    workgroupBarrier();
    for (var distance = 1u; distance < BINS; distance *= 2u) {
        var further = vec2<u32>(0u);
        if (li + distance < BINS) { further = at_least[li + distance]; }
        workgroupBarrier();
        sum = add64(sum, further);
        at_least[li] = sum;
        workgroupBarrier();
    }
    var next = found;
    if (next.round >= rounds(ask)) { return; }
    if ((next.round & 3u) == 0u) {
        // All tokens have the empty prefix.
        let whole = at_least[0];
        next.missing = vec2<u32>(min(params[ask].top_k, whole.x), 0u);
        if (by_mass(ask, next.round)) { next.missing = part_of64(whole, u32(params[ask].top_p * 4294967296.0)); }
        // At least the likeliest token, however small the share.
        if (all(next.missing == vec2<u32>(0u)) && any(whole != vec2<u32>(0u))) { next.missing.x = 1u; }
        next.prefix = 0u;
    }
    var beyond = vec2<u32>(0u);
    if (li < BINS - 1u) { beyond = at_least[li + 1u]; }
    let nothing = all(next.missing == vec2<u32>(0u));  // all logits are NaN
    let here = !less64(sum, next.missing) && less64(beyond, next.missing);
    if (!(here || (nothing && li == 0u))) { return; }
    next.prefix = (next.prefix << 8u) | li;
    if (here) { next.missing = sub64(next.missing, beyond); }
    next.round += 1u;
    if ((next.round & 3u) == 0u) { next.floor_key = max(next.floor_key, next.prefix); }
    searches[row] = next;
}
