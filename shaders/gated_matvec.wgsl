// y[ROW0 + n] += sum over k of w[n][k] * v[k], for the N rows of w in this part, where v is the gated norm of x and z that gated_norm.wgsl
// describes: each workgroup makes it for itself, as int8, which costs less than a dispatch of its own. An int8 block does not depend on the norm's
// factor, which is multiplied to its scale, or, where all of a row is one group, to the finished sums.
{% extends "matvec.wgsl" %}
{% set normed = true %}
{% set unrolled = true %}
{% block input %}
{% include "common/int8.wgsl" %}
const SPLIT = 1u;
@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;    // [WIDTH / 4]
@group(0) @binding(4) var<storage, read> z: array<vec4<f32>>;    // gates from Z_AT on
@group(0) @binding(6) var<storage, read> nw: array<vec4<f32>>;   // [GROUP / 4] for all groups, or [WIDTH / 4]
override WIDTH: u32;            // 32 KB
override GROUP: u32;            // elements of a group, a multiple of 32
override Z_AT: u32;             // a multiple of 4
override OWN: u32 = 0u;         // 1: each group has weights of its own
override FIRST: u32 = 0u;       // 1: the gate comes before the norm
override NORMED: u32 = 1u;
override INNER: f32 = 1.0;      // of z
override OUTER: f32 = 1.0;      // of v, where nothing is normed
override EPS: f32;
var<workgroup> nq: array<vec2<u32>, {{ prologue_blocks * 4 }}>;   // [KB][4]: int8 of v, eight each, without the norm's factor
var<workgroup> ns: array<vec2<f32>, {{ prologue_blocks }}>;   // [KB]: (scale, scale * sum of the int8)
var<workgroup> squares: array<f32, {{ prologue_blocks * 4 }}>;   // [KB][4]: sums of squares of eight

struct Four {
    v: vec4<f32>,
    square: f32,
}

// Four elements of v without the norm's factor, and the squares of what is normed.
fn four(j: u32) -> Four {
    let at = INNER * z[Z_AT / 4u + j];
    let gate = at / (1.0 + exp(-at));
    let own = x[j];
    let gated = own * gate;
    if (NORMED == 0u) { return Four(OUTER * gated, 0.0); }
    let of_norm = select(own, gated, FIRST == 1u);
    return Four(gated * nw[select(j % (GROUP / 4u), j, OWN == 1u)], dot(of_norm, of_norm));
}

{% from "common/shuffles" ~ through ~ ".wgsl" import most, sum with context %}
fn prologue(li: u32) {
    // Four invocations share a block.
    for (var first = 0u; first < KB * 4u; first += {{ workgroup }}u) {
        let inside = first + li < KB * 4u;
        let j = min(first + li, KB * 4u - 1u);
        let a = four(j * 2u);
        let c = four(j * 2u + 1u);
        var largest = max(largest4(a.v), largest4(c.v));
{{ most("largest", 4) }}
        let d = largest / 127.0;
        let q = vec2<u32>(quantize4(a.v, d), quantize4(c.v, d));
        var total = total4(q.x) + total4(q.y);
{{ sum("total", 4, "i32") }}
        if (inside) {
            nq[j] = q;
            squares[j] = a.square + c.square;
            if (j % 4u == 0u) { ns[j / 4u] = vec2<f32>(d, d * f32(total)); }
        }
    }
    workgroupBarrier();
    if (NORMED == 0u || GROUP == WIDTH) { return; }
    for (var b = li; b < KB; b += {{ workgroup }}u) {
        let first = b * 32u / GROUP * (GROUP / 8u);
        var sum = 0.0;
        for (var j = 0u; j < GROUP / 8u; j++) { sum += squares[first + j]; }
        ns[b] *= inverseSqrt(sum / f32(GROUP) + EPS);
    }
    workgroupBarrier();
}

// What is multiplied to the finished sums. Groups of lanes add up the squares of a whole row.
fn whole(lane: u32, li: u32) -> f32 {
    if (NORMED == 0u || GROUP != WIDTH) { return 1.0; }
    var sum = 0.0;
    for (var j = lane; j < KB * 4u; j += LANES) { sum += squares[j]; }
    return inverseSqrt(lane_sum(sum, li) / f32(GROUP) + EPS);
}
{% endblock %}
{% block output %}
override N: u32;      // rows of this part
@group(0) @binding(5) var<storage, read_write> y: array<f32>;    // [>= ROW0 + N]: the residual stream
const NSTRIDE = 0u;
override ROW0: u32;   // where in y this part begins
{% endblock %}
{% block prologue %}
    prologue(li);
{% endblock %}
{% block sums %}
    let factor = whole(lane, li);
{% if memory %}
{{ left.leave("sum") }}
{% else %}
{% for r in range(rows) %}
    let s{{ r }} = lane_sum(sum{{ r }}, li) * factor;
{% endfor %}
{% endif %}
{% endblock %}
{% block finish %}
{% if memory %}
    if (li < GROUPS * {{ rows }}u && first + li < N) { y[ROW0 + first + li] += row_sum(li / {{ rows }}u, li % {{ rows }}u) * factor; }
{% else %}
    if (li % LANES == 0u) {
{% for r in range(rows) %}
        let n{{ r }} = first + group * {{ rows }}u + {{ r }}u;
        if (n{{ r }} < N) { y[ROW0 + n{{ r }}] += s{{ r }}; }
{% endfor %}
    }
{% endif %}
{% endblock %}
