// Causal attention of many rows: row t sees keys 0..=pos + t, or the last WINDOW of them, which are in the cache already. Where SPANS is not 0 rows are
// of several texts and see those of their own: where it is 2 also keys behind their own, WINDOW - 1 at most. Where it is 3 rows of a picture also see
// those of the same picture that come behind them, where it is 4 also those before them that the window leaves out.
// Grid [H, ceil(T / ROWS)].
// A workgroup takes {{ tile[1] }} rows of one head through the keys in tiles of {{ tile[0] }} with an online softmax. Queries and keys pass through workgroup
// memory 32 elements at a time, weights and values 32 keys at a time, all of them in f32, so that an invocation reads no number twice and converts none:
// it has {{ rows }} x 4 scores, and {{ rows }} x 4 elements of each {{ tile[0] }} of the output.
{% set f16 = kv != "f32" %}
{% set word = 8 if f16 else 4 %}{# elements that an invocation reads at once #}
{% set parts = word // 4 %}{# vec4 of them #}
{% set across = tile[0] // 4 %}{# invocations that share rows #}
{% set down = tile[1] // rows %}{# and those that share keys #}
{% set fours = (rows + 3) // 4 %}{# vec4 of an invocation's rows #}
{% set spans = {"e64": 64, "e128": 128, "e256": 256, "e512": 512}[width] // tile[0] %}{# pieces of the output, of 4 x across elements #}
{% set groups = tile[0] // 32 %}{# of 32 keys #}
{% set Word = "vec4<u32>" if kv == "f16" else "vec3<u32>" if kv == "q8" else "vec4<f32>" %}
{% include "common/state.wgsl" %}
{% include "common/kv_" ~ ("f16" if f16 else "f32") ~ ".wgsl" %}
{% include "common/window.wgsl" %}
override H: u32;        // query heads
override G: u32;        // kv heads; H / G query heads share one
override E: u32;        // head width: a multiple of 4, at most {{ spans * tile[0] }}
override SCALE: f32;    // of the scores, usually 1 / sqrt(E)
override QSTRIDE: u32;  // f32 a row of qkv, a multiple of 4
override SLOTS: u32 = 1u;  // sequences that have a cache in the buffers
override KB: u32;       // blocks of 32 a row of y: ceil(H*E / 32)
override GATE: u32 = 0u;   // not 0: outputs are multiplied by the sigmoid of their gates, which a row of qkv has from here on
override FACTOR: f32 = 1.0;   // of the outputs
override SINKS: u32 = 0u;      // 1: each head has a score that no value belongs to
override SPANS: u32 = 0u;
{% include "common/slots.wgsl" %}

@group(0) @binding(1) var<storage, read> qkv: array<vec4<f32>>;  // [T][QSTRIDE/4]: H*E queries first, rotated
{% if kv == "q8" %}
@group(0) @binding(2) var<storage, read> kc: array<vec2<u32>>;   // [SLOTS][G][CAP][EP/8]: int8, E padded to blocks of 32
@group(0) @binding(3) var<storage, read> vc: array<vec2<u32>>;   // [SLOTS][G][CAP][EP/8]
@group(0) @binding(5) var<storage, read> ks: array<f32>;         // [SLOTS][G][CAP][EP/32]: the blocks' scales
@group(0) @binding(6) var<storage, read> vs: array<f32>;         // [SLOTS][G][CAP][EP/32]
fn k_word(i: u32) -> vec3<u32> { return vec3<u32>(kc[i], bitcast<u32>(ks[i / 4u])); }
fn v_word(i: u32) -> vec3<u32> { return vec3<u32>(vc[i], bitcast<u32>(vs[i / 4u])); }
fn part0(w: vec3<u32>) -> vec4<f32> { return bitcast<f32>(w.z) * vec4<f32>(unpack4xI8(w.x)); }
fn part1(w: vec3<u32>) -> vec4<f32> { return bitcast<f32>(w.z) * vec4<f32>(unpack4xI8(w.y)); }
{% else %}
@group(0) @binding(2) var<storage, read> kc: array<{{ Word }}>;  // [SLOTS][G][CAP][EP/{{ word }}], EP = E padded to a multiple of 8
@group(0) @binding(3) var<storage, read> vc: array<{{ Word }}>;  // [SLOTS][G][CAP][EP/{{ word }}]
fn k_word(i: u32) -> {{ Word }} { return kc[i]; }
fn v_word(i: u32) -> {{ Word }} { return vc[i]; }
{% if f16 %}
fn part0(w: vec4<u32>) -> vec4<f32> { return unpack_kv(w.xy); }
fn part1(w: vec4<u32>) -> vec4<f32> { return unpack_kv(w.zw); }
{% else %}
fn part0(w: vec4<f32>) -> vec4<f32> { return w; }
{% endif %}
{% endif %}
@group(0) @binding(4) var<storage, read_write> y: array<vec4<f32>>;  // [T][KB*8], zero beyond H*E

@group(0) @binding(7) var<storage, read> sinks: array<f32>;          // [H], read where SINKS is 1
@group(0) @binding(8) var<storage, read> spans: array<vec2<u32>>;    // [T]: of row t's text or picture the first position and the one behind its last; 0 outside of pictures

// What row t sees: the first key, and the one behind the last.
fn sees(t: u32) -> vec2<u32> {
    let pos = state.pos + t;
    let first = pos + 1u - seen(pos);
    if (SPANS == 0u) { return vec2<u32>(first, pos + 1u); }
    let text = spans[t];
    if (SPANS >= 3u) {
        let whole = SPANS == 4u && text.y > pos;
        return vec2<u32>(select(first, min(first, text.x), whole), max(pos + 1u, text.y));
    }
    let end = select(pos + 1u, pos + min(text.y - pos, WINDOW), SPANS == 2u);
    return vec2<u32>(max(text.x, first), end);
}

fn gated(y: vec4<f32>, row: u32, i: u32) -> vec4<f32> {
    if (GATE == 0u) { return FACTOR * y; }
    return FACTOR * y / (1.0 + exp(-qkv[(row * QSTRIDE + GATE) / 4u + i]));
}

const THREADS = {{ workgroup }}u;
const ROWS = {{ tile[1] }}u;     // rows of a workgroup
const KEYS = {{ tile[0] }}u;     // keys of a tile
const ACROSS = {{ across }}u;    // invocations that share rows
const DOWN = {{ down }}u;        // and those that share keys
const LOWEST = -3.4028234e38;

// Together no more than the default limit of 16 KiB.
var<workgroup> a: array<vec4<f32>, ROWS * 8u>;   // [ROWS][8]: a slice of the queries, scaled; then exp(s - m), component j of vec4 x is key x + ACROSS j
var<workgroup> b: array<vec4<f32>, KEYS * 8u>;   // [KEYS][8]: a slice of K; then what rows have found; then [32][ACROSS]: V of 32 keys

// Where vec4 `c` of a row stands: turned by the row's number, so that eight neighbours reach eight banks.
fn at(row: u32, c: u32) -> u32 { return row * 8u + (c ^ (row & 7u)); }

{# What is needed next is read from memory before the arithmetic: nobody waits for it then. #}
{% set held = tile[0] * 32 // word // workgroup %}
{% set held_q = tile[1] * 8 // workgroup %}
{% set row_words = 32 // word %}{# words of a slice of a key #}
{% set value_words = tile[0] // word %}{# and of a piece of a value #}
{% macro fetch_k(tile, at, slice) %}
{% for r in range(held) %}
                {
                    let i = li + {{ r }}u * THREADS;
                    let word = {{ slice }} * {{ row_words }}u + i % {{ row_words }}u;
                    let key = {{ tile }} + i / {{ row_words }}u;
                    next{{ r }} = {{ Word }}();
                    if (word < words && key < end_key) { next{{ r }} = k_word(cache + slot(key, {{ tile }}, {{ at }}, cap) * words + word); }
                }
{% endfor %}
{% endmacro %}
{% macro fetch_v(tile, at, group, piece) %}
{% for r in range(held) %}
                {
                    let i = li + {{ r }}u * THREADS;
                    let word = {{ piece * value_words }}u + i % {{ value_words }}u;
                    let n = i / {{ value_words }}u;
                    let key = {{ tile }} + {{ group * 8 }}u + n / 4u + n % 4u * ACROSS;
                    next{{ r }} = {{ Word }}();
                    if (word < words && key < end_key) { next{{ r }} = v_word(cache + slot(key, {{ tile }}, {{ at }}, cap) * words + word); }
                }
{% endfor %}
{% endmacro %}
{% macro fetch_q(slice) %}
{% for r in range(held_q) %}
                {
                    let i = li + {{ r }}u * THREADS;
                    let column = {{ slice }} * 8u + i % 8u;
                    next_q{{ r }} = vec4<f32>();
                    if (column < width && t0 + i / 8u < state.rows) { next_q{{ r }} = qkv[(t0 + i / 8u) * (QSTRIDE / 4u) + head * width + column] * SCALE; }
                }
{% endfor %}
{% endmacro %}
{% macro place_k() %}
{% for r in range(held) %}{% for n in range(parts) %}
            b[at((li + {{ r }}u * THREADS) / {{ row_words }}u, (li + {{ r }}u * THREADS) % {{ row_words }}u * {{ parts }}u + {{ n }}u)] = part{{ n }}(next{{ r }});
{% endfor %}{% endfor %}
{% endmacro %}
{% macro place_v() %}
{% for r in range(held) %}{% for n in range(parts) %}
            b[(li + {{ r }}u * THREADS) * {{ parts }}u + {{ n }}u] = part{{ n }}(next{{ r }});
{% endfor %}{% endfor %}
{% endmacro %}
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let head = wid.x;
    // Late rows see the most keys: they go first.
    let t0 = (grid.y - 1u - wid.y) * ROWS;
    if (t0 >= state.rows || head >= H) { return; }
    let width = E / 4u;                           // of a head, in vec4
    let slices = (E + 31u) / 32u;
    let words = {{ "(E + 31u) / 32u * 4u" if kv == "q8" else "(E + 7u) / 8u * " ~ 8 // word ~ "u" }};   // of a row of the cache
    let cap = arrayLength(&kc) / (SLOTS * G * words);
    let cache = (state.slot * G + head / (H / G)) * cap * words;
    let end_key = sees(min(t0 + ROWS, state.rows) - 1u).y;
    // What the first row sees.
    let first_key = sees(t0).x;
    var tile_slot = first_key % cap;
    let tx = li % ACROSS;  // keys tx + ACROSS j of a tile, vec4 tx of a piece of the output
    let ty = li / ACROSS;  // rows ty + DOWN i
{% for i in range(rows) %}
    var m{{ i }} = LOWEST;
    var l{{ i }} = 0.0;
    if (SINKS == 1u) {
        m{{ i }} = sinks[head];
        // Those who share a row have its sum.
        l{{ i }} = select(0.0, 1.0, tx == 0u);
    }
{% for s in range(spans) %}
    var o{{ i }}_{{ s }} = vec4<f32>();
{% endfor %}
{% endfor %}
{% for r in range(held) %}
    var next{{ r }} = {{ Word }}();
{% endfor %}
{% for r in range(held_q) %}
    var next_q{{ r }} = vec4<f32>();
{% endfor %}
{{ fetch_k("first_key", "tile_slot", "0u") }}{{ fetch_q("0u") }}
    for (var tile = first_key; tile < end_key; tile += KEYS) {
{% for i in range(rows) %}
        var s{{ i }} = vec4<f32>();
{% endfor %}
        for (var slice = 0u; slice < slices; slice++) {
            // What is replaced has been read.
            workgroupBarrier();
{{ place_k() }}
{% for r in range(held_q) %}
            a[at((li + {{ r }}u * THREADS) / 8u, li % 8u)] = next_q{{ r }};
{% endfor %}
            workgroupBarrier();
            if (slice + 1u < slices) {
{{ fetch_k("tile", "tile_slot", "(slice + 1u)") }}{{ fetch_q("(slice + 1u)") }}
            } else {
{{ fetch_v("tile", "tile_slot", 0, 0) }}
            }
            let some = min(width - slice * 8u, 8u);
            for (var c = 0u; c < some; c++) {
{% for j in range(4) %}
                let k{{ j }} = b[at(tx, c) + {{ j * across * 8 }}u];
{% endfor %}
{% for i in range(rows) %}
                let x{{ i }} = a[at(ty, c) + {{ i * down * 8 }}u];
{% for c in ["x", "y", "z", "w"] %}
                s{{ i }} += x{{ i }}.{{ c }} * vec4<f32>(k0.{{ c }}, k1.{{ c }}, k2.{{ c }}, k3.{{ c }});
{% endfor %}
{% endfor %}
            }
        }
        let keys = vec4<u32>(tile + tx) + vec4<u32>(0u, ACROSS, {{ 2 * across }}u, {{ 3 * across }}u);
{% for n in range(fours) %}
        var best{{ n }} = vec4<f32>(LOWEST);
{% endfor %}
{% for i in range(rows) %}
        let sees{{ i }} = sees(min(t0 + ty + {{ i }}u * DOWN, state.rows - 1u));
        let seen{{ i }} = (keys >= vec4<u32>(sees{{ i }}.x)) & (keys < vec4<u32>(sees{{ i }}.y));
        s{{ i }} = select(vec4<f32>(LOWEST), capped1(s{{ i }}), seen{{ i }});
        best{{ i // 4 }}[{{ i % 4 }}] = max(max(s{{ i }}.x, s{{ i }}.y), max(s{{ i }}.z, s{{ i }}.w));
{% endfor %}
        // K has been read: its place is the rows'.
        workgroupBarrier();
{% for n in range(fours) %}
        b[({{ n }}u * DOWN + ty) * ACROSS + (tx ^ (ty & 7u))] = best{{ n }};
{% endfor %}
        workgroupBarrier();
        for (var x = 0u; x < ACROSS; x++) {
{% for n in range(fours) %}
            best{{ n }} = max(best{{ n }}, b[({{ n }}u * DOWN + ty) * ACROSS + (x ^ (ty & 7u))]);
{% endfor %}
        }
{% for i in range(rows) %}
        {
            let m = max(m{{ i }}, best{{ i // 4 }}[{{ i % 4 }}]);
            let rescale = exp(m{{ i }} - m);
            s{{ i }} = select(vec4<f32>(), exp(s{{ i }} - m), seen{{ i }});
            m{{ i }} = m;
            l{{ i }} = l{{ i }} * rescale + s{{ i }}.x + s{{ i }}.y + s{{ i }}.z + s{{ i }}.w;
{% for s in range(spans) %}
            o{{ i }}_{{ s }} *= rescale;
{% endfor %}
        }
{% endfor %}
{% for group in range(groups) %}{% for s in range(spans) %}
        if ({{ s * tile[0] }}u < E) {
            workgroupBarrier();
{% if s == 0 %}
            if (tx / 8u == {{ group }}u) {
{% for i in range(rows) %}
                a[ty * 8u + ((tx ^ ty) & 7u) + {{ i * down * 8 }}u] = s{{ i }};
{% endfor %}
            }
{% endif %}
{{ place_v() }}
            workgroupBarrier();
{% if s + 1 < spans %}
            if ({{ (s + 1) * tile[0] }}u < E) {
{{ fetch_v("tile", "tile_slot", group, s + 1) }}
            } else {
{% endif %}
{% if group + 1 < groups %}
{{ fetch_v("tile", "tile_slot", group + 1, 0) }}
{% else %}
            if (tile + KEYS < end_key) {
                tile_slot = (tile + KEYS) % cap;
{{ fetch_k("(tile + KEYS)", "tile_slot", "0u") }}{{ fetch_q("0u") }}
            }
{% endif %}
{% if s + 1 < spans %}
            }
{% endif %}
            for (var x = 0u; x < 8u; x++) {
{% for j in range(4) %}
                let v{{ j }} = b[x * {{ 4 * across }}u + tx + {{ j * across }}u];
{% endfor %}
{% for i in range(rows) %}
                let w{{ i }} = a[at(ty, x) + {{ i * down * 8 }}u];
                o{{ i }}_{{ s }} += w{{ i }}.x * v0;
                o{{ i }}_{{ s }} += w{{ i }}.y * v1;
                o{{ i }}_{{ s }} += w{{ i }}.z * v2;
                o{{ i }}_{{ s }} += w{{ i }}.w * v3;
{% endfor %}
            }
        }
{% endfor %}{% endfor %}
    }

    // The sums of the weights: those who share a row have them.
    workgroupBarrier();
{% for n in range(fours) %}
    b[({{ n }}u * DOWN + ty) * ACROSS + (tx ^ (ty & 7u))] = vec4<f32>({% for i in range(4) %}{{ "l" ~ (n * 4 + i) if n * 4 + i < rows else "0.0" }}{% if not loop.last %}, {% endif %}{% endfor %});
{% endfor %}
    workgroupBarrier();
{% for n in range(fours) %}
    var sums{{ n }} = vec4<f32>();
    for (var x = 0u; x < ACROSS; x++) { sums{{ n }} += b[({{ n }}u * DOWN + ty) * ACROSS + (x ^ (ty & 7u))]; }
{% endfor %}
{% for i in range(rows) %}
    {
        let t = t0 + ty + {{ i }}u * DOWN;
        if (t < state.rows) {
            let out = t * KB * 8u;
{% for s in range(spans) %}
            if ({{ s * across }}u + tx < width) { y[out + head * width + {{ s * across }}u + tx] = gated(o{{ i }}_{{ s }} / sums{{ i // 4 }}[{{ i % 4 }}], t, head * width + {{ s * across }}u + tx); }
{% endfor %}
            if (head == H - 1u) {
                for (var x = H * width + tx; x < KB * 8u; x += ACROSS) { y[out + x] = vec4<f32>(); }
            }
        }
    }
{% endfor %}
}
