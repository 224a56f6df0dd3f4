// Groups of {{ lanes }} neighbouring invocations, `lanes`, that share a row: lane_sum(v, li) is the sum of v over the group, in each of its
// invocations. All of a workgroup of `workgroup` invocations call it.
const LANES = {{ lanes }}u;
{# How they come together: by subgroup operations, or (`reduce` is wg…) through workgroup memory. #}
{% set through = "_memory" if reduce[:2] == "wg" else emulated | default("") %}
{% if reduce[:2] != "wg" or exchanges | default(true) %}
{% from "common/shuffles" ~ through ~ ".wgsl" import exchange, sum with context %}
{{ exchange() }}
{% if reduce[:2] != "wg" %}
// Needs subgroups of at least as many invocations, and that neighbours by local index are neighbours in a subgroup: so it is on every
// device known, and the load self-test would notice.
{% endif %}
fn lane_sum(v: f32, li: u32) -> f32 {
    var sum = v;
{{ sum("sum", lanes) }}
    return sum;
}
{% endif %}
