// The smallest key (common/ordered.wgsl) of a logit that survives top-k, then top-p, then min-p: thr = (that key, the key
// of the largest logit). Key 0 keeps every token. One workgroup; the order of the steps is said in src/sample/mod.rs.
//
// Top-k and top-p are one question: the largest key such that the tokens at or above it weigh enough together, where a
// token weighs 1 or its probability mass. First all tokens go into 256 bins by their distance from the maximum. Those of
// the bin in which the answer lies, usually few, are listed, and a radix select finds the key among them in four passes of
// eight bits. Masses are integers, units of 2^-31 of the likeliest token's, summed in 64 bits: the sums, and so the answer,
// do not depend on the order in which invocations arrive.
{% include "common/state.wgsl" %}
{% include "common/sampling.wgsl" %}
{% include "common/ordered.wgsl" %}
{% include "common/u64.wgsl" %}
override V: u32;  // logits

@group(0) @binding(1) var<uniform> params: Sampling;
@group(0) @binding(2) var<storage, read> logits: array<vec4<f32>>;  // [ceil(V/4)]
@group(0) @binding(3) var<storage, read> part: array<f32>;       // [64], maxima from `logit_stats`
@group(0) @binding(4) var<storage, read_write> thr: array<u32>;  // [4]: threshold, key of the maximum, 0, 0

const THREADS = 256u;
const BINS = 256u;
// Neighbouring invocations add to different copies of a bin: logits crowd into few bins.
const COPIES = 4u;
const LISTED = 1024u;
// Bins a unit of logit: the last bin takes everything 32 units or more below the maximum.
const FINENESS = 8.0;

// What to do with a token.
const BIN = 0u;    // add its weight to the bin of its distance
const LIST = 1u;   // list it, if it is in the chosen bin
const DIGIT = 2u;  // add its weight to the bin of its key's digit, if it is in the chosen bin and has the prefix

var<workgroup> top: atomic<u32>;
var<workgroup> low: array<atomic<u32>, BINS * COPIES>;   // [BINS][COPIES]
var<workgroup> high: array<atomic<u32>, BINS * COPIES>;  // [BINS][COPIES]: how often `low` overflowed
var<workgroup> at_least: array<vec2<u32>, BINS>;         // weight of this bin and all above
var<workgroup> chosen: u32;                              // the bin in which the answer lies
var<workgroup> above: vec2<u32>;                         // weight of all bins above it
var<workgroup> listed: atomic<u32>;                      // tokens of the chosen bin; not all of them fit where it exceeds LISTED
var<workgroup> list: array<u32, LISTED>;                 // their keys

struct Search {
    floor_key: u32,  // tokens below it do not count; never 0, which is NaN
    top_key: u32,    // of the largest logit
    by_mass: bool,   // weights are masses
    bin: u32,        // chosen by distance
    shift: u32,      // of the digit
    prefix: u32,     // of keys, above the digit
}

// 255 for the largest logit, less below. Every operation is monotone, so bins order as keys do. Halves, so that no difference
// of finite numbers overflows; infinities are left out of the arithmetic.
fn distance_bin(key: u32, top_key: u32) -> u32 {
    if (key >= top_key) { return BINS - 1u; }
    if (key < 0x00800000u || top_key > 0xff7fffffu) { return 0u; }
    let half = min(unordered(top_key) * 0.5 - unordered(key) * 0.5, 127.5 / FINENESS);
    return BINS - 1u - u32(half * 2.0 * FINENESS);
}

// What a token weighs, at most 2^31.
fn weight(key: u32, search: Search) -> u32 {
    if (!search.by_mass) { return 1u; }
    if (key >= search.top_key) { return 0x80000000u; }
    return u32(min(exp((unordered(key) - unordered(search.top_key)) / params.temperature), 1.0) * 2147483648.0 + 0.5);
}

fn add(li: u32, bin: u32, key: u32, search: Search) {
    let slot = bin * COPIES + li % COPIES;
    let more = weight(key, search);
    let before = atomicAdd(&low[slot], more);
    if (before + more < before) { atomicAdd(&high[slot], 1u); }
}

fn visit(li: u32, key: u32, what: u32, search: Search) {
    if (key < search.floor_key) { return; }
    let bin = distance_bin(key, search.top_key);
    if (what == BIN) {
        add(li, bin, key, search);
        return;
    }
    if (bin != search.bin) { return; }
    if (what == LIST) {
        let i = atomicAdd(&listed, 1u);
        if (i < LISTED) { list[i] = key; }
        return;
    }
    // A shift by 32 would be a shift by 0.
    if (search.shift == 24u || (key >> (search.shift + 8u)) == search.prefix) { add(li, (key >> search.shift) & 255u, key, search); }
}

// `ordered` of four numbers at once.
fn ordered4(x: vec4<f32>) -> vec4<u32> {
    let bits = bitcast<vec4<u32>>(x);
    let magnitude = bits & vec4<u32>(0x7fffffffu);
    var keys = select(bits | vec4<u32>(0x80000000u), ~bits, (bits >> vec4<u32>(31u)) != vec4<u32>(0u));
    keys = select(keys, vec4<u32>(0x80000000u), magnitude == vec4<u32>(0u));
    return select(keys, vec4<u32>(0u), magnitude > vec4<u32>(0x7f800000u));
}

// The keys of logits 4i..4i+3; 0, which counts nowhere, beyond the last.
fn keys_at(i: u32) -> vec4<u32> {
    let keys = ordered4(logits[min(i, (V - 1u) / 4u)]);
    return select(vec4<u32>(0u), keys, vec4<u32>(4u * i) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(V));
}

fn visit_all(li: u32, what: u32, search: Search) {
    for (var i = li; 4u * i < V; i += 4u * THREADS) {
        // All four loads are under way before the first is waited for.
        var keys = array<vec4<u32>, 4>(keys_at(i), keys_at(i + THREADS), keys_at(i + 2u * THREADS), keys_at(i + 3u * THREADS));
        // A loop, not sixteen copies: drivers inline everything, and this kernel was the slowest of all to compile.
        for (var n = 0u; n < 16u; n++) { visit(li, keys[n / 4u][n % 4u], what, search); }
    }
}

fn clear(li: u32) {
    for (var i = li; i < BINS * COPIES; i += THREADS) {
        atomicStore(&low[i], 0u);
        atomicStore(&high[i], 0u);
    }
    if (li == 0u) {
        chosen = 0u;
        above = vec2<u32>(0u);
    }
    workgroupBarrier();
}

// at_least, from the bins.
fn accumulate(li: u32) {
    workgroupBarrier();
    var sum = vec2<u32>(0u);
    for (var c = 0u; c < COPIES; c++) {
        let slot = li * COPIES + c;
        sum = add64(sum, vec2<u32>(atomicLoad(&low[slot]), atomicLoad(&high[slot])));
    }
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
}

// The bin in which the weight from the top reaches `missing` goes to `chosen`, the weight above it to `above`.
fn choose(li: u32, missing: vec2<u32>) {
    var beyond = vec2<u32>(0u);
    if (li < BINS - 1u) { beyond = at_least[li + 1u]; }
    if (!less64(at_least[li], missing) && less64(beyond, missing)) {
        chosen = li;
        above = beyond;
    }
    workgroupBarrier();
}

// The largest key such that the tokens from it up, among those of at least floor_key, weigh `wanted` tokens or (by_mass)
// `wanted` * 2^-32 of the whole.
fn smallest_kept(li: u32, floor_key: u32, wanted: u32, by_mass: bool, top_key: u32) -> u32 {
    var search = Search(floor_key, top_key, by_mass, 0u, 0u, 0u);
    var missing = vec2<u32>(0u);
    var count = 0u;
    // Bins, the list, then the four digits: one loop, so that its barriers and inlined functions stand in the code once.
    for (var stage = 0u; stage < 6u; stage++) {
        clear(li);
        if (stage == 0u && li == 0u) { atomicStore(&listed, 0u); }
        if (stage >= 2u) { search.shift = 40u - 8u * stage; }
        if (stage >= 2u && count <= LISTED) {
            for (var i = li; i < count; i += THREADS) { visit(li, list[i], DIGIT, search); }
        } else {
            visit_all(li, min(stage, DIGIT), search);
        }
        accumulate(li);
        if (stage == 1u) {
            count = atomicLoad(&listed);
            continue;
        }
        if (stage == 0u) {
            let whole = at_least[0];
            missing = vec2<u32>(min(wanted, whole.x), 0u);
            if (by_mass) { missing = part_of64(whole, wanted); }
            // At least the likeliest token, however small the share.
            if (all(missing == vec2<u32>(0u)) && any(whole != vec2<u32>(0u))) { missing.x = 1u; }
        }
        choose(li, missing);
        if (stage == 0u) {
            search.bin = chosen;
        } else {
            search.prefix = (search.prefix << 8u) | chosen;
        }
        missing = sub64(missing, above);
        // `chosen` is cleared in the next stage.
        workgroupBarrier();
    }
    return search.prefix;
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
    for (var by_mass = 0u; by_mass < 2u; by_mass++) {
        let top_k = by_mass == 0u;
        if (top_k && (params.top_k == 0u || params.top_k >= V)) { continue; }
        if (!top_k && params.top_p >= 1.0) { continue; }
        let wanted = select(u32(params.top_p * 4294967296.0), params.top_k, top_k);
        key = max(key, smallest_kept(li, max(key, 1u), wanted, !top_k, top_key));
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
