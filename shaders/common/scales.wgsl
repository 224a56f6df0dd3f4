@group(0) @binding(2) var<storage, read> ws: array<u32>;   // f16 scale of block b: half b & 1 of ws[b >> 1]
{% include "common/half.wgsl" %}

fn w_scale(b: u32) -> f32 {
    return half_value((ws[b >> 1u] >> ((b & 1u) * 16u)) & 0xffffu);
}
fn w_scales(b: u32) -> vec3<f32> {
    let d = w_scale(b);
    return vec3<f32>(d, d, 0.0);
}
