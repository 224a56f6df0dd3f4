// The cache in f32.
{% set eights = "(E + 7u) / 8u" %}{% set row = "eights * 2u" %}{% set quantizes = false %}{% set crowded = false %}
@group(0) @binding(2) var<storage, read_write> kc: array<vec4<f32>>;        // [SLOTS][G][CAP][EP/4]
@group(0) @binding(3) var<storage, read_write> vc: array<{{ V }}>;          // [SLOTS][G][CAP][EP/{{ pairs }}]
{% if fused %}
var<workgroup> appended: array<f32, {{ width * 2 }}>;    // the new key, then the new value
{% endif %}
{% include "common/kv_f32.wgsl" %}
{% set offset = width %}
struct Eight { a: vec4<f32>, b: vec4<f32> }
fn load_k(i: u32) -> Eight { return Eight(kc[i * 2u], kc[i * 2u + 1u]); }
fn store_k(i: u32, k: Eight) { kc[i * 2u] = k.a; kc[i * 2u + 1u] = k.b; }
{% if fused %}
fn new4(at: u32) -> vec4<f32> { return vec4<f32>(appended[at], appended[at + 1u], appended[at + 2u], appended[at + 3u]); }
fn new_k(i: u32) -> Eight { return Eight(new4(i * 8u), new4(i * 8u + 4u)); }
{% endif %}
fn low(k: Eight) -> vec4<f32> { return k.a; }
fn high(k: Eight) -> vec4<f32> { return k.b; }
struct Column { {% for n in range(vectors) %}v{{ n }}: {{ V }}, {% endfor %} }
fn load_v(i: u32) -> Column { return Column({% for n in range(vectors) %}vc[i * {{ vectors }}u + {{ n }}u], {% endfor %}); }
fn store_v(i: u32, v: Column) {
{% for n in range(vectors) %}
    vc[i * {{ vectors }}u + {{ n }}u] = v.v{{ n }};
{% endfor %}
}
{% if fused %}
fn new_v(i: u32) -> Column {
    let at = {{ offset }}u + i * {{ columns }}u;
{% if columns == 2 %}
    return Column(vec2<f32>(appended[at], appended[at + 1u]));
{% else %}
    return Column({% for n in range(vectors) %}new4(at + {{ n * 4 }}u), {% endfor %});
{% endif %}
}
{% endif %}
{% for n in range(vectors) %}
fn part{{ n }}(v: Column) -> {{ V }} { return v.v{{ n }}; }
{% endfor %}
{% if fused %}
fn append(at: u32, x: vec4<f32>) {
{% for c in range(4) %}
    appended[at + {{ c }}u] = x[{{ c }}];
{% endfor %}
}
{% endif %}
{% if fused %}
fn earlier_k(row: u32, kv_head: u32, i: u32) -> Eight { return Eight(earlier_key4(row, kv_head, 2u * i), earlier_key4(row, kv_head, 2u * i + 1u)); }
fn earlier_v(row: u32, kv_head: u32, i: u32) -> Column {
    let e = i * {{ columns }}u;
    return Column({% for n in range(vectors) %}{{ V }}({% for c in range(pairs) %}earlier_value(row, kv_head, e + {{ n * pairs + c }}u), {% endfor %}), {% endfor %});
}
{% endif %}
