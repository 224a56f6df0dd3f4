// The smallest key (common/ordered.wgsl) of a logit that survives top-k, then top-p, then min-p: thr = (that key, the key
// of the largest logit). Key 0 keeps every token. One workgroup; the order of the steps is said in src/sample/mod.rs.
//
// Top-k and top-p are one question: the largest key such that the tokens at or above it weigh enough together, where a
// token weighs 1 or its probability mass. A radix select answers it in four passes of eight bits. Masses are integers,
// units of 2^-31 of the likeliest token's, summed in 64 bits: the sum, and so the answer, does not depend on the order in which
// lanes arrive.
{% include "common/state.wgsl" %}
{% include "common/sampling.wgsl" %}
{% include "common/ordered.wgsl" %}
{% include "common/u64.wgsl" %}
override V: u32;  // logits

@group(0) @binding(1) var<uniform> params: Sampling;
@group(0) @binding(2) var<storage, read> logits: array<f32>;     // [V]
@group(0) @binding(3) var<storage, read> part: array<f32>;       // [64], maxima from `logit_stats`
@group(0) @binding(4) var<storage, read_write> thr: array<u32>;  // [4]: threshold, key of the maximum, 0, 0

const THREADS = 256u;
// Neighbouring lanes add to different copies of a bin: logits crowd into few bins.
const COPIES = 4u;

var<workgroup> top: atomic<u32>;
var<workgroup> low: array<atomic<u32>, 1024>;   // [bin][COPIES]
var<workgroup> high: array<atomic<u32>, 1024>;  // [bin][COPIES]: how often `low` overflowed
var<workgroup> at_least: array<vec2<u32>, 256>; // weight of this bin and all above
var<workgroup> chosen: u32;                     // the bin in which the answer lies
var<workgroup> above: vec2<u32>;                // weight of all bins above it

// What a token weighs, at most 2^31.
fn mass(x: f32, key: u32, top_key: u32) -> u32 {
    if (key >= top_key) { return 0x80000000u; }
    return u32(min(exp((x - unordered(top_key)) / params.temperature), 1.0) * 2147483648.0 + 0.5);
}

fn count(li: u32, x: f32, floor_key: u32, prefix: u32, shift: u32, by_mass: bool, top_key: u32) {
    let key = ordered(x);
    // A shift by 32 would be a shift by 0.
    let in_prefix = shift == 24u || (key >> (shift + 8u)) == prefix;
    if (key < floor_key || !in_prefix) { return; }
    let bin = ((key >> shift) & 255u) * COPIES + li % COPIES;
    var weight = 1u;
    if (by_mass) { weight = mass(x, key, top_key); }
    let before = atomicAdd(&low[bin], weight);
    if (before + weight < before) { atomicAdd(&high[bin], 1u); }
}

// The largest key such that the tokens from it up, among those of at least floor_key, weigh `wanted` tokens or (by_mass)
// `wanted` * 2^-32 of the whole.
fn smallest_kept(li: u32, floor_key: u32, wanted: u32, by_mass: bool, top_key: u32) -> u32 {
    var prefix = 0u;
    var missing = vec2<u32>(0u);
    for (var shift = 24i; shift >= 0i; shift -= 8i) {
        for (var i = li; i < 256u * COPIES; i += THREADS) {
            atomicStore(&low[i], 0u);
            atomicStore(&high[i], 0u);
        }
        if (li == 0u) {
            chosen = 0u;
            above = vec2<u32>(0u);
        }
        workgroupBarrier();
        for (var i = li; i < V; i += 4u * THREADS) {
            // Four loads under way at once.
{% for j in range(4) %}
            let x{{ j }} = logits[min(i + {{ j }}u * THREADS, V - 1u)];
{% endfor %}
{% for j in range(4) %}
            if (i + {{ j }}u * THREADS < V) { count(li, x{{ j }}, floor_key, prefix, u32(shift), by_mass, top_key); }
{% endfor %}
        }
        workgroupBarrier();
        var sum = vec2<u32>(0u);
        for (var c = 0u; c < COPIES; c++) {
            let bin = li * COPIES + c;
            sum = add64(sum, vec2<u32>(atomicLoad(&low[bin]), atomicLoad(&high[bin])));
        }
        at_least[li] = sum;
        workgroupBarrier();
        for (var distance = 1u; distance < 256u; distance *= 2u) {
            var further = vec2<u32>(0u);
            if (li + distance < 256u) { further = at_least[li + distance]; }
            workgroupBarrier();
            sum = add64(sum, further);
            at_least[li] = sum;
            workgroupBarrier();
        }
        if (shift == 24i) {
            let whole = at_least[0];
            if (by_mass) {
                missing = part_of64(whole, wanted);
            } else {
                missing = vec2<u32>(min(wanted, whole.x), 0u);
            }
            // At least the likeliest token, however small the share.
            missing = select(missing, vec2<u32>(1u, 0u), all(missing == vec2<u32>(0u)) && any(whole != vec2<u32>(0u)));
        }
        var beyond = vec2<u32>(0u);
        if (li < 255u) { beyond = at_least[li + 1u]; }
        if (!less64(sum, missing) && less64(beyond, missing)) {
            chosen = li;
            above = beyond;
        }
        workgroupBarrier();
        prefix = (prefix << 8u) | chosen;
        missing = sub64(missing, above);
        // `chosen` and the bins are written again in the next pass.
        workgroupBarrier();
    }
    return prefix;
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    if (params.temperature == 0.0) {
        if (li < 4u) { thr[li] = 0u; }
        return;
    }
    if (li < 64u) { atomicMax(&top, ordered(part[li])); }
    workgroupBarrier();
    let top_key = atomicLoad(&top);

    // Key 0 is NaN, which counts nowhere.
    var key = 0u;
    if (params.top_k > 0u && params.top_k < V) {
        key = smallest_kept(li, 1u, params.top_k, false, top_key);
    }
    if (params.top_p < 1.0) {
        key = max(key, smallest_kept(li, max(key, 1u), u32(params.top_p * 4294967296.0), true, top_key));
    }
    if (params.min_p > 0.0) {
        // Probability >= min_p * the largest: a bound on the logit. The likeliest token itself always survives.
        let bound = unordered(top_key) + params.temperature * log(params.min_p);
        key = max(key, min(ordered(bound), top_key));
    }
    if (li == 0u) {
        thr[0] = key;
        thr[1] = top_key;
        thr[2] = 0u;
        thr[3] = 0u;
    }
}
