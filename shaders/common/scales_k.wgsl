// Scales and mins of q4_k and q5_k, one vec4 for eight blocks: x holds d and dmin as halves, y the low 4 bits of the eight 6-bit scales
// (block j of the eight in nibble j), z those of the mins, w the high 2 bits: of scale j at bit 2j, of min j at bit 16 + 2j.
@group(0) @binding(2) var<storage, read> ws: array<vec4<u32>>;
{% include "common/half.wgsl" %}

fn w_scales(b: u32) -> vec3<f32> {
    let s = ws[b >> 3u];
    let j = b & 7u;
    let scale = ((s.y >> (4u * j)) & 15u) | (((s.w >> (2u * j)) & 3u) << 4u);
    let least = ((s.z >> (4u * j)) & 15u) | (((s.w >> (2u * j + 16u)) & 3u) << 4u);
    let d = half_value(s.x & 0xffffu) * f32(scale);
    return vec3<f32>(d, d, half_value(s.x >> 16u) * f32(least));
}
