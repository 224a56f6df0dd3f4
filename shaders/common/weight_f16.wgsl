// f16: 4 vec4 a block, two halves a u32, the low half first.
{% set units = 4 %}{% set numbers = false %}{% set has_min = false %}{% set halves_scale = false %}
fn w4(b: u32, j: u32) -> vec4<f32> {
    let v = wq[b * 4u + (j >> 1u)];
    let half = select(v.xy, v.zw, (j & 1u) == 1u);
    return vec4<f32>(unpack2x16float(half.x), unpack2x16float(half.y));
}
{% if act is defined and act == "f32" %}
const UNITS: u32 = {{ units }}u;
struct X { x0: vec4<f32>, x1: vec4<f32> }
fn load_x(i: u32) -> X {
    return X(x4(i * 2u), x4(i * 2u + 1u));
}
fn load_piece(i: u32) -> vec4<u32> { return wq[i]; }
fn dot_piece(w: vec4<u32>, v: X) -> f32 {
    return dot(vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y)), v.x0)
         + dot(vec4<f32>(unpack2x16float(w.z), unpack2x16float(w.w)), v.x1);
}
fn x_factor(j: u32) -> vec4<f32> { return vec4<f32>(1.0); }
{% endif %}
