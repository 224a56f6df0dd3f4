// What types give whose blocks are decoded number by number: w4, and the product with f32 activations, from w_i8 and w_scales.
fn w4(b: u32, j: u32) -> vec4<f32> {
    let s = w_scales(b);
    return vec4<f32>(unpack4xI8(w_i8(b, j))) * select(s.x, s.y, j >= 4u) - s.z;
}
{% if act is defined and act == "f32" %}
const UNITS: u32 = {{ units }}u;
struct X { {% for j in range(8) %}x{{ j }}: vec4<f32>, {% endfor %} }
fn load_x(i: u32) -> X {
    return X({% for j in range(8) %}x4(i * 8u + {{ j }}u), {% endfor %});
}
fn dot_x(i: u32, v: X) -> f32 {
    let s = w_scales(i);
    var sum = vec2<f32>();
{% for j in range(8) %}
    sum.{{ "x" if j < 4 else "y" }} += dot(vec4<f32>(unpack4xI8(w_i8(i, {{ j }}u))), v.x{{ j }});
{% endfor %}
{% if has_min %}
    let all = {% for j in range(8) %}v.x{{ j }}{% if j < 7 %} + {% endif %}{% endfor %};
    return dot(s.xy, sum) - s.z * dot(all, vec4<f32>(1.0));
{% else %}
    return dot(s.xy, sum);
{% endif %}
}
{% endif %}
