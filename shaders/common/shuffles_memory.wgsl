{# The sums and maxima of shuffles.wgsl by workgroup memory, for variants that use no subgroups. #}
{% macro exchange() %}
// Two buffers in turns: a write never meets an invocation that still reads the one before.
var<workgroup> exchanged: array<array<u32, {{ workgroup }}>, 2>;
var<private> turn: u32 = 0u;
fn bring(v: u32, li: u32) {
    turn ^= 1u;
    exchanged[turn][li] = v;
    workgroupBarrier();
}
fn sum_f32(v: f32, n: u32, li: u32) -> f32 {
    bring(bitcast<u32>(v), li);
    var sum = 0.0;
    for (var i = 0u; i < n; i++) { sum += bitcast<f32>(exchanged[turn][(li & ~(n - 1u)) + i]); }
    return sum;
}
fn sum_i32(v: i32, n: u32, li: u32) -> i32 {
    bring(bitcast<u32>(v), li);
    var sum = 0;
    for (var i = 0u; i < n; i++) { sum += bitcast<i32>(exchanged[turn][(li & ~(n - 1u)) + i]); }
    return sum;
}
fn most_f32(v: f32, n: u32, li: u32) -> f32 {
    bring(bitcast<u32>(v), li);
    var most = v;
    for (var i = 0u; i < n; i++) { most = max(most, bitcast<f32>(exchanged[turn][(li & ~(n - 1u)) + i])); }
    return most;
}
{% endmacro %}
{% macro sum(v, n, type="f32") %}
    {{ v }} = sum_{{ type }}({{ v }}, {{ n }}u, li);
{% endmacro %}
{% macro most(v, n) %}
    {{ v }} = most_f32({{ v }}, {{ n }}u, li);
{% endmacro %}
