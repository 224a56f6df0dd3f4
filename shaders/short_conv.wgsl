// The short convolution of LFM2: of a row's three parts B, C and X, y = C * conv(B * X). Eight blocks of 32 a workgroup: grid [ceil(KB / 8), T].
{% from "common/stored.wgsl" import stored with context %}
{% include "common/state.wgsl" %}
{% include "common/rows.wgsl" %}
{% include "common/conv.wgsl" %}
@group(0) @binding(1) var<storage, read> x: array<f32>;                 // [T][STRIDE]: B, C, X from CONV_AT on, CHANNELS each
@group(0) @binding(2) var<storage, read> cw: array<f32>;                // [CHANNELS][TAPS]
@group(0) @binding(3) var<storage, read_write> conv: array<f32>;        // [slots][RING][CHANNELS]: B * X of the last positions
{% if out == "q8" %}
{% include "common/quantize.wgsl" %}
@group(0) @binding(4) var<storage, read_write> yq: array<u32>;          // [T][KB][8]
@group(0) @binding(5) var<storage, read_write> ys: array<vec2<f32>>;    // [T][KB]
{% else %}
@group(0) @binding(4) var<storage, read_write> y: array<vec4<{{ out }}>>;     // [T][KB * 32], padded with zeros
{% endif %}
override KB: u32;          // blocks of a row of y, ceil(CHANNELS / 32)
override KEEP: u32;        // 1: the rows go to the state, in a step; else `conv_keep` does that

fn gated(row: u32, channel: u32) -> f32 {
    let at = row * STRIDE + CONV_AT + channel;
    return x[at] * x[at + 2u * CHANNELS];
}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let row = wid.y;
    if (rests(row)) { return; }
    let earlier = earlier_rows(row);
    let position = position_of(row);
    let slot = slot_of(row);
    let j = wid.x * 64u + li;
    var v = vec4<f32>();
    for (var c = 0u; c < 4u; c++) {
        let channel = j * 4u + c;
        if (channel < CHANNELS) {
            let own = gated(row, channel);
            var sum = own * cw[channel * TAPS + TAPS - 1u];
            for (var back = 1u; back < TAPS; back++) {
                let weight = cw[channel * TAPS + TAPS - 1u - back];
                if (back <= earlier) {
                    sum += weight * gated(row - back, channel);
                } else if (back <= position) {
                    sum += weight * conv[ring(slot, channel, position - back)];
                }
            }
            if (KEEP == 1u) { conv[ring(slot, channel, position)] = own; }
            v[c] = sum * x[row * STRIDE + CONV_AT + CHANNELS + channel];
        }
    }
{% if out == "q8" %}
    let q = quantize(v, li);
    if (j < KB * 8u) {
        yq[row * KB * 8u + j] = q.packed;
        if (li % 8u == 0u) { ys[row * KB + j / 8u] = q.scale; }
    }
{% else %}
    if (j < KB * 8u) { y[row * KB * 8u + j] = {{ stored('v') }}; }
{% endif %}
}
