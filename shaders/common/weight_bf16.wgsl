// bf16: 4 vec4 a block, two a u32, the low half first. A bf16 is the upper half of an f32.
{% set units = 4 %}{% set numbers = false %}{% set has_min = false %}{% set halves_scale = false %}
fn bf16x4(v: vec2<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(vec4<u32>(v.x << 16u, v.x & 0xffff0000u, v.y << 16u, v.y & 0xffff0000u));
}
fn w4(b: u32, j: u32) -> vec4<f32> {
    let v = wq[b * 4u + (j >> 1u)];
    return bf16x4(select(v.xy, v.zw, (j & 1u) == 1u));
}
{% if act is defined and act == "f32" %}
const UNITS: u32 = {{ units }}u;
struct X { x0: vec4<f32>, x1: vec4<f32> }
fn load_x(i: u32) -> X {
    return X(x4(i * 2u), x4(i * 2u + 1u));
}
fn load_piece(i: u32) -> vec4<u32> { return wq[i]; }
fn dot_piece(w: vec4<u32>, v: X) -> f32 {
    return dot(bf16x4(w.xy), v.x0) + dot(bf16x4(w.zw), v.x1);
}
fn x_factor(j: u32) -> vec4<f32> { return vec4<f32>(1.0); }
{% endif %}
