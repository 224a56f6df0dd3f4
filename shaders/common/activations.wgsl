// Activations as memory holds them: rows of KB blocks of 32.
{% if act == "q8" %}
@group(0) @binding(3) var<storage, read> xq: array<vec4<u32>>;   // [T][KB][2]
@group(0) @binding(4) var<storage, read> xs: array<vec2<f32>>;   // [T][KB]: (scale, scale * sum of the int8)
{% else %}
@group(0) @binding(3) var<storage, read> x: array<vec4<{{ act }}>>;    // [T][KB * 8]
// As products want them: x_factor is the weight type's.
{% if sliced | default(false) %}
const SLICE = {{ slice_blocks }}u;
const PITCH = {{ slice_blocks + 1 }}u;
var<workgroup> slice: array<vec4<f32>, {{ 8 * (slice_blocks + 1) }}>;   // [8][PITCH]: up to SLICE blocks of a row, by block
fn x4(j: u32) -> vec4<f32> { return slice[(j & 7u) * PITCH + (j >> 3u)]; }
// Fills `slice` with the blocks from `block` on. Neighbours read neighbouring vec4.
fn fill_slice(block: u32, blocks: u32, li: u32) {
    for (var j = li; j < blocks * 8u; j += {{ workgroup }}u) { slice[(j & 7u) * PITCH + (j >> 3u)] = vec4<f32>(x[block * 8u + j]) * x_factor(j); }
}
{% else %}
fn x4(j: u32) -> vec4<f32> { return vec4<f32>(x[j]) * x_factor(j); }
{% endif %}
{% endif %}
