// workgroup_sum(v, li): the sum of every invocation's v, in every invocation. All of a workgroup of `workgroup` invocations
// call it, once: `sum` is the type of v. The order of addition depends on the device only, so results repeat.
var<workgroup> red: array<{{ sum }}, {{ workgroup }}>;
{% if reduce == "sg" %}
var<workgroup> red_n: array<u32, {{ workgroup }}>;

// One slot a subgroup, that of its first invocation. Where subgroups are equal runs of neighbours, which is how devices
// pack them but no rule, the slots stand `n` apart. The counts tell: if those slots speak for fewer than all
// invocations, every slot is added.
fn workgroup_sum(v: {{ sum }}, li: u32) -> {{ sum }} {
    let s = subgroupAdd(v);
    let n = subgroupAdd(1u);
    let first = subgroupBroadcastFirst(li) == li;
    red[li] = select({{ sum }}(), s, first);
    red_n[li] = select(0u, n, first);
    workgroupBarrier();
    var total = {{ sum }}();
    var seen = 0u;
    for (var i = 0u; i < {{ workgroup }}u; i += n) {
        total += red[i];
        seen += red_n[i];
    }
    if (seen != {{ workgroup }}u) {
        total = {{ sum }}();
        for (var i = 0u; i < {{ workgroup }}u; i++) { total += red[i]; }
    }
    return total;
}
{% else %}
{% set fold = 16 if workgroup == 256 else 8 %}

// Folded twice, {{ workgroup }} to {{ fold }} and {{ fold }} to 1: two barriers.
fn workgroup_sum(v: {{ sum }}, li: u32) -> {{ sum }} {
    red[li] = v;
    workgroupBarrier();
    if (li < {{ fold }}u) {
        var part = v;
        for (var i = li + {{ fold }}u; i < {{ workgroup }}u; i += {{ fold }}u) { part += red[i]; }
        red[li] = part;
    }
    workgroupBarrier();
    var total = {{ sum }}();
    for (var i = 0u; i < {{ fold }}u; i++) { total += red[i]; }
    return total;
}
{% endif %}
