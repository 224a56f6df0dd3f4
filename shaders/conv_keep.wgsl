// The last rows of a pass go to the state of a convolution, once all invocations have read the former contents. Grid [ceil(CHANNELS / {{ workgroup }})].
{% include "common/state.wgsl" %}
{% include "common/conv.wgsl" %}
@group(0) @binding(1) var<storage, read> x: array<f32>;            // [T][STRIDE]
@group(0) @binding(2) var<storage, read_write> conv: array<f32>;   // [slots][RING][CHANNELS]
override TIMES: u32 = 0u;   // not 0: each channel is multiplied by the one so much further in its row

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let channel = id.x;
    if (state.done != 0u || channel >= CHANNELS) { return; }
    for (var row = max(state.rows, TAPS) - TAPS; row < state.rows; row++) {
        let at = row * STRIDE + CONV_AT + channel;
        var v = x[at];
        if (TIMES != 0u) { v *= x[at + TIMES]; }
        conv[ring(state.slot, channel, state.pos + row)] = v;
    }
}
