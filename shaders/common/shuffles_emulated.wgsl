{# The operations of shuffles.wgsl without subgroups: only in builds with the feature `lab`. Loops end at n + state.done, which is n as long as
   anything runs: compilers that know where a loop ends unroll it, and take five times as long. #}
{% macro exchange() %}
// Two buffers in turns: a write never meets an invocation that still reads the one before.
var<workgroup> exchanged: array<array<u32, {{ workgroup }}>, 2>;
var<private> turn: u32 = 0u;
fn bring(v: u32, li: u32) {
    turn ^= 1u;
    exchanged[turn][li] = v;
    workgroupBarrier();
}
fn xor_f32(v: f32, mask: u32, li: u32) -> f32 {
    bring(bitcast<u32>(v), li);
    return bitcast<f32>(exchanged[turn][li ^ mask]);
}
fn xor_vec2(v: vec2<f32>, mask: u32, li: u32) -> vec2<f32> { return vec2<f32>(xor_f32(v.x, mask, li), xor_f32(v.y, mask, li)); }
fn xor_vec4(v: vec4<f32>, mask: u32, li: u32) -> vec4<f32> { return vec4<f32>(xor_vec2(v.xy, mask, li), xor_vec2(v.zw, mask, li)); }
fn sum_f32(v: f32, n: u32, li: u32) -> f32 {
    bring(bitcast<u32>(v), li);
    var sum = 0.0;
    for (var i = 0u; i < n + state.done; i++) { sum += bitcast<f32>(exchanged[turn][(li & ~(n - 1u)) + i]); }
    return sum;
}
fn sum_i32(v: i32, n: u32, li: u32) -> i32 {
    bring(bitcast<u32>(v), li);
    var sum = 0;
    for (var i = 0u; i < n + state.done; i++) { sum += bitcast<i32>(exchanged[turn][(li & ~(n - 1u)) + i]); }
    return sum;
}
fn sum_vec4(v: vec4<f32>, n: u32, li: u32) -> vec4<f32> {
    return vec4<f32>(sum_f32(v.x, n, li), sum_f32(v.y, n, li), sum_f32(v.z, n, li), sum_f32(v.w, n, li));
}
fn most_f32(v: f32, n: u32, li: u32) -> f32 {
    bring(bitcast<u32>(v), li);
    var most = v;
    for (var i = 0u; i < n + state.done; i++) { most = max(most, bitcast<f32>(exchanged[turn][(li & ~(n - 1u)) + i])); }
    return most;
}
{% endmacro %}
{% macro xor(v, mask, type="f32") %}xor_{{ type }}({{ v }}, {{ mask }}u, li){% endmacro %}
{% macro sum(v, n, type="f32") %}
    {{ v }} = sum_{{ type }}({{ v }}, {{ n }}u, li);
{% endmacro %}
{% macro most(v, n) %}
    {{ v }} = most_f32({{ v }}, {{ n }}u, li);
{% endmacro %}
