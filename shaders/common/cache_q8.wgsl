// The cache in blocks of 32 int8 with a scale each.
{% set eights = "(E + 31u) / 32u * 4u" %}{% set row = "eights" %}{% set quantizes = true %}{% set crowded = true %}
{% set Column = "vec2<u32>" if columns == 8 else "u32" %}
@group(0) @binding(2) var<storage, read_write> kc: array<vec2<u32>>;        // [SLOTS][G][CAP][EP/8]: int8, E padded to blocks of 32
@group(0) @binding(3) var<storage, read_write> vc: array<{{ Column }}>;     // [SLOTS][G][CAP][EP/{{ 8 if columns == 8 else 4 }}]
@group(0) @binding(7) var<storage, read_write> ks: array<f32>;              // [SLOTS][G][CAP][EP/32]: the blocks' scales
@group(0) @binding(8) var<storage, read_write> vs: array<f32>;              // [SLOTS][G][CAP][EP/32]
{% if fused %}
var<workgroup> appended: array<u32, {{ width // 2 }}>;          // the new key, then the new value, as the cache holds them
var<workgroup> appended_scales: array<f32, {{ width // 16 }}>;
{% endif %}
{% include "common/int8.wgsl" %}
{% set per = 32 // columns %}{# columns of a block #}
struct Eight { v: vec2<u32>, d: f32 }
fn load_k(i: u32) -> Eight { return Eight(kc[i], ks[i / 4u]); }
fn store_k(i: u32, k: Eight) {
    kc[i] = k.v;
    if (i % 4u == 0u) { ks[i / 4u] = k.d; }
}
{% if fused %}
fn new_k(i: u32) -> Eight { return Eight(vec2<u32>(appended[i * 2u], appended[i * 2u + 1u]), appended_scales[i / 4u]); }
{% endif %}
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
{% if fused %}
fn new_v(i: u32) -> Column {
    let at = {{ width // 4 }}u + i * {{ columns // 4 }}u;
    return Column({{ Column }}({% for c in range(columns // 4) %}appended[at + {{ c }}u], {% endfor %}), appended_scales[{{ width // 32 }}u + i / {{ per }}u]);
}
{% endif %}
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
{% if fused %}
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
{% endif %}
{% if fused %}
fn earlier_k(row: u32, kv_head: u32, i: u32) -> Eight {
    var largest = 0.0;
    for (var four = i / 4u * 8u; four < (i / 4u + 1u) * 8u; four++) { largest = max(largest, largest4(earlier_key4(row, kv_head, four))); }
    let d = largest / 127.0;
    return Eight(vec2<u32>(quantize4(earlier_key4(row, kv_head, 2u * i), d), quantize4(earlier_key4(row, kv_head, 2u * i + 1u), d)), d);
}
fn earlier_value4(row: u32, kv_head: u32, four: u32) -> vec4<f32> {
    return vec4<f32>({% for c in range(4) %}earlier_value(row, kv_head, four * 4u + {{ c }}u), {% endfor %});
}
fn earlier_v(row: u32, kv_head: u32, i: u32) -> Column {
    let block = i / {{ per }}u;
    var largest = 0.0;
    for (var four = block * 8u; four < (block + 1u) * 8u; four++) { largest = max(largest, largest4(earlier_value4(row, kv_head, four))); }
    let d = largest / 127.0;
{% if columns == 2 %}
    return Column(quantize4(earlier_value4(row, kv_head, i / 2u), d) >> (i % 2u * 16u), d);
{% else %}
    return Column({{ Column }}({% for c in range(columns // 4) %}quantize4(earlier_value4(row, kv_head, i * {{ columns // 4 }}u + {{ c }}u), d), {% endfor %}), d);
{% endif %}
}
{% endif %}
