override BIAS: u32 = 0u;   // 1: behind the weights of the convolution stand its biases
@group(0) @binding(1) var<storage, read> x: array<f32>;    // [T][STRIDE]
@group(0) @binding(2) var<storage, read> cw: array<f32>;   // [CHANNELS][TAPS], then [CHANNELS] biases
// A channel's convolution in a row, and SiLU of it.
fn convolved(row: u32, channel: u32) -> f32 {
    var sum = 0.0;
    if (BIAS == 1u) { sum = cw[CHANNELS * TAPS + channel]; }
    let earlier = earlier_rows(row);
    let position = position_of(row);
    let slot = slot_of(row);
    for (var back = 0u; back < TAPS; back++) {
        let weight = cw[channel * TAPS + TAPS - 1u - back];
        if (back <= earlier) {
            sum += weight * x[(row - back) * STRIDE + CONV_AT + channel];
        } else if (back <= position) {
            sum += weight * conv[ring(slot, channel, position - back)];
        }
    }
    return sum / (1.0 + exp(-sum));
}
