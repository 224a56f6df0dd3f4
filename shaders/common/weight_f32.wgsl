// f32: 8 vec4 a block.
{% set units = 8 %}{% set numbers = false %}{% set has_min = false %}{% set halves_scale = false %}
fn w4(b: u32, j: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(wq[b * 8u + j]);
}
{% if act is defined and act == "f32" %}
const UNITS: u32 = {{ units }}u;
struct X { x0: vec4<f32> }
fn load_x(i: u32) -> X {
    return X(x4(i));
}
fn load_piece(i: u32) -> vec4<u32> { return wq[i]; }
fn dot_piece(w: vec4<u32>, v: X) -> f32 {
    return dot(bitcast<vec4<f32>>(w), v.x0);
}
fn x_factor(j: u32) -> vec4<f32> { return vec4<f32>(1.0); }
{% endif %}
