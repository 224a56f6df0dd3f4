// Activations as memory holds them: rows of KB blocks of 32.
{% if act == "q8" %}
@group(0) @binding(3) var<storage, read> xq: array<vec4<u32>>;   // [T][KB][2]
@group(0) @binding(4) var<storage, read> xs: array<vec2<f32>>;   // [T][KB]: (scale, scale * sum of the int8)
{% else %}
@group(0) @binding(3) var<storage, read> x: array<vec4<{{ act }}>>;    // [T][KB * 8]
// As products want them: x_factor is the weight type's.
fn x4(j: u32) -> vec4<f32> { return vec4<f32>(x[j]) * x_factor(j); }
{% endif %}
