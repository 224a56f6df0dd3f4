// Penalties and bias, before the token is chosen: of a logit x it makes x / repetition (x * repetition where x is below 0) if the token is in the
// prompt or in the answer, less frequency times its number in the answer, less presence if it is there, plus its bias. Grid [SLICES, T].
// The model's own logits stay in `raw`, for log probabilities.
{% include "common/state.wgsl" %}
{% include "common/sampling.wgsl" %}
override V: u32;  // logits
override PADDING: u32 = 0u;  // behind those of each row, of no token
{% include "common/beside.wgsl" %}

@group(0) @binding(1) var<uniform> params: array<Sampling, {{ few_rows }}>;
@group(0) @binding(2) var<storage, read_write> logits: array<f32>;         // [T][V + PADDING]
@group(0) @binding(3) var<storage, read_write> tallies: array<vec2<u32>>;  // [T][V + PADDING] (bit 31: in the prompt, and the number in the answer; f32 bias)
@group(0) @binding(4) var<storage, read_write> raw: array<f32>;            // [T][V + PADDING]
@group(0) @binding(5) var<storage, read> tokens: array<u32>;               // [T], what rows of several sequences have read

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    let row = BESIDE * wid.y;
    if (rests(row)) { return; }
    let ask = asks(row);
    let apart = BESIDE == 1u && state.apart != 0u;
    // The token of the step before counts from now on.
    let counts = select(state.step, state.turn, apart) > 0u;
    let last = select(state.token, tokens[row], apart);
    for (var i = wid.x * {{ workgroup }}u + li; i < V; i += grid.x * {{ workgroup }}u) {
        let at = row * (V + PADDING) + i;
        let tally = tallies[at];
        var seen = tally.x;
        if (counts && i == last) {
            seen += 1u;
            tallies[at].x = seen;
        }
        let x = logits[at];
        raw[at] = x;
        var y = x;
        if (seen != 0u) { y = select(x * params[ask].repetition, x / params[ask].repetition, x > 0.0); }
        let count = seen & 0x7fffffffu;
        if (count != 0u) { y -= params[ask].frequency * f32(count) + params[ask].presence; }
        logits[at] = y + bitcast<f32>(tally.y);
    }
}
