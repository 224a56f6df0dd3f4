{# Of a type: raw and zero as in floats.wgsl. Blocks of 16 or 32 bytes are read whole. #}
{% set raw = raw | default("") %}{% set zero = zero | default(0) %}
{% if act is defined and act == "q8" %}
// A whole block as signed int8, before scaling: elements 0..15 and 16..31.
struct Whole { a: vec4<u32>, b: vec4<u32> }
{% if raw == "bytes" %}
fn w_bytes(b: u32) -> Whole { return Whole(wq[b * 2u], wq[b * 2u + 1u]); }
{% elif raw == "nibbles" %}
fn less(v: vec4<u32>) -> vec4<u32> {
    {% if zero %}
    return ((v | vec4<u32>(0x80808080u)) - vec4<u32>({{ zero }}u * 0x01010101u)) ^ vec4<u32>(0x80808080u);
    {% else %}
    return v;
    {% endif %}
}
fn w_bytes(b: u32) -> Whole {
    let q = wq[b];
    return Whole(less(q & vec4<u32>(0x0f0f0f0fu)), less((q >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu)));
}
{% else %}
fn w_bytes(b: u32) -> Whole {
    return Whole({% for half in range(2) %}vec4<u32>({% for c in range(4) %}w_i8(b, {{ half * 4 + c }}u){% if not loop.last %}, {% endif %}{% endfor %}){% if not loop.last %}, {% endif %}{% endfor %});
}
{% endif %}
{% endif %}
