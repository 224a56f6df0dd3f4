// y[t] = the numbers of patch t of a picture, by its pixels. Grid [T, ceil(STRIDE / {{ workgroup }})].
{% include "common/state.wgsl" %}
@group(0) @binding(1) var<storage, read> pixels: array<u32>;    // red, green and blue in bytes, row by row from the top
@group(0) @binding(2) var<storage, read> starts: array<u32>;    // [1 + T]: bytes between rows of pixels; then the byte at which each patch begins
@group(0) @binding(3) var<storage, read> numbers: array<f32>;   // [3][256]: what becomes of each byte of each channel
@group(0) @binding(4) var<storage, read_write> y: array<f32>;   // [T][STRIDE]

override SIDE: u32;         // of a patch, pixels
override FRAMES: u32;       // how often each channel of a patch is there; 1 where BY_CHANNEL is 0
override BY_CHANNEL: u32;   // 1: a patch's numbers come channel by channel; 0: pixel by pixel
override STRIDE: u32;       // f32 elements between rows of y, at least 3 SIDE SIDE FRAMES: those behind are zeros

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let t = wid.x;
    let i = wid.y * {{ workgroup }}u + li;
    if (t >= state.rows || i >= STRIDE) { return; }
    let square = SIDE * SIDE;
    var x = 0.0;
    if (i < 3u * square * FRAMES) {
        var channel = i % 3u;
        var pixel = i / 3u;
        if (BY_CHANNEL == 1u) {
            channel = i / (square * FRAMES);
            pixel = i % square;
        }
        let at = starts[1u + t] + (pixel / SIDE) * starts[0] + (pixel % SIDE) * 3u + channel;
        x = numbers[channel * 256u + ((pixels[at / 4u] >> (at % 4u * 8u)) & 255u)];
    }
    y[t * STRIDE + i] = x;
}
