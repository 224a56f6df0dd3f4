// The cache in packed halves.
{% set eights = "(E + 7u) / 8u" %}{% set row = "eights" %}{% set quantizes = false %}{% set crowded = false %}
{% set Column = {2: "u32", 4: "vec2<u32>", 8: "vec4<u32>"}[columns] %}
@group(0) @binding(2) var<storage, read_write> kc: array<vec4<u32>>;        // [SLOTS][G][CAP][EP/8]
@group(0) @binding(3) var<storage, read_write> vc: array<{{ Column }}>;     // [SLOTS][G][CAP][EP/{{ columns }}]
{% if fused %}
var<workgroup> appended: array<u32, {{ width }}>;        // the new key, then the new value, as the cache holds them
{% endif %}
{% include "common/kv_f16.wgsl" %}
{% set offset = width // 2 %}
struct Eight { v: vec4<u32> }
fn load_k(i: u32) -> Eight { return Eight(kc[i]); }
fn store_k(i: u32, k: Eight) { kc[i] = k.v; }
{% if fused %}
fn new_k(i: u32) -> Eight { return Eight(vec4<u32>(appended[i * 4u], appended[i * 4u + 1u], appended[i * 4u + 2u], appended[i * 4u + 3u])); }
{% endif %}
fn low(k: Eight) -> vec4<f32> { return unpack_kv(k.v.xy); }
fn high(k: Eight) -> vec4<f32> { return unpack_kv(k.v.zw); }
struct Column { v: {{ Column }} }
fn load_v(i: u32) -> Column { return Column(vc[i]); }
fn store_v(i: u32, v: Column) { vc[i] = v.v; }
{% if fused %}
fn new_v(i: u32) -> Column {
    let at = {{ offset }}u + i * {{ columns // 2 }}u;
    return Column({{ Column }}({% for c in range(columns // 2) %}appended[at + {{ c }}u], {% endfor %}));
}
{% endif %}
{% if columns == 2 %}
fn part0(v: Column) -> vec2<f32> { return unpack2x16float(v.v); }
{% else %}
{% for n in range(vectors) %}
fn part{{ n }}(v: Column) -> vec4<f32> { return unpack_kv(v.v.{{ ["xy", "zw"][n] }}); }
{% endfor %}
{% endif %}
{% if fused %}
fn append(at: u32, x: vec4<f32>) {
    appended[at / 2u] = pack_halves(x.x, x.y);
    appended[at / 2u + 1u] = pack_halves(x.z, x.w);
}
{% endif %}
{% if fused %}
fn earlier_k(row: u32, kv_head: u32, i: u32) -> Eight {
    let a = earlier_key4(row, kv_head, 2u * i);
    let b = earlier_key4(row, kv_head, 2u * i + 1u);
    return Eight(vec4<u32>(pack_halves(a.x, a.y), pack_halves(a.z, a.w), pack_halves(b.x, b.y), pack_halves(b.z, b.w)));
}
fn earlier_v(row: u32, kv_head: u32, i: u32) -> Column {
    let e = i * {{ columns }}u;
    return Column({{ Column }}({% for c in range(columns // 2) %}pack_halves(earlier_value(row, kv_head, e + {{ 2 * c }}u), earlier_value(row, kv_head, e + {{ 2 * c + 1 }}u)), {% endfor %}));
}
{% endif %}
