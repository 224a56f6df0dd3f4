// Causal attention of many rows: row t sees keys 0..=pos + t, or the last WINDOW of them, which are in the cache already. Where SPANS is not 0 rows are
// of several texts and see those of their own: where it is 2 also keys behind their own, WINDOW - 1 at most. Where it is 3 rows of a picture also see
// those of the same picture that come behind them, where it is 4 also those before them that the window leaves out.
// Grid [H, ceil(T / ROWS)].
// A workgroup takes {{ tile[1] }} rows of one head through the keys in tiles of {{ tile[0] }} with an online softmax. Queries, keys and values pass through
// workgroup memory a slice of the head at a time, keys and values as the cache holds them: eight 16-byte words of a key. Each
// invocation has {{ rows }} x 4 scores and {{ rows }} rows of a word of each slice of the output.
{% set f16 = kv != "f32" %}{# q8 becomes halves on its way into workgroup memory #}
{% set word = 8 if f16 else 4 %}{# elements of 16 bytes #}
{% set span = word * 8 %}{# elements of a slice #}
{% set slices = {"e64": 64, "e128": 128, "e256": 256, "e512": 512}[width] // span %}
{% set parts = word // 4 %}{# vec4 of a word #}
{% set unrolled = f16 and slices == 1 %}{# loops over words and keys, whose indices are constants then: wider heads gain less, and take longer to compile #}
{% set Word = "vec4<u32>" if f16 else "vec4<f32>" %}
{% include "common/state.wgsl" %}
{% include "common/kv_" ~ ("f16" if f16 else "f32") ~ ".wgsl" %}
{% include "common/window.wgsl" %}
override H: u32;        // query heads
override G: u32;        // kv heads; H / G query heads share one
override E: u32;        // head width: a multiple of 4, at most {{ slices * span }}
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
fn word_of(q: vec2<u32>, d: f32) -> vec4<u32> {
    let a = d * vec4<f32>(unpack4xI8(q.x));
    let b = d * vec4<f32>(unpack4xI8(q.y));
    return vec4<u32>(pack_halves(a.x, a.y), pack_halves(a.z, a.w), pack_halves(b.x, b.y), pack_halves(b.z, b.w));
}
fn k_word(i: u32) -> vec4<u32> { return word_of(kc[i], ks[i / 4u]); }
fn v_word(i: u32) -> vec4<u32> { return word_of(vc[i], vs[i / 4u]); }
{% else %}
@group(0) @binding(2) var<storage, read> kc: array<{{ Word }}>;  // [SLOTS][G][CAP][EP/{{ word }}], EP = E padded to a multiple of 8
@group(0) @binding(3) var<storage, read> vc: array<{{ Word }}>;  // [SLOTS][G][CAP][EP/{{ word }}]
fn k_word(i: u32) -> {{ Word }} { return kc[i]; }
fn v_word(i: u32) -> {{ Word }} { return vc[i]; }
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
const ACROSS = 8u;               // invocations that share rows
const DOWN = THREADS / ACROSS;   // and those that share keys
const FOURS = {{ span // 4 }}u;  // vec4 of a slice of a query
const LOWEST = -3.4028234e38;

// Together no more than the default limit of 16 KiB.
var<workgroup> q: array<vec4<f32>, ROWS * FOURS>;  // [ROWS][FOURS]: a slice of the queries, scaled
var<workgroup> kv: array<{{ Word }}, KEYS * 8u>;   // [KEYS][8]: a slice of K, then what rows have found, then a slice of V
var<workgroup> p: array<vec4<f32>, ROWS * 8u>;     // [ROWS][8]: exp(s - m); component j of vec4 x is key x + 8 j

// sum + dot(a, b), as four multiplications that add.
fn chained(a: vec4<f32>, b: vec4<f32>, sum: f32) -> f32 {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}
// Where word `c` of a key stands: turned by the key's number, so that eight neighbours reach eight banks.
fn at(key: u32, c: u32) -> u32 { return key * 8u + (c ^ (key & 7u)); }
{% if f16 %}
fn part0(w: vec4<u32>) -> vec4<f32> { return unpack_kv(w.xy); }
fn part1(w: vec4<u32>) -> vec4<f32> { return unpack_kv(w.zw); }
fn as_word(v: vec4<f32>) -> vec4<u32> { return bitcast<vec4<u32>>(v); }
fn as_floats(w: vec4<u32>) -> vec4<f32> { return bitcast<vec4<f32>>(w); }
{% else %}
fn part0(w: vec4<f32>) -> vec4<f32> { return w; }
fn as_word(v: vec4<f32>) -> vec4<f32> { return v; }
fn as_floats(w: vec4<f32>) -> vec4<f32> { return w; }
{% endif %}

{# What the next slice needs is read from memory before the arithmetic of this one, which hides the latency. #}
{% set held = tile[0] * 8 // workgroup %}
{% set held_q = tile[1] * (span // 4) // workgroup %}
{% macro fetch(cache, tile, at, slice) %}
{% for r in range(held) %}
                {
                    let i = li + {{ r }}u * THREADS;
                    let word = {{ slice }} * 8u + i % 8u;
                    let key = {{ tile }} + i / 8u;
                    next{{ r }} = {{ Word }}();
                    if (word < words && key < end_key) { next{{ r }} = {{ cache }}_word(cache + slot(key, {{ tile }}, {{ at }}, cap) * words + word); }
                }
{% endfor %}
{% endmacro %}
{% macro fetch_q(slice) %}
{% for r in range(held_q) %}
                {
                    let i = li + {{ r }}u * THREADS;
                    let column = {{ slice }} * FOURS + i % FOURS;
                    next_q{{ r }} = vec4<f32>();
                    if (column < width && t0 + i / FOURS < state.rows) { next_q{{ r }} = qkv[(t0 + i / FOURS) * (QSTRIDE / 4u) + head * width + column] * SCALE; }
                }
{% endfor %}
{% endmacro %}
{% macro place() %}
{% for r in range(held) %}
            kv[at((li + {{ r }}u * THREADS) / 8u, li % 8u)] = next{{ r }};
{% endfor %}
{% endmacro %}
{# Adds word `c` of a slice to the scores of an invocation's rows and four keys. #}
{% macro scores(c) %}
{% for j in range(4) %}
                let w{{ j }} = kv[at(tx + {{ 8 * j }}u, {{ c }})];
{% endfor %}
{% for n in range(parts) %}
                {
{% for j in range(4) %}
                    let k{{ j }} = part{{ n }}(w{{ j }});
{% endfor %}
{% for i in range(rows) %}
                    let x{{ i }} = q[(ty + {{ i }}u * DOWN) * FOURS + {{ c }} * {{ parts }}u + {{ n }}u];
                    s{{ i }} = vec4<f32>({% for j in range(4) %}chained(x{{ i }}, k{{ j }}, s{{ i }}[{{ j }}]){% if not loop.last %}, {% endif %}{% endfor %});
{% endfor %}
                }
{% endfor %}
{% endmacro %}
{# Adds the values of the four keys x + 8 j to slice `s` of the rows' outputs. #}
{% macro outputs(s, x) %}
{% for i in range(rows) %}
                let w{{ i }} = p[(ty + {{ i }}u * DOWN) * 8u + {{ x }}];
{% endfor %}
{% for j in range(4) %}
                {
                    let word = kv[at({{ x }} + {{ 8 * j }}u, tx)];
{% for n in range(parts) %}
                    let v{{ n }} = part{{ n }}(word);
{% for i in range(rows) %}
                    o{{ i }}_{{ s }}_{{ n }} = fma(vec4<f32>(w{{ i }}[{{ j }}]), v{{ n }}, o{{ i }}_{{ s }}_{{ n }});
{% endfor %}
{% endfor %}
                }
{% endfor %}
{% endmacro %}
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let head = wid.x;
    // Late rows see the most keys: they go first.
    let t0 = (grid.y - 1u - wid.y) * ROWS;
    if (t0 >= state.rows || head >= H) { return; }
    let width = E / 4u;                           // of a head, in vec4
    let slices = (E + {{ span - 1 }}u) / {{ span }}u;
    let words = {{ "(E + 31u) / 32u * 4u" if kv == "q8" else "(E + 7u) / 8u * " ~ 8 // word ~ "u" }};   // of a row of the cache
    let cap = arrayLength(&kc) / (SLOTS * G * words);
    let cache = (state.slot * G + head / (H / G)) * cap * words;
    let end_key = sees(min(t0 + ROWS, state.rows) - 1u).y;
    // What the first row sees.
    let first_key = sees(t0).x;
    var tile_slot = first_key % cap;
    let tx = li % ACROSS;  // keys tx + 8 j of a tile, word tx of a slice of the output
    let ty = li / ACROSS;  // rows ty + DOWN i
{% for i in range(rows) %}
    var m{{ i }} = LOWEST;
    var l{{ i }} = 0.0;
    if (SINKS == 1u) {
        m{{ i }} = sinks[head];
        // Eight invocations have a row's sum.
        l{{ i }} = select(0.0, 1.0, tx == 0u);
    }
{% for s in range(slices) %}{% for n in range(parts) %}
    var o{{ i }}_{{ s }}_{{ n }} = vec4<f32>();
{% endfor %}{% endfor %}
{% endfor %}
{% for r in range(held) %}
    var next{{ r }} = {{ Word }}();
{% endfor %}
{% for r in range(held_q) %}
    var next_q{{ r }} = vec4<f32>();
{% endfor %}
{{ fetch("k", "first_key", "tile_slot", "0u") }}{{ fetch_q("0u") }}
    for (var tile = first_key; tile < end_key; tile += KEYS) {
{% for i in range(rows) %}
        var s{{ i }} = vec4<f32>();
{% endfor %}
        for (var slice = 0u; slice < slices; slice++) {
            // What is replaced has been read.
            workgroupBarrier();
{{ place() }}
            // One slice of the queries stays where it is.
            if (slices > 1u || tile == first_key) {
{% for r in range(held_q) %}
                q[li + {{ r }}u * THREADS] = next_q{{ r }};
{% endfor %}
            }
            workgroupBarrier();
            if (slice + 1u < slices) {
{{ fetch("k", "tile", "tile_slot", "(slice + 1u)") }}{{ fetch_q("(slice + 1u)") }}
            } else {
{{ fetch("v", "tile", "tile_slot", "0u") }}
            }
{% if unrolled %}
{% for c in range(8) %}
            {
{{ scores(c ~ "u") }}
            }
{% endfor %}
{% else %}
            for (var c = 0u; c < 8u; c++) {
{{ scores("c") }}
            }
{% endif %}
        }
        let keys = vec4<u32>(tile + tx) + vec4<u32>(0u, 8u, 16u, 24u);
        var best = vec4<f32>(LOWEST);
{% for i in range(rows) %}
        let sees{{ i }} = sees(min(t0 + ty + {{ i }}u * DOWN, state.rows - 1u));
        let seen{{ i }} = (keys >= vec4<u32>(sees{{ i }}.x)) & (keys < vec4<u32>(sees{{ i }}.y));
        s{{ i }} = select(vec4<f32>(LOWEST), capped1(s{{ i }}), seen{{ i }});
        best[{{ i }}] = max(max(s{{ i }}.x, s{{ i }}.y), max(s{{ i }}.z, s{{ i }}.w));
{% endfor %}
        // K has been read: its place is the rows'.
        workgroupBarrier();
        kv[li] = as_word(best);
        workgroupBarrier();
        for (var x = 0u; x < ACROSS; x++) { best = max(best, as_floats(kv[ty * ACROSS + x])); }
{% for i in range(rows) %}
        {
            let m = max(m{{ i }}, best[{{ i }}]);
            let rescale = exp(m{{ i }} - m);
            let w = select(vec4<f32>(), exp(s{{ i }} - m), seen{{ i }});
            m{{ i }} = m;
            p[(ty + {{ i }}u * DOWN) * 8u + tx] = w;
            l{{ i }} = l{{ i }} * rescale + w.x + w.y + w.z + w.w;
{% for s in range(slices) %}{% for n in range(parts) %}
            o{{ i }}_{{ s }}_{{ n }} *= rescale;
{% endfor %}{% endfor %}
        }
{% endfor %}
{% for s in range(slices) %}
        if ({{ s }}u < slices) {
            workgroupBarrier();
{{ place() }}
            workgroupBarrier();
            if ({{ s + 1 }}u < slices) {
{{ fetch("v", "tile", "tile_slot", (s + 1) ~ "u") }}
            } else if (tile + KEYS < end_key) {
                tile_slot = (tile + KEYS) % cap;
{{ fetch("k", "(tile + KEYS)", "tile_slot", "0u") }}
                if (slices > 1u) {
{{ fetch_q("0u") }}
                }
            }
{% if unrolled %}
{% for x in range(8) %}
            {
{{ outputs(s, x ~ "u") }}
            }
{% endfor %}
{% else %}
            for (var x = 0u; x < 8u; x++) {
{{ outputs(s, "x") }}
            }
{% endif %}
        }
{% endfor %}
    }

    // The sums of the weights: eight invocations have a row's.
    workgroupBarrier();
    kv[li] = as_word(vec4<f32>({% for i in range(4) %}{{ "l" ~ i if i < rows else "0.0" }}{% if not loop.last %}, {% endif %}{% endfor %}));
    workgroupBarrier();
    var sums = vec4<f32>();
    for (var x = 0u; x < ACROSS; x++) { sums += as_floats(kv[ty * ACROSS + x]); }
{% for i in range(rows) %}
    {
        let t = t0 + ty + {{ i }}u * DOWN;
        if (t < state.rows) {
            let out = t * KB * 8u;
{% for s in range(slices) %}{% for n in range(parts) %}
            if ({{ s * span // 4 }}u + tx * {{ parts }}u + {{ n }}u < width) { y[out + head * width + {{ s * span // 4 }}u + tx * {{ parts }}u + {{ n }}u] = gated(o{{ i }}_{{ s }}_{{ n }} / sums[{{ i }}], t, head * width + {{ s * span // 4 }}u + tx * {{ parts }}u + {{ n }}u); }
{% endfor %}{% endfor %}
            if (head == H - 1u) {
                for (var x = H * width + tx; x < KB * 8u; x += ACROSS) { y[out + x] = vec4<f32>(); }
            }
        }
    }
{% endfor %}
}
