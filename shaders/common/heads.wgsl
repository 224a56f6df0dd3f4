// Heads of the row as decode attention needs them: normed and rotated.
override ROT: u32;          // rotated dimensions of a head, even, at most E
override INTERLEAVED: u32;  // 1: pairs (2i, 2i+1); 0: pairs (i, i + ROT/2)
@group(0) @binding(6) var<storage, read> rot: array<vec2<f32>>;  // [C][ROT/2]: (cos, sin)
{% include "common/qk_norm.wgsl" %}
fn turned_by(position: u32, pair: u32) -> u32 { return position; }
fn halves() -> u32 { return 1u; }
{% include "common/rotate.wgsl" %}
// The weights of a norm that are multiplied after the rotation, from `at` on.
fn late4(i: u32, at: u32) -> vec4<f32> {
    var v = vec4<f32>(1.0);
    if (LATE == 1u) {
        for (var c = 0u; c < 4u; c++) { v[c] = norm_weight(at + i * 4u + c); }
    }
    return v;
}
// Elements 4i..4i+3 of the head at `base` of qkv, rotated for `position`.
fn rotated4(base: u32, position: u32, i: u32, norm: QkNorm) -> vec4<f32> {
    var v = vec4<f32>();
    for (var c = 0u; c < 4u; c++) { v[c] = rotated(base, position, i * 4u + c, norm); }
    return v;
}
