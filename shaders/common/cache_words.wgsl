// How decode attention reads and writes the cache's words, of either type: eight elements of a key, and a column of a value, whose `{{ columns }}`
// elements are an invocation's share. The row's own key and value are kept in `appended` as the cache holds them.
{% set offset = width // 2 if f16 else width %}
{% if kv == "q8" %}
{% include "common/int8.wgsl" %}
{% set per = 32 // columns %}{# columns of a block #}
struct Eight { v: vec2<u32>, d: f32 }
fn load_k(i: u32) -> Eight { return Eight(kc[i], ks[i / 4u]); }
fn store_k(i: u32, k: Eight) {
    kc[i] = k.v;
    if (i % 4u == 0u) { ks[i / 4u] = k.d; }
}
fn new_k(i: u32) -> Eight { return Eight(vec2<u32>(appended[i * 2u], appended[i * 2u + 1u]), appended_scales[i / 4u]); }
fn low(k: Eight) -> vec4<f32> { return k.d * vec4<f32>(unpack4xI8(k.v.x)); }
fn high(k: Eight) -> vec4<f32> { return k.d * vec4<f32>(unpack4xI8(k.v.y)); }
struct Column { v: {{ Column }}, d: f32 }
{% if columns == 2 %}
// A column is half a word, here in the lower half.
fn load_v(i: u32) -> Column { return Column(vc[i / 2u] >> (i % 2u * 16u), vs[i / {{ per }}u]); }
fn new_v(i: u32) -> Column { return Column(appended[{{ width // 4 }}u + i / 2u] >> (i % 2u * 16u), appended_scales[{{ width // 32 }}u + i / {{ per }}u]); }
fn part0(v: Column) -> vec2<f32> { return v.d * vec4<f32>(unpack4xI8(v.v)).xy; }
{% else %}
fn load_v(i: u32) -> Column { return Column(vc[i], vs[i / {{ per }}u]); }
fn new_v(i: u32) -> Column {
    let at = {{ width // 4 }}u + i * {{ columns // 4 }}u;
    return Column({{ Column }}({% for c in range(columns // 4) %}appended[at + {{ c }}u], {% endfor %}), appended_scales[{{ width // 32 }}u + i / {{ per }}u]);
}
{% for n in range(vectors) %}
fn part{{ n }}(v: Column) -> vec4<f32> { return v.d * vec4<f32>(unpack4xI8(v.v{{ [".x", ".y"][n] if vectors > 1 else "" }})); }
{% endfor %}
{% endif %}
fn store_v(i: u32, v: Column) {
{% if columns == 2 %}
    // The even column's invocation holds the odd one's as well.
    if (i % 2u == 0u) { vc[i / 2u] = v.v; }
{% else %}
    vc[i] = v.v;
{% endif %}
    if (i % {{ per }}u == 0u) { vs[i / {{ per }}u] = v.d; }
}
// Before they are quantized, key and value wait where the output will be summed.
fn append(at: u32, x: vec4<f32>) {
{% for c in range(4) %}
    summands[at + {{ c }}u] = x[{{ c }}];
{% endfor %}
}
fn quantize_appended(li: u32, words: u32) {
    for (var i = li; i < 2u * words; i += THREADS) {
        let which = i / words;
        let word = i % words;
        let at = which * {{ width }}u;
        var largest = 0.0;
        for (var e = word / 8u * 32u; e < (word / 8u + 1u) * 32u; e++) { largest = max(largest, abs(summands[at + e])); }
        let d = largest / 127.0;
        let e = at + word * 4u;
        appended[which * {{ width // 4 }}u + word] = quantize4(vec4<f32>(summands[e], summands[e + 1u], summands[e + 2u], summands[e + 3u]), d);
        if (word % 8u == 0u) { appended_scales[which * {{ width // 32 }}u + word / 8u] = d; }
    }
}
{% elif f16 %}
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
