// How decode attention reads and writes the cache's words, of either type: eight elements of a key, and a column of a value, whose `{{ columns }}`
// elements are an invocation's share. The row's own key and value are kept in `appended` as the cache holds them.
{% set offset = width // 2 if f16 else width %}
{% if f16 %}
struct Eight { v: vec4<u32> }
fn load_k(i: u32) -> Eight { return Eight(kc[i]); }
fn store_k(i: u32, k: Eight) { kc[i] = k.v; }
fn new_k(i: u32) -> Eight { return Eight(vec4<u32>(appended[i * 4u], appended[i * 4u + 1u], appended[i * 4u + 2u], appended[i * 4u + 3u])); }
fn low(k: Eight) -> vec4<f32> { return unpack_kv(k.v.xy); }
fn high(k: Eight) -> vec4<f32> { return unpack_kv(k.v.zw); }
struct Column { v: {{ Column }} }
fn load_v(i: u32) -> Column { return Column(vc[i]); }
fn store_v(i: u32, v: Column) { vc[i] = v.v; }
fn new_v(i: u32) -> Column {
    let at = {{ offset }}u + i * {{ columns // 2 }}u;
    return Column({{ Column }}({% for c in range(columns // 2) %}appended[at + {{ c }}u], {% endfor %}));
}
{% if columns == 2 %}
fn part0(v: Column) -> vec2<f32> { return unpack2x16float(v.v); }
{% else %}
{% for n in range(vectors) %}
fn part{{ n }}(v: Column) -> vec4<f32> { return unpack_kv(v.v.{{ ["xy", "zw"][n] }}); }
{% endfor %}
{% endif %}
fn append(at: u32, x: vec4<f32>) {
    appended[at / 2u] = pack_halves(x.x, x.y);
    appended[at / 2u + 1u] = pack_halves(x.z, x.w);
}
{% else %}
struct Eight { a: vec4<f32>, b: vec4<f32> }
fn load_k(i: u32) -> Eight { return Eight(kc[i * 2u], kc[i * 2u + 1u]); }
fn store_k(i: u32, k: Eight) { kc[i * 2u] = k.a; kc[i * 2u + 1u] = k.b; }
fn new4(at: u32) -> vec4<f32> { return vec4<f32>(appended[at], appended[at + 1u], appended[at + 2u], appended[at + 3u]); }
fn new_k(i: u32) -> Eight { return Eight(new4(i * 8u), new4(i * 8u + 4u)); }
fn low(k: Eight) -> vec4<f32> { return k.a; }
fn high(k: Eight) -> vec4<f32> { return k.b; }
struct Column { {% for n in range(vectors) %}v{{ n }}: {{ V }}, {% endfor %} }
fn load_v(i: u32) -> Column { return Column({% for n in range(vectors) %}vc[i * {{ vectors }}u + {{ n }}u], {% endfor %}); }
fn store_v(i: u32, v: Column) {
{% for n in range(vectors) %}
    vc[i * {{ vectors }}u + {{ n }}u] = v.v{{ n }};
{% endfor %}
}
fn new_v(i: u32) -> Column {
    let at = {{ offset }}u + i * {{ columns }}u;
{% if columns == 2 %}
    return Column(vec2<f32>(appended[at], appended[at + 1u]));
{% else %}
    return Column({% for n in range(vectors) %}new4(at + {{ n * 4 }}u), {% endfor %});
{% endif %}
}
{% for n in range(vectors) %}
fn part{{ n }}(v: Column) -> {{ V }} { return v.v{{ n }}; }
{% endfor %}
fn append(at: u32, x: vec4<f32>) {
{% for c in range(4) %}
    appended[at + {{ c }}u] = x[{{ c }}];
{% endfor %}
}
{% endif %}
