// Causal attention of many rows: row t sees keys 0..=pos + t, which are in the cache already. Grid [H, ceil(T / ROWS)].
// A workgroup takes {{ tile[1] }} rows of one head through the keys in tiles of {{ tile[0] }} with an online softmax. Queries, keys and values pass through
// workgroup memory 32 elements of the head at a time; each invocation has {{ rows }} x 4 scores and {{ rows }} x 4 elements of each slice of the output, so
// that what it reads from workgroup memory is used four times.
{% set slices = {"e64": 2, "e128": 4, "e256": 8}[width] %}
{% set f16 = kv == "f16" %}
{% include "common/state.wgsl" %}
{% include "common/kv_" ~ kv ~ ".wgsl" %}
override H: u32;        // query heads
override G: u32;        // kv heads; H / G query heads share one
override E: u32;        // head width: a multiple of 4, at most {{ slices * 32 }}
override CAP: u32;      // positions that the cache holds
override SCALE: f32;    // of the scores, usually 1 / sqrt(E)
override QSTRIDE: u32;  // f32 a row of qkv, a multiple of 4
override KB: u32;       // blocks of 32 a row of y: ceil(H*E / 32)

@group(0) @binding(1) var<storage, read> qkv: array<vec4<f32>>;  // [T][QSTRIDE/4]: H*E queries first, rotated
{% if not f16 %}
@group(0) @binding(2) var<storage, read> kc: array<vec4<f32>>;   // [G][CAP][EP/4], EP = E padded to a multiple of 8
@group(0) @binding(3) var<storage, read> vc: array<vec4<f32>>;   // [G][CAP][EP/4]
{% else %}
@group(0) @binding(2) var<storage, read> kc: array<vec4<u32>>;   // [G][CAP][EP/8], eight halves each; EP = E padded to a multiple of 8
@group(0) @binding(3) var<storage, read> vc: array<vec4<u32>>;   // [G][CAP][EP/8]
{% endif %}
@group(0) @binding(4) var<storage, read_write> y: array<vec4<f32>>;  // [T][KB*8], zero beyond H*E

const THREADS = {{ workgroup }}u;
const ROWS = {{ tile[1] }}u;     // rows of a workgroup
const KEYS = {{ tile[0] }}u;     // keys of a tile
const ACROSS = 8u;               // invocations that share rows
const DOWN = THREADS / ACROSS;   // and those that share keys
const PAD = 9u;                  // vec4 of a slice's row, one more than eight, against bank conflicts
const LOWEST = -3.4028234e38;

var<workgroup> q: array<vec4<f32>, ROWS * PAD>;    // [ROWS][PAD]: a slice of the queries, scaled
var<workgroup> kv: array<vec4<f32>, KEYS * PAD>;   // [KEYS][PAD]: a slice of K, then of V
var<workgroup> p: array<vec4<f32>, ROWS * PAD>;    // [ROWS][8]: exp(s - m); component j of vec4 x is key x + 8 j
// Scalars: a store into a vector's component may touch the whole vector.
var<workgroup> best: array<f32, ROWS * 8u>;        // [ROWS][8]: the largest score of each invocation's four

{# What is read from memory for the next slice, before the arithmetic of this one: nobody waits for it then. #}
{% set held = (128 if f16 else 256) // workgroup %}
{% set held_q = 256 // workgroup %}
{% macro fetch(cache, at_tile, at_slice) %}
{% for r in range(held) %}
            {
                let i = li + {{ r }}u * THREADS;
{% if f16 %}
                let at = {{ at_slice }} * 4u + i % 4u;
                let key = {{ at_tile }} + i / 4u;
                next{{ r }} = vec4<u32>();
                if (at < eights && key < end_key) { next{{ r }} = {{ cache }}[cache + key * eights + at]; }
{% else %}
                let at = {{ at_slice }} * 8u + i % 8u;
                let key = {{ at_tile }} + i / 8u;
                next{{ r }} = vec4<f32>();
                if (at < eights * 2u && key < end_key) { next{{ r }} = {{ cache }}[cache + key * eights * 2u + at]; }
{% endif %}
            }
{% endfor %}
{% endmacro %}
{% macro fetch_q(at_slice) %}
{% for r in range(held_q) %}
            {
                let i = li + {{ r }}u * THREADS;
                let column = {{ at_slice }} * 8u + i % 8u;
                next_q{{ r }} = vec4<f32>();
                if (column < width && t0 + i / 8u < state.rows) { next_q{{ r }} = qkv[(t0 + i / 8u) * (QSTRIDE / 4u) + head * width + column]; }
            }
{% endfor %}
{% endmacro %}
{% macro place() %}
{% for r in range(held) %}
            {
                let i = li + {{ r }}u * THREADS;
{% if f16 %}
                kv[i / 4u * PAD + i % 4u * 2u] = unpack_kv(next{{ r }}.xy);
                kv[i / 4u * PAD + i % 4u * 2u + 1u] = unpack_kv(next{{ r }}.zw);
{% else %}
                kv[i / 8u * PAD + i % 8u] = next{{ r }};
{% endif %}
            }
{% endfor %}
{% endmacro %}
{% macro place_q() %}
{% for r in range(held_q) %}
            q[(li + {{ r }}u * THREADS) / 8u * PAD + li % 8u] = next_q{{ r }} * SCALE;
{% endfor %}
{% endmacro %}
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let head = wid.x;
    // Late rows see the most keys: they go first.
    let t0 = (grid.y - 1u - wid.y) * ROWS;
    if (t0 >= state.rows || head >= H) { return; }
    let width = E / 4u;            // of a head, in vec4
    let slices = (E + 31u) / 32u;
    let eights = (E + 7u) / 8u;    // of a row of the cache
    let cache = head / (H / G) * CAP * {{ "eights" if f16 else "eights * 2u" }};
    let end_key = min(state.pos + min(t0 + ROWS, state.rows), CAP);
    let tx = li % ACROSS;  // keys tx + 8 j of a tile, vec4 tx of a slice of the output
    let ty = li / ACROSS;  // rows ty + DOWN i
{% for i in range(rows) %}
    var m{{ i }} = LOWEST;
    var l{{ i }} = 0.0;
{% for s in range(slices) %}
    var o{{ i }}_{{ s }} = vec4<f32>();
{% endfor %}
{% endfor %}

{% for r in range(held) %}
    var next{{ r }} = vec4<{{ "u32" if f16 else "f32" }}>();
{% endfor %}
{% for r in range(held_q) %}
    var next_q{{ r }} = vec4<f32>();
{% endfor %}
    {
{{ fetch("kc", "0u", "0u") }}{{ fetch_q("0u") }}    }
    for (var tile = 0u; tile < end_key; tile += KEYS) {
{% for i in range(rows) %}
        var s{{ i }} = vec4<f32>();
{% endfor %}
        for (var slice = 0u; slice < slices; slice++) {
            // What is replaced has been read.
            workgroupBarrier();
{{ place() }}{{ place_q() }}
            workgroupBarrier();
            if (slice + 1u < slices) {
{{ fetch("kc", "tile", "(slice + 1u)") }}{{ fetch_q("(slice + 1u)") }}
            } else {
{{ fetch("vc", "tile", "0u") }}
            }
            for (var c = 0u; c < 8u; c++) {
{% for j in range(4) %}
                let k{{ j }} = kv[(tx + {{ 8 * j }}u) * PAD + c];
{% endfor %}
{% for i in range(rows) %}
                {
                    let x = q[(ty + {{ i }}u * DOWN) * PAD + c];
                    s{{ i }} += vec4<f32>(dot(x, k0), dot(x, k1), dot(x, k2), dot(x, k3));
                }
{% endfor %}
            }
        }
        let keys = vec4<u32>(tile + tx) + vec4<u32>(0u, 8u, 16u, 24u);
{% for i in range(rows) %}
        let seen{{ i }} = keys <= vec4<u32>(state.pos + t0 + ty + {{ i }}u * DOWN);
        s{{ i }} = select(vec4<f32>(LOWEST), s{{ i }}, seen{{ i }});
        best[(ty + {{ i }}u * DOWN) * 8u + tx] = max(max(s{{ i }}.x, s{{ i }}.y), max(s{{ i }}.z, s{{ i }}.w));
{% endfor %}
        workgroupBarrier();
{% for i in range(rows) %}
        {
            let row = ty + {{ i }}u * DOWN;
            var m = m{{ i }};
            for (var x = 0u; x < 8u; x++) { m = max(m, best[row * 8u + x]); }
            let rescale = exp(m{{ i }} - m);
            let w = select(vec4<f32>(), exp(s{{ i }} - m), seen{{ i }});
            m{{ i }} = m;
            p[row * PAD + tx] = w;
            l{{ i }} = l{{ i }} * rescale + w.x + w.y + w.z + w.w;
{% for s in range(slices) %}
            o{{ i }}_{{ s }} *= rescale;
{% endfor %}
        }
{% endfor %}
{% for s in range(slices) %}
        if ({{ s }}u < slices) {
            workgroupBarrier();
{{ place() }}
            workgroupBarrier();
            if ({{ s + 1 }}u < slices) {
{{ fetch("vc", "tile", (s + 1) ~ "u") }}
            } else if (tile + KEYS < end_key) {
{{ fetch("kc", "(tile + KEYS)", "0u") }}{{ fetch_q("0u") }}
            }
            for (var x = 0u; x < 8u; x++) {
{% for j in range(4) %}
                let v{{ j }} = kv[(x + {{ 8 * j }}u) * PAD + tx];
{% endfor %}
{% for i in range(rows) %}
                {
                    let w = p[(ty + {{ i }}u * DOWN) * PAD + x];
                    o{{ i }}_{{ s }} += w.x * v0 + w.y * v1 + w.z * v2 + w.w * v3;
                }
{% endfor %}
            }
        }
{% endfor %}
    }

    // The sums of the weights: eight invocations have a row's.
    workgroupBarrier();
{% for i in range(rows) %}
    best[(ty + {{ i }}u * DOWN) * 8u + tx] = l{{ i }};
{% endfor %}
    workgroupBarrier();
{% for i in range(rows) %}
    {
        let row = ty + {{ i }}u * DOWN;
        var l = 0.0;
        for (var x = 0u; x < 8u; x++) { l += best[row * 8u + x]; }
        if (t0 + row < state.rows) {
            let out = (t0 + row) * KB * 8u;
{% for s in range(slices) %}
            if ({{ s * 8 }}u + tx < width) { y[out + head * width + {{ s * 8 }}u + tx] = o{{ i }}_{{ s }} / l; }
{% endfor %}
            if (head == H - 1u) {
                for (var x = H * width + tx; x < KB * 8u; x += ACROSS) { y[out + x] = vec4<f32>(); }
            }
        }
    }
{% endfor %}
}
