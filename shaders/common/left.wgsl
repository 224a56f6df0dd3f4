{# Without subgroups every lane leaves its sums of all rows in workgroup memory, and who needs a row's adds them up: one barrier for all rows.
     module()      at module level: row_sum(group, r), the sum of a group's r-th row
     leave(name)   statements: what name0, name1, … hold can be asked for #}
{% if normed and act == "f32" %}
{# In the place of the normed input, which all invocations have read by then. #}
{% macro leave(name) %}
    workgroupBarrier();
{% for q in range((rows + 3) // 4) %}
    nx[{{ q * workgroup }}u + li] = vec4<f32>({% for c in range(4) %}{{ name ~ (q * 4 + c) if q * 4 + c < rows else "0.0" }}{{ ", " if c < 3 }}{% endfor %});
{% endfor %}
    workgroupBarrier();
{% endmacro %}
{% macro module() %}
fn row_sum(group: u32, r: u32) -> f32 {
    var sum = 0.0;
    // Neighbours begin with other lanes, which lie in other banks.
    let turned = (group * {{ rows }}u + r) / 4u;
    for (var i = 0u; i < LANES; i++) { sum += nx[r / 4u * {{ workgroup }}u + group * LANES + ((i + turned) & (LANES - 1u))][r & 3u]; }
    return sum;
}
{% endmacro %}
{% else %}
{% macro leave(name) %}
{% for r in range(rows) %}
    left[{{ r * workgroup }}u + li] = {{ name }}{{ r }};
{% endfor %}
    workgroupBarrier();
{% endmacro %}
{% macro module() %}
var<workgroup> left: array<f32, {{ rows * workgroup }}>;   // [{{ rows }}][{{ workgroup }}]
fn row_sum(group: u32, r: u32) -> f32 {
    var sum = 0.0;
    // Neighbours begin with other lanes, which lie in other banks.
    let turned = group * {{ rows }}u + r;
    for (var i = 0u; i < LANES; i++) { sum += left[r * {{ workgroup }}u + group * LANES + ((i + turned) & (LANES - 1u))]; }
    return sum;
}
{% endmacro %}
{% endif %}
