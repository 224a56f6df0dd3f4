// Numbers as f32, and products with activations in floats, of quantized types. Conversions of integers are slow on many GPUs: an integer below 2^23
// whose bits are put into those of 2^23, whose last bit counts 1, makes the float 2^23 + integer, and what is left when that is subtracted is exact.
{# Of a type: raw = "nibbles": a piece is 16 bytes as q4_0's, of numbers `zero` more than they are worth; "bytes": 16 signed bytes in order. Else pieces
   are whole blocks, of numbers that w_i8 gives, or where `unsigned` names a function as w_i8, of unsigned bytes `zero` more than they are worth. #}
{% set raw = raw | default("") %}{% set zero = zero | default(0) %}{% set unsigned = unsigned | default("") %}
fn of_bits(v: vec4<u32>, zero: vec4<f32>) -> vec4<f32> { return bitcast<vec4<f32>>(v | vec4<u32>(0x4b000000u)) - zero; }
const BYTES = vec4<f32>(1.0, 256.0, 1.0, 256.0);
{% if unsigned %}
// Four unsigned bytes less {{ zero }} each: of the first and third their values, of the others 256 times as much.
fn bytes4(v: u32) -> vec4<f32> {
    let b = v >> 16u;
    return of_bits(vec4<u32>(v, v, b, b) & vec4<u32>(0xffu, 0xff00u, 0xffu, 0xff00u), vec4<f32>(0x1p23f) + {{ zero }}.0 * BYTES);
}
{% else %}
// Four signed bytes: of the first and third their values, of the others 256 times as much.
fn bytes4(v: u32) -> vec4<f32> {
    let a = v ^ 0x80808080u;
    let b = a >> 16u;
    return of_bits(vec4<u32>(a, a, b, b) & vec4<u32>(0xffu, 0xff00u, 0xffu, 0xff00u), vec4<f32>(0x1p23f) + 128.0 * BYTES);
}
{% endif %}
{% if act is defined and act == "f32" %}
const UNITS: u32 = {{ units }}u;
const PAIR_ZERO = {{ zero if unsigned or raw == "nibbles" else 128 }}.0;
fn w_pair(b: u32, j: u32) -> vec2<u32> {
{% if raw == "nibbles" %}
    return (vec2<u32>(wq[b][j]) >> vec2<u32>(0u, 4u)) & vec2<u32>(0x0f0f0f0fu);
{% elif unsigned %}
    return vec2<u32>({{ unsigned }}(b, j), {{ unsigned }}(b, j + 4u));
{% else %}
    return vec2<u32>(w_i8(b, j), w_i8(b, j + 4u)) ^ vec2<u32>(0x80808080u);
{% endif %}
}
{% set fours = 8 // units %}
{% set both = has_min == "halves" %}
struct X { {% for j in range(fours) %}x{{ j }}: vec4<f32>, {% endfor %}{% if has_min %}all: {{ "vec2<f32>" if both else "f32" }}, {% endif %}}
// What activations 4j..4j+3 of a row are multiplied by, so that numbers need not be shifted: one over what numbers are multiplied by.
{% if raw == "nibbles" %}
fn x_factor(j: u32) -> vec4<f32> { return select(1.0 / BYTES, 0.0625 / BYTES, (j & 4u) != 0u); }
fn low4(v: u32) -> vec4<f32> {
    let b = v >> 16u;
    return of_bits(vec4<u32>(v, v, b, b) & vec4<u32>(0xfu, 0xf00u, 0xfu, 0xf00u), vec4<f32>(0x1p23f) + {{ zero }}.0 * BYTES);
}
fn high4(v: u32) -> vec4<f32> {
    let b = v >> 16u;
    return of_bits(vec4<u32>(v, v, b, b) & vec4<u32>(0xf0u, 0xf000u, 0xf0u, 0xf000u), vec4<f32>(0x1p23f) + {{ zero * 16 }}.0 * BYTES);
}
{% else %}
fn x_factor(j: u32) -> vec4<f32> { return 1.0 / BYTES; }
{% endif %}
fn load_x(i: u32) -> X {
{% for j in range(fours) %}
    let v{{ j }} = x4(i * {{ fours }}u + {{ j }}u);
{% endfor %}
{% if not has_min %}
    return X({% for j in range(fours) %}v{{ j }}, {% endfor %});
{% elif raw == "nibbles" %}
    return X({% for j in range(fours) %}v{{ j }}, {% endfor %}dot(v0 + v1 + v2 + v3, BYTES) + dot(v4 + v5 + v6 + v7, 16.0 * BYTES));
{% elif both %}
    return X({% for j in range(fours) %}v{{ j }}, {% endfor %}vec2<f32>(dot(v0 + v1 + v2 + v3, BYTES), dot(v4 + v5 + v6 + v7, BYTES)));
{% else %}
    return X({% for j in range(fours) %}v{{ j }}, {% endfor %}dot({% for j in range(fours) %}v{{ j }}{% if not loop.last %} + {% endif %}{% endfor %}, BYTES));
{% endif %}
}
{% if raw %}
struct Piece { q: vec4<u32>, s: vec3<f32> }
fn load_piece(i: u32) -> Piece { return Piece(wq[i], w_scales(i / UNITS)); }
fn dot_piece(p: Piece, v: X) -> f32 {
{% if raw == "nibbles" %}
    var t = low4(p.q.x) * v.x0;
{% for c, j in [("y", 1), ("z", 2), ("w", 3)] %}
    t += low4(p.q.{{ c }}) * v.x{{ j }};
{% endfor %}
{% for c, j in [("x", 4), ("y", 5), ("z", 6), ("w", 7)] %}
    t += high4(p.q.{{ c }}) * v.x{{ j }};
{% endfor %}
{% else %}
    var t = bytes4(p.q.x) * v.x0;
{% for c, j in [("y", 1), ("z", 2), ("w", 3)] %}
    t += bytes4(p.q.{{ c }}) * v.x{{ j }};
{% endfor %}
{% endif %}
    return p.s.x * ((t.x + t.y) + (t.z + t.w)){% if has_min %} - p.s.z * v.all{% endif %};
}
{% else %}
struct Piece { {% for j in range(8) %}q{{ j }}: u32, {% endfor %}s: {{ "vec4" if both else "vec3" }}<f32> }
fn load_piece(i: u32) -> Piece { return Piece({% for j in range(8) %}{{ unsigned or "w_i8" }}(i, {{ j }}u), {% endfor %}w_scales(i)); }
fn dot_piece(p: Piece, v: X) -> f32 {
{% for half in range(2) %}
    var t{{ half }} = bytes4(p.q{{ half * 4 }}) * v.x{{ half * 4 }};
{% for j in range(half * 4 + 1, half * 4 + 4) %}
    t{{ half }} += bytes4(p.q{{ j }}) * v.x{{ j }};
{% endfor %}
{% endfor %}
{% if halves_scale %}
    return p.s.x * ((t0.x + t0.y) + (t0.z + t0.w)) + p.s.y * ((t1.x + t1.y) + (t1.z + t1.w)){% if both %} - dot(p.s.zw, v.all){% elif has_min %} - p.s.z * v.all{% endif %};
{% else %}
    let t = t0 + t1;
    return p.s.x * ((t.x + t.y) + (t.z + t.w)){% if has_min %} - p.s.z * v.all{% endif %};
{% endif %}
}
{% endif %}
{% endif %}
{% if own_w4 is not defined %}
fn w4(b: u32, j: u32) -> vec4<f32> {
    let s = w_scales(b);
    return bytes4({{ unsigned or "w_i8" }}(b, j)) * (select(s.x, s.y, j >= 4u) / BYTES) - {{ "select(s.z, s.w, j >= 4u)" if has_min == "halves" else "s.z" }};
}
{% endif %}
