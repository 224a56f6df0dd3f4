// Appends the log probabilities of a step to their rings, in the slot that `advance` then gives to its token: of the token that was chosen, and of
// the likeliest. They are those of the model itself: of the logits before penalties, bias and temperature. Grid [1, T]. In steps of several rows each
// row has an entry in a slot, and the slot is that of `accept`.
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
@group(0) @binding(2) var<storage, read> cand: array<vec2<u32>>;          // [T][SLICES], from `pick`
@group(0) @binding(3) var<storage, read> raw: array<f32>;                 // [T][V + PADDING], from `penalize`
@group(0) @binding(4) var<storage, read> sums: array<vec2<u32>>;          // [T][SLICES], from `logprobs`
@group(0) @binding(5) var<storage, read> tops: array<vec2<u32>>;          // [T][SLICES, {{ max_top_logprobs }}], from `logprobs`
@group(0) @binding(6) var<storage, read_write> ids: array<u32>;           // [ring_len][ROWS or 1][{{ max_top_logprobs }}], NO_TOKEN where there are no more tokens
@group(0) @binding(7) var<storage, read_write> logprobs: array<f32>;      // [ring_len][ROWS or 1][1 + {{ max_top_logprobs }}]: of the token chosen, of the likeliest

// Entries of a slot in steps of several rows.
const ROWS = {{ few_rows }}u;

// The logarithm of exp(number of key - number of largest).
fn below(key: u32, largest: u32) -> f32 {
    if (key >= largest) { return 0.0; }
    return unordered(key) - unordered(largest);
}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    let row = BESIDE * wid.y;
    if (rests(row)) { return; }
    let ask = asks(row);
    let part = row * {{ slices }}u + li;
    let token = best_of(cand[part], li).y;
    let slice = sums[part];
    let largest = best_of(vec2<u32>(slice.x, 0u), li).x;
    var share = 0.0;
    if (slice.x != 0u) { share = bitcast<f32>(slice.y) * exp(below(slice.x, largest)); }
    let whole = log(workgroup_sum(share, li));
    var slot = state.step % max(params[0].ring_len, 1u);
    if (BESIDE == 1u) { slot = state.turn % max(params[0].ring_len, 1u) * ROWS + row; }
    if (li == 0u && token != NO_TOKEN) { logprobs[slot * {{ max_top_logprobs + 1 }}u] = below(ordered(raw[row * (V + PADDING) + token]), largest) - whole; }

    // Each slice's are in order: the best of their heads is the next.
    var head = 0u;
    let wanted = min(params[ask].top_logprobs, {{ max_top_logprobs }}u);
    for (var n = 0u; n < wanted; n++) {
        var mine = vec2<u32>(0u, NO_TOKEN);
        if (head < wanted) { mine = tops[part * {{ max_top_logprobs }}u + head]; }
        let best = best_of(mine, li);
        if (mine.y == best.y) { head++; }
        if (li == 0u) {
            ids[slot * {{ max_top_logprobs }}u + n] = best.y;
            if (best.y != NO_TOKEN) { logprobs[slot * {{ max_top_logprobs + 1 }}u + 1u + n] = below(best.x, largest) - whole; }
        }
    }
}
