// y[t][ROW0 + n] (+)= sum over k of w[n][k] * x[t][k] (+ bias[n]): a tile of {{ tile[0] }} (n) x {{ tile[1] }} (t) a workgroup. K goes through workgroup memory.
// int8: {{ "two" if span != "n32" else "four" }} blocks of 32 a stage, each block decoded once, by one invocation{{ "; each of them is multiplied by a quarter of the invocations, whose sums are added last: few rows would else leave the GPU without workgroups" if span == "n32" }}.
// Floats: half a block, turned so that an invocation reads four rows of one k at once. An invocation reads the numbers and scales that it brings of a block once, for both halves. Activations in halves become f32 on their way to workgroup memory.
{% set wide = 8 if span == "n32" else 16 %}{# invocations that share rows #}
{% set experts = experts | default(false) %}
{% set halved = act != "q8" and span == "n64" and not experts %}{# two groups of invocations take half of each stage's k #}
{% set across = tile[0] // wide if act == "q8" else tile[0] * tile[1] * (2 if halved else 1) // (workgroup * rows) %}{# columns of an invocation #}
{% set sides = workgroup == tile[0] + tile[1] %}{# in floats: some invocations bring w, the others x #}
{% set groups = workgroup // (wide * (tile[1] // rows)) if act == "q8" else 2 if halved else 1 %}{# of invocations, each with blocks of its own; in floats k of its own #}
{% set blocks = [groups, 2] | max %}{# of a stage #}
{% include "common/state.wgsl" %}
{% include "common/weight.wgsl" %}
{% include "common/activations.wgsl" %}
{% import "common/weight_" ~ weight ~ ".wgsl" as type with context %}
{% if act == "q8" %}
{% set halves = type.halves_scale %}
{% set both = type.has_min == "halves" %}
{% set mins = type.has_min and not both %}
const SPAN = {{ tile[0] }}u;
const TALL = {{ tile[1] }}u;
const THREADS = {{ workgroup }}u;
const BLOCKS = {{ blocks }}u;
const WIDE = {{ wide }}u;         // invocations that share rows
{% set Scales = "vec2<u32>" if both else "vec2<f32>" if halves or mins else "f32" %}
var<workgroup> wt: array<vec4<u32>, BLOCKS * 2u * SPAN>;   // [BLOCKS][2 halves][SPAN n]: 16 int8 each
var<workgroup> xt: array<vec4<u32>, BLOCKS * 2u * TALL>;   // [BLOCKS][2 halves][TALL t]
var<workgroup> wd: array<{{ Scales }}, BLOCKS * SPAN>;     // [BLOCKS][SPAN]: scales{% if halves %} of both halves{% elif mins %} and mins{% endif %}

var<workgroup> xd: array<{{ "vec2<f32>" if mins else "f32" }}, BLOCKS * TALL>;   // [BLOCKS][TALL]: scales{% if mins %}, and scales times sums{% endif %}

{% else %}
const WIDE = {{ tile[0] // 4 + 1 }}u;   // one more than there are: neighbours store to other banks
const HIGH = {{ tile[1] // 4 + 1 }}u;
var<workgroup> wt: array<vec4<f32>, 16u * WIDE>;   // [16 k][{{ tile[0] }} n / 4]
var<workgroup> xt: array<vec4<f32>, 16u * HIGH>;   // [16 k][{{ tile[1] }} t / 4]
{% endif %}
{% if groups > 1 %}
const GROUP = {{ workgroup // groups }}u;
{% endif %}
@group(0) @binding(5) var<storage, read_write> y: array<f32>;    // [T][NSTRIDE]

override KB: u32;        // blocks of a row, ceil(K / 32)
override NSTRIDE: u32;   // f32 elements between rows of y
override BIAS: u32 = 0u; // 1: the bias is added
{% block output %}
override N: u32;         // rows of w in this part
override ROW0: u32;      // where in a row of y this part begins
override ADD: u32;       // 1: y is added to, the residual
@group(0) @binding(6) var<storage, read> bias: array<f32>;       // [>= ROW0 + N], read where BIAS is 1
fn x_row(t: u32) -> u32 { return t; }
{% endblock %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let n0 = wid.x * {{ tile[0] }}u;
{% block tile %}
    let t0 = wid.y * {{ tile[1] }}u;
    let end = state.rows;
    if (n0 >= N || t0 >= end) { return; }
{% endblock %}
{% set base = "base + " if experts else "" %}
{% set tall = rows %}
{% for i in range(tall) %}{% for g in range(across // 4) %}
    var c{{ i }}_{{ g }} = vec4<f32>();
{% endfor %}{% endfor %}
{% if groups > 1 %}
    let group = li / GROUP;
    let lane = li % GROUP;
{% else %}
    let lane = li;
{% endif %}
{% if act == "q8" %}
    let tx = lane % WIDE;                  // columns n0 + tx + WIDE j
    let ty = lane / WIDE * {{ tall }}u;    // rows t0 + ty + i
    let busy = t0 + ty < end;
    // What an invocation brings of a stage: halves of blocks of x, and whole blocks of w. Rows beyond the last repeat it and are not written.
{% set halves_each = (tile[1] * blocks * 2 + workgroup - 1) // workgroup %}
{% set blocks_each = (tile[0] * blocks + workgroup - 1) // workgroup %}
{% for r in range(halves_each) %}
    let half{{ r }} = li + {{ r * workgroup }}u;
    let x_row{{ r }} = x_row(min(t0 + half{{ r }} / (2u * BLOCKS), end - 1u)) * KB;
    let x_to{{ r }} = half{{ r }} / 2u % BLOCKS * TALL + half{{ r }} / (2u * BLOCKS);
{% endfor %}
{% for r in range(blocks_each) %}
    let block{{ r }} = li + {{ r * workgroup }}u;
    let w_row{{ r }} = {{ base }}min(n0 + block{{ r }} / BLOCKS, N - 1u) * KB;
    let w_to{{ r }} = block{{ r }} % BLOCKS * SPAN + block{{ r }} / BLOCKS;
    var read_w{{ r }} = Whole();
    var read_wd{{ r }} = {{ Scales }}();
{% endfor %}
    for (var first = 0u; first < KB; first += BLOCKS) {
        // Loads are under way while others still multiply.
{% for r in range(halves_each) %}
        let x_kb{{ r }} = first + half{{ r }} / 2u % BLOCKS;
        let x_at{{ r }} = x_row{{ r }} + min(x_kb{{ r }}, KB - 1u);
        let read_x{{ r }} = xq[x_at{{ r }} * 2u + half{{ r }} % 2u];
        // A block beyond the last counts nothing.
        let read_xd{{ r }} = select({{ "vec2<f32>()" if mins else "0.0" }}, xs[x_at{{ r }}]{{ "" if mins else ".x" }}, x_kb{{ r }} < KB);
{% endfor %}
{% for r in range(blocks_each) %}
        {{ "if (block" ~ r ~ " < SPAN * BLOCKS) " if (r + 1) * workgroup > tile[0] * blocks }}{
            let b = w_row{{ r }} + min(first + block{{ r }} % BLOCKS, KB - 1u);
            read_w{{ r }} = w_bytes(b);
            read_wd{{ r }} = {{ "w_tile(b)" if both else "w_scales(b)." ~ ("xy" if halves else "xz" if mins else "x") }};
        }
{% endfor %}
        // What is replaced has been read.
        workgroupBarrier();
{% for r in range(halves_each) %}
        xt[x_to{{ r }} + (half{{ r }} / 2u % BLOCKS + half{{ r }} % 2u) * TALL] = read_x{{ r }};
        if (half{{ r }} % 2u == 0u) { xd[x_to{{ r }}] = read_xd{{ r }}; }
{% endfor %}
{% for r in range(blocks_each) %}
        {{ "if (block" ~ r ~ " < SPAN * BLOCKS) " if (r + 1) * workgroup > tile[0] * blocks }}{
            let to = w_to{{ r }} + block{{ r }} % BLOCKS * SPAN;
            wt[to] = read_w{{ r }}.a;
            wt[to + SPAN] = read_w{{ r }}.b;
            wd[w_to{{ r }}] = read_wd{{ r }};
        }
{% endfor %}
        workgroupBarrier();
        if (busy) {
{% if groups > 1 %}
            {
                let k = group;
{% else %}
            for (var k = 0u; k < BLOCKS; k++) {
{% endif %}
{% for i in range(tall) %}
                let p{{ i }} = xt[k * 2u * TALL + ty + {{ i }}u];
                let q{{ i }} = xt[(k * 2u + 1u) * TALL + ty + {{ i }}u];
                let x{{ i }} = xd[k * TALL + ty + {{ i }}u];
{% if both %}
                let s{{ i }} = x{{ i }} * vec2<f32>({% for v in ["p", "q"] %}f32({% for c in ["x", "y", "z", "w"] %}dot4I8Packed(0x01010101u, {{ v }}{{ i }}.{{ c }}){% if not loop.last %} + {% endif %}{% endfor %}){% if not loop.last %}, {% endif %}{% endfor %});
{% endif %}
{% endfor %}
{% for j in range(across) %}
                {
                    let u = wt[k * 2u * SPAN + tx + {{ j * wide }}u];
                    let v = wt[(k * 2u + 1u) * SPAN + tx + {{ j * wide }}u];
                    let d = {{ "of_tile" if both }}(wd[k * SPAN + tx + {{ j * wide }}u]);
{% for i in range(tall) %}
                    {
                        let ta = {% for c in ["x", "y", "z", "w"] %}dot4I8Packed(u.{{ c }}, p{{ i }}.{{ c }}){% if not loop.last %} + {% endif %}{% endfor %};
                        let tb = {% for c in ["x", "y", "z", "w"] %}dot4I8Packed(v.{{ c }}, q{{ i }}.{{ c }}){% if not loop.last %} + {% endif %}{% endfor %};
{% set c = "c" ~ i ~ "_" ~ (j // 4) ~ "." ~ ["x", "y", "z", "w"][j % 4] %}
{% if halves %}
                        {{ c }} += x{{ i }} * (d.x * f32(ta) + d.y * f32(tb)){{ " - dot(d.zw, s" ~ i ~ ")" if both }};
{% elif mins %}
                        {{ c }} += d.x * (x{{ i }}.x * f32(ta + tb)) - d.y * x{{ i }}.y;
{% else %}
                        {{ c }} += d * (x{{ i }} * f32(ta + tb));
{% endif %}
                    }
{% endfor %}
                }
{% endfor %}
            }
        }
    }
{% else %}
    let tx = lane % {{ tile[0] // across }}u;   // columns n0 + 4 tx + c{{ ", and " ~ tile[0] // 2 ~ " more" if across == 8 }}
    let ty = lane / {{ tile[0] // across }}u;   // rows t0 + 4 ty + i{{ ", and 32 more" if tall == 8 }}
{% set straight = 8 if halved else 16 if span == "n128" else 1 %}{# k in a row; a loop leaves the unrolling to the compiler #}
{% if straight == 1 %}
    let busy = t0 + ty * 4u < end;
{% endif %}
    // An invocation brings four k of four rows of w{{ " or of x" if sides else "; the first " ~ tile[1] ~ " also of four rows of x" }}. Rows beyond the last repeat it and are not written.
    let j = li % 4u;
{% if sides %}
    let of_x = li >= {{ tile[0] }}u;
    let four = (li - select(0u, {{ tile[0] }}u, of_x)) / 4u;
{% else %}
    let four = li / 4u;
{% endif %}
{% set if_w, if_x = ("if (!of_x) ", "if (of_x) ") if sides else ("", "if (four < " ~ tile[1] // 4 ~ "u) ") %}
{% set whole = type.numbers and type.own_w4 is not defined %}{# numbers and scales of a block are loaded once, for both halves #}
{% set Scales = "vec4<f32>" if type.has_min == "halves" else "vec3<f32>" %}
{% for r in range(4) %}
    let w_row{{ r }} = {{ base }}min(n0 + four * 4u + {{ r }}u, N - 1u) * KB;
    let x_at{{ r }} = x_row(min(t0 + four * 4u + {{ r }}u, end - 1u)) * KB * 8u;
    var x{{ r }} = vec4<{{ act }}>();
{% if whole %}
    var q{{ r }} = vec2<u32>();
    var s{{ r }} = {{ Scales }}();
{% else %}
    var w{{ r }} = vec4<f32>();
{% endif %}
{% endfor %}
{# Loads what half h of a block needs: x, and w where it is not `whole`, of which both halves come with the first. #}
{% macro bring(block, h) %}
{% if h == 0 or not whole %}
            {{ if_w }}{
{% for r in range(4) %}
{% if whole %}
                q{{ r }} = w_pair(w_row{{ r }} + {{ block }}, j);
                s{{ r }} = w_scales(w_row{{ r }} + {{ block }});
{% else %}
                w{{ r }} = w4(w_row{{ r }} + {{ block }}, j + {{ h * 4 }}u);
{% endif %}
{% endfor %}
            }
{% endif %}
            {{ if_x }}{
{% for r in range(4) %}
                x{{ r }} = x[x_at{{ r }} + {{ block }} * 8u + j + {{ h * 4 }}u];
{% endfor %}
            }
{% endmacro %}
    {
{{ bring("0u", 0) }}
    }
    for (var kb = 0u; kb < KB; kb++) {
{% for h in range(2) %}
        // What is replaced has been read.
        workgroupBarrier();
        {{ if_w }}{
{% if whole %}
            let v = vec4<u32>({% for r in range(4) %}q{{ r }}.{{ "xy"[h] }}{{ ", " if r < 3 }}{% endfor %});
            let high = v >> vec4<u32>(16u);
            let scales = vec4<f32>({% for r in range(4) %}s{{ r }}.{{ "xy"[h] }}{{ ", " if r < 3 }}{% endfor %});
{% if type.has_min %}
            let mins = vec4<f32>({% for r in range(4) %}s{{ r }}.{{ "zw"[h] if type.has_min == "halves" else "z" }}{{ ", " if r < 3 }}{% endfor %});
{% endif %}
{% for c in range(4) %}
            wt[(j * 4u + {{ c }}u) * WIDE + four] = of_bits({{ "high" if c > 1 else "v" }} & vec4<u32>({{ "0xff00u" if c % 2 else "0xffu" }}), vec4<f32>(0x1p23f + {{ "256.0 * " if c % 2 }}PAIR_ZERO)) * {{ "(scales / 256.0)" if c % 2 else "scales" }}{{ " - mins" if type.has_min }};
{% endfor %}
{% else %}
{% for c in ["x", "y", "z", "w"] %}
            wt[(j * 4u + {{ loop.index0 }}u) * WIDE + four] = vec4<f32>({% for r in range(4) %}w{{ r }}.{{ c }}{{ ", " if r < 3 }}{% endfor %});
{% endfor %}
{% endif %}
        }
        {{ if_x }}{
{% for c in ["x", "y", "z", "w"] %}
            xt[(j * 4u + {{ loop.index0 }}u) * HIGH + four] = vec4<f32>(vec4<{{ act }}>({% for r in range(4) %}x{{ r }}.{{ c }}{{ ", " if r < 3 }}{% endfor %}));
{% endfor %}
        }
        workgroupBarrier();
        {
            // The next half comes from memory meanwhile; behind the last a block comes again.
{% if h == 0 %}
{{ bring("kb", 1) }}
{% else %}
            let next = min(kb + 1u, KB - 1u);
{{ bring("next", 0) }}
{% endif %}
        }
        {{ "if (busy) " if straight == 1 }}{
{% if straight == 1 %}
            for (var at = 0u; at < 16u; at++) {
{% elif groups > 1 %}
            {
                let at = group * {{ straight }}u;
{% else %}
            {
                const at = 0u;
{% endif %}
{% for k in range(straight) %}
                {
                    let k = at + {{ k }}u;
                    let a0 = xt[k * HIGH + ty];
{% if tall == 8 %}
                    let a1 = xt[k * HIGH + 8u + ty];
{% endif %}
                    let b0 = wt[k * WIDE + tx];
{% if across == 8 %}
                    let b1 = wt[k * WIDE + {{ tile[0] // 8 }}u + tx];
{% endif %}
{% for i in range(tall) %}{% for g in range(across // 4) %}
                    c{{ i }}_{{ g }} += a{{ i // 4 }}.{{ ["x", "y", "z", "w"][i % 4] }} * b{{ g }};
{% endfor %}{% endfor %}
                }
{% endfor %}
            }
        }
{% endfor %}
    }
{% if groups > 1 %}
    // The sums of the other group, two rows at a time, in the place of w.
{% for i in range(0, tall, 2) %}
{% set sums = ["c" ~ i ~ "_0", "c" ~ i ~ "_1", "c" ~ (i + 1) ~ "_0", "c" ~ (i + 1) ~ "_1"] %}
    workgroupBarrier();
    if (group > 0u) {
{% for c in sums %}
        wt[{{ loop.index0 }}u * GROUP + lane] = {{ c }};
{% endfor %}
    }
    workgroupBarrier();
    if (group == 0u) {
{% for c in sums %}
        {{ c }} += wt[{{ loop.index0 }}u * GROUP + lane];
{% endfor %}
    }
{% endfor %}
    if (group > 0u) { return; }
{% endif %}
{% for i in range(tall) %}
    {
        let t = t0 + ty * 4u + {{ i // 4 * 32 + i % 4 }}u;
        if (t < end) {
{% for g in range(across // 4) %}
            put(t, n0 + tx * 4u + {{ g * (tile[0] // 2) }}u, c{{ i }}_{{ g }});
{% endfor %}
        }
    }
{% endfor %}
{% endif %}
{% if act == "q8" %}
{% if groups > 1 %}
    // The sums of the other groups, a row at a time, in the place of w.
{% for i in range(tall) %}
    workgroupBarrier();
    if (group > 0u) { wt[(group - 1u) * GROUP + lane] = bitcast<vec4<u32>>(c{{ i }}_0); }
    workgroupBarrier();
    if (group == 0u) {
        for (var other = 0u; other < {{ groups - 1 }}u; other++) { c{{ i }}_0 += bitcast<vec4<f32>>(wt[other * GROUP + lane]); }
    }
{% endfor %}
    if (group > 0u) { return; }
{% endif %}
{% for i in range(tall) %}
    if (t0 + ty + {{ i }}u < end) {
{% for g in range(across // 4) %}
        put(t0 + ty + {{ i }}u, n0 + tx + {{ g * 4 * wide }}u, c{{ i }}_{{ g }});
{% endfor %}
    }
{% endfor %}
{% endif %}
}

// Four columns of row t{{ ", " ~ wide ~ " apart" if act == "q8" }}.
fn put(t: u32, n: u32, v: vec4<f32>) {
    for (var j = 0u; j < 4u; j++) {
        let column = n + j{{ " * WIDE" if act == "q8" }};
        if (column < N) {
            var sum = v[j];
{% block store %}
            let at = t * NSTRIDE + ROW0 + column;
            if (BIAS == 1u) { sum += bias[ROW0 + column]; }
            y[at] = select(sum, y[at] + sum, ADD == 1u);
{% endblock %}
        }
    }
}
