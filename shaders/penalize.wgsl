// Penalties and bias, before the token is chosen: of a logit x it makes x / repetition (x * repetition where x is below 0) if the token is in the
// prompt or in the answer, less frequency times its number in the answer, less presence if it is there, plus its bias. Grid [SLICES].
// The model's own logits stay in `raw`, for log probabilities.
{% include "common/state.wgsl" %}
{% include "common/sampling.wgsl" %}
override V: u32;  // logits

@group(0) @binding(1) var<uniform> params: array<Sampling, {{ few_rows }}>;
@group(0) @binding(2) var<storage, read_write> logits: array<f32>;         // [V]
@group(0) @binding(3) var<storage, read_write> tallies: array<vec2<u32>>;  // [V] (bit 31: in the prompt, and the number in the answer; f32 bias)
@group(0) @binding(4) var<storage, read_write> raw: array<f32>;            // [V]

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    for (var i = wid.x * {{ workgroup }}u + li; i < V; i += grid.x * {{ workgroup }}u) {
        let tally = tallies[i];
        var seen = tally.x;
        // The token of the step before counts from now on.
        if (state.step > 0u && i == state.token) {
            seen += 1u;
            tallies[i].x = seen;
        }
        let x = logits[i];
        raw[i] = x;
        var y = x;
        if (seen != 0u) { y = select(x * params[0].repetition, x / params[0].repetition, x > 0.0); }
        let count = seen & 0x7fffffffu;
        if (count != 0u) { y -= params[0].frequency * f32(count) + params[0].presence; }
        logits[i] = y + bitcast<f32>(tally.y);
    }
}
