// Groups of {{ lanes }} neighbouring invocations, `lanes`, that share a row: lane_sum(v, li) is the sum of v over the group, in each of its
// invocations. All of a workgroup of `workgroup` invocations call it.
const LANES = {{ lanes }}u;
{% if reduce == "wg" %}
var<workgroup> lane_parts: array<f32, {{ workgroup }}>;

fn lane_sum(v: f32, li: u32) -> f32 {
    workgroupBarrier();   // an earlier sum has been read
    lane_parts[li] = v;
    workgroupBarrier();
    let first = li & ~(LANES - 1u);
    var sum = lane_parts[first];
    for (var i = 1u; i < LANES; i++) { sum += lane_parts[first + i]; }
    return sum;
}
{% else %}
{% from "common/shuffles" ~ (emulated | default("")) ~ ".wgsl" import exchange, sum with context %}
{{ exchange() }}
// Needs subgroups of at least as many invocations, and that neighbours by local index are neighbours in a subgroup: so it is on every
// device known, and the load self-test would notice.
fn lane_sum(v: f32, li: u32) -> f32 {
    var sum = v;
{{ sum("sum", lanes) }}
    return sum;
}
{% endif %}
