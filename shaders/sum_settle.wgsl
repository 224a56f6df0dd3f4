// Takes over into the state of `running_sum` what counts of the last step with drafts, as `delta_settle`. Grid [ceil(D / 64)].
{% include "common/state.wgsl" %}
override D: u32;   // model width
@group(0) @binding(1) var<storage, read_write> s: array<f32>;   // [slots][D]
@group(0) @binding(2) var<storage, read> kept: array<f32>;      // [2][{{ few_rows }}][D]: rows of x
{% include "common/added.wgsl" %}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (state.kept == 0u || id.x >= D) { return; }
    let at = state.slot * D + id.x;
    var sum = s[at];
    for (var t = 0u; t < min(state.kept, {{ few_rows }}u); t++) { sum = added(sum, kept[((1u - state.side) * {{ few_rows }}u + t) * D + id.x]); }
    s[at] = sum;
}
