// Scales of q6_k and q3_k, five words for eight blocks: 16 signed bytes, one for each half of a block, and their common factor as an f32.
@group(0) @binding(2) var<storage, read> ws: array<u32>;
fn w_scales(b: u32) -> vec3<f32> {
    let at = (b >> 3u) * 5u;
    let two = unpack4xI8(ws[at + ((b & 7u) >> 1u)] >> ((b & 1u) * 16u));
    return vec3<f32>(bitcast<f32>(ws[at + 4u]) * vec2<f32>(two.xy), 0.0);
}
