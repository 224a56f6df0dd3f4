// A round of the search for a threshold (common/search.wgsl): what the tokens weigh together that have each value of the round's eight bits of the
// key, of those whose higher bits are the prefix. Grid [SLICES]: each workgroup has bins of its own, which `narrow` adds up.
//
// Masses are integers, units of 2^-31 of the likeliest token's, summed in 64 bits: the sums, and so the answer, do not depend on the order in which
// invocations arrive.
{% include "common/state.wgsl" %}
{% include "common/sampling.wgsl" %}
{% include "common/ordered.wgsl" %}
override V: u32;  // logits
override PADDING: u32 = 0u;  // behind those of each row, of no token
{% include "common/beside.wgsl" %}

@group(0) @binding(1) var<uniform> params: array<Sampling, {{ few_rows }}>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;               // [T][V]
@group(0) @binding(3) var<storage, read> part: array<f32>;                 // [T][SLICES], maxima from `logit_stats`
@group(0) @binding(4) var<storage, read> searches: array<Search>;   // [T]
@group(0) @binding(5) var<storage, read_write> tallies: array<vec2<u32>>;  // [T][SLICES, BINS] 64-bit sums
{% include "common/search.wgsl" %}

const BINS = {{ bins }}u;
// Neighbouring invocations add to different copies of a bin: the first bits of most keys are the same.
const COPIES = 4u;

var<workgroup> top: atomic<u32>;
var<workgroup> low: array<atomic<u32>, BINS * COPIES>;   // [BINS][COPIES]
var<workgroup> high: array<atomic<u32>, BINS * COPIES>;  // [BINS][COPIES]: how often `low` overflowed

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    let row = BESIDE * wid.y;
    if (rests(row)) { return; }
    let ask = asks(row);
    if (params[ask].temperature == 0.0 || searches[row].round >= rounds(ask)) { return; }
    if (li < {{ slices }}u) { atomicMax(&top, ordered(part[row * {{ slices }}u + li])); }
    workgroupBarrier();
    let search = searches[row];
    let top_key = atomicLoad(&top);
    let largest = unordered(top_key);
    let mass = by_mass(ask, search.round);
    let shift = 24u - 8u * (search.round & 3u);
    let least = max(search.floor_key, 1u);  // 0 is NaN
    let step = grid.x * {{ workgroup }}u;
    for (var first = wid.x * {{ workgroup }}u + li; first < V; first += step * 4u) {
        // Four under way at once: what takes time is the wait for loads.
        let xs = vec4<f32>(logits[row * (V + PADDING) + first]{% for c in [1, 2, 3] %}, logits[row * (V + PADDING) + min(first + step * {{ c }}u, V - 1u)]{% endfor %});
        for (var c = 0u; c < 4u; c++) {
            let x = xs[c];
            let key = ordered(x);
            // A shift by 32 would be a shift by 0.
            if (first + step * c >= V || key < least || (shift != 24u && (key >> (shift + 8u)) != search.prefix)) { continue; }
            var weight = 1u;
            if (mass) {
                weight = 0x80000000u;
                if (key < top_key) { weight = u32(min(exp((x - largest) / params[ask].temperature), 1.0) * 2147483648.0 + 0.5); }
            }
            let slot = ((key >> shift) & {{ bins - 1 }}u) * COPIES + li % COPIES;
            let before = atomicAdd(&low[slot], weight);
            if (before + weight < before) { atomicAdd(&high[slot], 1u); }
        }
    }
    workgroupBarrier();
    var sum = vec2<u32>(0u);
    for (var c = 0u; c < COPIES; c++) {
        let slot = li * COPIES + c;
        let more = atomicLoad(&low[slot]);
        sum.x += more;
        sum.y += atomicLoad(&high[slot]) + select(0u, 1u, sum.x < more);
    }
    tallies[(row * {{ slices }}u + wid.x) * BINS + li] = sum;
}
