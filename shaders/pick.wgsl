// The best token among those that each workgroup looks at: grid [SLICES], cand[w] = (key of its value, token id).
// Greedy, the value is the logit. Else it is logit / temperature + a Gumbel variate, whose largest is a sample of the softmax
// (Gumbel-max), over the tokens that `threshold` keeps. Ties go to the lowest id; NaN never wins.
{% include "common/state.wgsl" %}
{% include "common/sampling.wgsl" %}
{% include "common/ordered.wgsl" %}
{% include "common/hash.wgsl" %}
{% include "common/best.wgsl" %}
override V: u32;  // logits
override PADDING: u32 = 0u;  // behind those of each row, of no token
{% include "common/beside.wgsl" %}

@group(0) @binding(1) var<uniform> params: array<Sampling, {{ few_rows }}>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;            // [T][V]
@group(0) @binding(3) var<storage, read> thr: array<u32>;               // [T][4], from `threshold`
@group(0) @binding(4) var<storage, read_write> cand: array<vec2<u32>>;  // [T][SLICES]

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    let row = BESIDE * wid.y;
    if (rests(row)) { return; }
    let ask = asks(row);
    // Key 0 is NaN.
    let least = select(max(thr[row * 4u], 1u), 1u, params[ask].temperature == 0.0);
    let top_key = thr[row * 4u + 1u];
    var position = state.pos + select(state.rows, row + 1u, BESIDE == 1u);  // of the token to be chosen
    if (BESIDE == 1u && state.apart != 0u) { position = state.each[ask].x + 1u; }
    var best = vec2<u32>(0u, NO_TOKEN);
    let step = grid.x * {{ workgroup }}u;
    for (var first = wid.x * {{ workgroup }}u + li; first < V; first += step * 4u) {
        // Four under way at once: what takes time is the wait for loads.
        let xs = vec4<f32>(logits[row * (V + PADDING) + first]{% for c in [1, 2, 3] %}, logits[row * (V + PADDING) + min(first + step * {{ c }}u, V - 1u)]{% endfor %});
        for (var c = 0u; c < 4u; c++) {
            let i = first + step * c;
            let x = xs[c];
            var key = ordered(x);
            if (i >= V || key < least) { continue; }
            if (params[ask].temperature > 0.0) {
                // Relative to the maximum, so that a tiny temperature overflows to -infinity for all but the likeliest.
                var value = gumbel(hash(vec4<u32>(params[ask].seed_lo, params[ask].seed_hi, position, i)));
                if (key < top_key) { value += (x - unordered(top_key)) / params[ask].temperature; }
                key = ordered(value);
            }
            // Ids ascend, so the first of equals stays.
            if (key > best.x) { best = vec2<u32>(key, i); }
        }
    }
    let winner = best_of(best, li);
    if (li == 0u) { cand[row * {{ slices }}u + wid.x] = winner; }
}
