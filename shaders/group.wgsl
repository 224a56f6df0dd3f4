// Slots (row t's u-th expert is slot t USED + u) in the order of the experts that `route` has chosen, each expert's in their own, and the tiles of at
// most TILE slots of one expert that products take: one workgroup an expert: grid [EXPERTS]. Each counts all slots, so that none waits for another.
{% include "common/state.wgsl" %}
@group(0) @binding(1) var<storage, read> chosen: array<vec2<u32>>;           // [T][USED]: expert, bits of its weight
@group(0) @binding(2) var<storage, read_write> order: array<u32>;            // [T USED]
@group(0) @binding(3) var<storage, read_write> tiles: array<vec4<u32>>;      // (expert, where in `order` its slots begin, how many, 0); none: zeros
override EXPERTS: u32;   // at most MOST
override USED: u32;
override TILE: u32;

const MOST = {{ max_experts }}u;
const THREADS = {{ workgroup }}u;
var<workgroup> counts: array<atomic<u32>, MOST>;
// Of the invocations up to each: slots and tiles of experts before this one, and this one's slots.
var<workgroup> sums: array<vec3<u32>, THREADS>;

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let expert = wid.x;
    let slots = state.rows * USED;
    // Workgroup memory begins as zeros.
    for (var slot = li; slot < slots; slot += THREADS) { atomicAdd(&counts[chosen[slot].x], 1u); }
    workgroupBarrier();
    var sum = vec3<u32>();
    for (var e = li; e < expert; e += THREADS) {
        let count = atomicLoad(&counts[e]);
        sum += vec3<u32>(count, (count + TILE - 1u) / TILE, 0u);
    }
    let each = (slots + THREADS - 1u) / THREADS;
    let begin = li * each;
    let end = min(begin + each, slots);
    for (var slot = begin; slot < end; slot++) { sum.z += select(0u, 1u, chosen[slot].x == expert); }
    sums[li] = sum;
    workgroupBarrier();
    for (var step = 1u; step < THREADS; step *= 2u) {
        var before = vec3<u32>();
        if (li >= step) { before = sums[li - step]; }
        workgroupBarrier();
        sums[li] += before;
        workgroupBarrier();
    }
    let all = sums[THREADS - 1u];
    var at = all.x + sums[li].z - sum.z;
    for (var slot = begin; slot < end; slot++) {
        if (chosen[slot].x == expert) {
            order[at] = slot;
            at++;
        }
    }
    let own = (all.z + TILE - 1u) / TILE;
    for (var i = li; i < own; i += THREADS) { tiles[all.y + i] = vec4<u32>(expert, all.x + i * TILE, min(TILE, all.z - i * TILE), 0u); }
    if (expert == EXPERTS - 1u) {
        for (var i = all.y + own + li; i < arrayLength(&tiles); i += THREADS) { tiles[i] = vec4<u32>(); }
    }
}
