// Attention of few rows over one split of the cache: grid [G * ceil(H / G / 4), T * room for splits]; splits beyond pos return.
// In decode, which has one row, queries and the new key are normed (QK_NORM) and rotated here, and the workgroups whose split the row's own
// position falls into append its key and value to the cache: those of one kv head write the same bits, and none reads them from there.
// Where there are more rows (APPENDS is 0), `qk_norm` and `rope` have done it.
// The softmax is left open: `po` is the sum of exp(s - m) v and `ml` holds (m, sum of exp(s - m)); `merge` joins the splits.
//
// Four query heads of the kv head share each read of K and V. Keys go through in tiles: eight lanes share a key, so that neighbouring
// lanes read neighbouring 16 bytes; then 32 lanes share a row of V, and the eight groups of them deal the keys out among themselves.
// `tiles` is `one` where no split of the cache has more keys than a tile.
{% set width = {"e64": 64, "e128": 128, "e256": 256}[width] %}
{% set keys = tile[0] %}
{% set rounds = keys // 32 %}
{% set units = width // 64 %}
{% set columns = width // 32 %}
{% set f16 = kv == "f16" %}
{% set pairs = 2 if columns == 2 else 4 %}
{% set vectors = columns // pairs %}
{% set V = "vec" ~ pairs ~ "<f32>" %}
{% include "common/state.wgsl" %}
{% if kv != "q8" %}{% include "common/kv_" ~ kv ~ ".wgsl" %}{% endif %}
{% include "common/window.wgsl" %}
{% include "common/splits.wgsl" %}
override H: u32;      // query heads
override G: u32;      // kv heads; H / G query heads share one
override E: u32;      // head width: a multiple of 4, at most {{ width }}
override SCALE: f32;  // of the scores, usually 1 / sqrt(E)
override ROT: u32;          // rotated dimensions of a head, even, at most E
override INTERLEAVED: u32;  // 1: pairs (2i, 2i+1); 0: pairs (i, i + ROT/2)
override SLOTS: u32 = 1u;        // sequences that have a cache in the buffers
override APPENDS: u32 = 1u;      // 1: keys and values of the row are appended here; 0: the cache holds them
override QSTRIDE: u32 = 0u;      // f32 a row of qkv
{% include "common/slots.wgsl" %}

@group(0) @binding(1) var<storage, read> qkv: array<f32>;        // [T][QSTRIDE]: H*E queries, G*E keys, G*E values
{% if kv == "q8" %}
{% set Column = "vec2<u32>" if columns == 8 else "u32" %}
@group(0) @binding(2) var<storage, read_write> kc: array<vec2<u32>>;        // [SLOTS][G][CAP][EP/8]: int8, E padded to blocks of 32
@group(0) @binding(3) var<storage, read_write> vc: array<{{ Column }}>;     // [SLOTS][G][CAP][EP/{{ 8 if columns == 8 else 4 }}]
@group(0) @binding(7) var<storage, read_write> ks: array<f32>;              // [SLOTS][G][CAP][EP/32]: the blocks' scales
@group(0) @binding(8) var<storage, read_write> vs: array<f32>;              // [SLOTS][G][CAP][EP/32]
{% elif f16 %}
{% set Column = {2: "u32", 4: "vec2<u32>", 8: "vec4<u32>"}[columns] %}
@group(0) @binding(2) var<storage, read_write> kc: array<vec4<u32>>;        // [SLOTS][G][CAP][EP/8]
@group(0) @binding(3) var<storage, read_write> vc: array<{{ Column }}>;     // [SLOTS][G][CAP][EP/{{ columns }}]
{% else %}
@group(0) @binding(2) var<storage, read_write> kc: array<vec4<f32>>;        // [SLOTS][G][CAP][EP/4]
@group(0) @binding(3) var<storage, read_write> vc: array<{{ V }}>;          // [SLOTS][G][CAP][EP/{{ pairs }}]
{% endif %}
@group(0) @binding(6) var<storage, read> rot: array<vec2<f32>>;  // [C][ROT/2]: (cos, sin)
@group(0) @binding(4) var<storage, read_write> po: array<f32>;         // [T][splits][H][E]
@group(0) @binding(5) var<storage, read_write> ml: array<vec2<f32>>;   // [T][splits][H]

const THREADS = 256u;
const KEYS = {{ keys }}u;   // keys of a tile
const LANES = 8u;           // lanes that share a key
const HEADS = 4u;           // query heads that share a read
const LOWEST = -3.4028234e38;

var<workgroup> q: array<vec4<f32>, {{ width }}>;         // [HEADS][EP/4], scaled
var<workgroup> weights: array<vec4<f32>, KEYS>;          // [KEYS], a component a head: exp(s - m)
var<workgroup> maxima: array<f32, 32>;                   // [8][HEADS], of an eighth of the keys each
var<workgroup> sums: array<f32, 32>;                     // [8][HEADS], of an eighth of the weights each
{% if tiles == "many" %}
var<workgroup> rescales: array<f32, 4>;                  // what earlier tiles' sums are multiplied by
{% endif %}
{% if reduce != "sg32" %}
// Scalars, as lanes write components of one vec4: a component's store may touch the whole vector.
var<workgroup> scores: array<f32, 256>;                  // [KEYS][HEADS], at the end a weight's sum a lane
{% endif %}
var<workgroup> summands: array<f32, 2048>;               // [8][heads at once][{{ width }}], of the output
{% if kv == "q8" %}
var<workgroup> appended: array<u32, {{ width // 2 }}>;          // the new key, then the new value, as the cache holds them
var<workgroup> appended_scales: array<f32, {{ width // 16 }}>;
{% elif f16 %}
var<workgroup> appended: array<u32, {{ width }}>;        // the new key, then the new value, as the cache holds them
{% else %}
var<workgroup> appended: array<f32, {{ width * 2 }}>;
{% endif %}

{% include "common/qk_norm.wgsl" %}
{% include "common/rotate.wgsl" %}

// Elements 4i..4i+3 of the head at `base` of qkv, rotated for `position`.
fn rotated4(base: u32, position: u32, i: u32, norm: QkNorm) -> vec4<f32> {
    var v = vec4<f32>();
    for (var c = 0u; c < 4u; c++) { v[c] = rotated(base, position, i * 4u + c, norm); }
    return v;
}

{% include "common/cache_words.wgsl" %}

{% macro load_keys() %}
        // Keys beyond the last repeat it and do not count below: a load without a condition need not wait for one.
{% for r in range(rounds) %}
        let at{{ r }} = tile + min(key + {{ 32 * r }}u, count - 1u);
{% endfor %}
{% for u in range(units) %}
{% for r in range(rounds) %}
        var k{{ r }}_{{ u }} = load_k((cache + slot(at{{ r }}, first_key, first_slot, cap)) * eights + min(lane + {{ 8 * u }}u, eights - 1u));
{% endfor %}
{% endfor %}
{% endmacro %}
{% macro load_values() %}
{% for k in range(keys // 8) %}
        let p{{ k }} = tile + min(part + {{ 8 * k }}u, count - 1u);
        var v{{ k }} = load_v((cache + slot(p{{ k }}, first_key, first_slot, cap)) * row_columns + column);
{% endfor %}
{% endmacro %}
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let room = grid.y / state.rows;
    let row = wid.y / room;
    let pos = state.pos + row;
    let shared_by = H / G;
    let passes = (shared_by + HEADS - 1u) / HEADS;
    let splits = splits_of(G * passes);
    let first_key = pos + 1u - seen(pos) + wid.y % room * splits.keys;
    let kv_head = wid.x / passes;
    if (first_key > pos || kv_head >= G || row >= state.rows || wid.y % room >= splits.count) { return; }
    let end_key = min(first_key + splits.keys, pos + 1u);
    let appends = APPENDS == 1u && end_key > pos;
    let eights = {{ "(E + 31u) / 32u * 4u" if kv == "q8" else "(E + 7u) / 8u" }};   // of a row of the cache, whose width is E padded to EP
    let cap = arrayLength(&kc) / (SLOTS * G * eights{{ " * 2u" if kv == "f32" else "" }});
    let first_slot = first_key % cap;
    let at_split = row * splits.count + wid.y % room;
    let row_columns = eights * {{ 8 // columns }}u;
    let cache = (state.slot * G + kv_head) * cap;

    // Roles of this lane: for K a key of every 32, and an eighth of its elements; for V {{ columns }} elements of every eighth key.
    let lane = li % LANES;
    let key = li / LANES;
    let column = min(li % 32u, row_columns - 1u);
    let part = li / 32u;

{% if tiles == "one" %}
    // All that this workgroup reads of the cache is under way before it is known what for.
    let tile = first_key;
    let count = end_key - first_key;
{{ load_keys() }}
{{ load_values() }}
{% endif %}
    let h0 = wid.x % passes * HEADS;
    let heads = min(HEADS, shared_by - h0);
    let head = kv_head * shared_by + h0;
    if (QK_NORM == 1u) {
        let source = select(head + part, H + kv_head, part == HEADS);
        weigh(row * QSTRIDE + source * E, part < heads || (part == HEADS && APPENDS == 1u), li);
    }
    for (var i = li; i < (HEADS + 2u) * eights * 2u; i += THREADS) {
        let which = i / (eights * 2u);
        let four = i % (eights * 2u);
        let inside = four * 4u < E;
        let norm = norm_of(which);
        if (which < HEADS) {
            var x = vec4<f32>();
            if (inside && which < heads) { x = rotated4(row * QSTRIDE + (head + which) * E, pos, four, norm) * SCALE; }
            q[i] = x;
        } else if (appends) {
            var x = vec4<f32>();
            if (inside && which == HEADS) { x = rotated4(row * QSTRIDE + (H + kv_head) * E, pos, four, norm); }
            if (inside && which > HEADS) {
                let value = row * QSTRIDE + (H + G + kv_head) * E + four * 4u;
                x = vec4<f32>(qkv[value], qkv[value + 1u], qkv[value + 2u], qkv[value + 3u]);
            }
            append((which - HEADS) * {{ width }}u + four * 4u, x);
        }
    }
    workgroupBarrier();
    if (appends) {
{% if kv == "q8" %}
        quantize_appended(li, eights * 2u);
        workgroupBarrier();
{% endif %}
        let own = cache + slot(pos, first_key, first_slot, cap);
        if (li < eights) { store_k(own * eights + li, new_k(li)); }
        if (part == 2u && li % 32u < row_columns) { store_v(own * row_columns + column, new_v(column)); }
    }

    // The score that this lane finishes: of round own_round and head own_head.
    let own_head = lane % HEADS;
    let own_round = lane / HEADS;
    var own_m = LOWEST;
    var own_l = 0.0;
{% for g in range(4) %}{% for n in range(vectors) %}
    var o{{ g }}_{{ n }} = {{ V }}();
{% endfor %}{% endfor %}

{% if tiles == "one" %}
    {
{% else %}
    for (var tile = first_key; tile < end_key; tile += KEYS) {
        let count = min(KEYS, end_key - tile);
        // The tile before has been read.
        if (tile > first_key) { workgroupBarrier(); }
{% endif %}
{% if tiles == "many" %}
{{ load_keys() }}{% endif %}
{% for r in range(rounds) %}
        var s{{ r }} = vec4<f32>();
{% endfor %}
{% for u in range(units) %}
        if (lane + {{ 8 * u }}u < eights) {
            let four = (lane + {{ 8 * u }}u) * 2u;
{% for g in range(4) %}
            let a{{ g }} = q[{{ g }}u * eights * 2u + four];
            let b{{ g }} = q[{{ g }}u * eights * 2u + four + 1u];
{% endfor %}
{% for r in range(rounds) %}
            if (appends && at{{ r }} == pos) { k{{ r }}_{{ u }} = new_k(lane + {{ 8 * u }}u); }
            let x{{ r }} = low(k{{ r }}_{{ u }});
            let y{{ r }} = high(k{{ r }}_{{ u }});
            s{{ r }} += vec4<f32>({% for g in range(4) %}dot(x{{ r }}, a{{ g }}) + dot(y{{ r }}, b{{ g }}), {% endfor %});
{% endfor %}
        }
{% endfor %}

        let own_key = key + 32u * own_round;
        let counts = own_key < count{% if rounds == 1 %} && own_round == 0u{% endif %};
{% if reduce == "wg" %}
        // Of the eight lanes' sums through workgroup memory.
{% for r in range(rounds) %}
{% for g in range(4) %}
        summands[((key + {{ 32 * r }}u) * LANES + lane) * HEADS + {{ g }}u] = s{{ r }}[{{ g }}];
{% endfor %}
{% endfor %}
        workgroupBarrier();
        var s = 0.0;
        for (var i = 0u; i < LANES; i++) { s += summands[(min(own_key, KEYS - 1u) * LANES + i) * HEADS + own_head]; }
{% else %}
        // The eight lanes' sums by shuffles that halve what each lane holds: at the end one score.
{% if rounds == 2 %}
        var four_sums = select(s0, s1, own_round == 1u);
        four_sums += subgroupShuffleXor(select(s1, s0, own_round == 1u), 4u);
{% else %}
        let four_sums = s0 + subgroupShuffleXor(s0, 4u);
{% endif %}
        var two_sums = select(four_sums.xy, four_sums.zw, (lane & 2u) != 0u);
        two_sums += subgroupShuffleXor(select(four_sums.zw, four_sums.xy, (lane & 2u) != 0u), 2u);
        var s = select(two_sums.x, two_sums.y, (lane & 1u) != 0u);
        s += subgroupShuffleXor(select(two_sums.y, two_sums.x, (lane & 1u) != 0u), 1u);
{% endif %}
        s = select(LOWEST, capped0(s), counts);
{% if reduce == "sg32" %}
        var most = max(s, subgroupShuffleXor(s, 8u));
        most = max(most, subgroupShuffleXor(most, 16u));
        most = max(most, subgroupShuffleXor(most, 4u));
        if (li % 32u < HEADS) { maxima[li / 32u * HEADS + own_head] = most; }
        workgroupBarrier();
{% else %}
        {% if rounds == 1 %}if (own_round == 0u) { {% endif %}scores[own_key * HEADS + own_head] = s;{% if rounds == 1 %} }{% endif %}
        workgroupBarrier();
        if (li < 32u) {
            var most = LOWEST;
            for (var i = li; i < KEYS * HEADS; i += 32u) { most = max(most, scores[i]); }
            maxima[li] = most;
        }
        workgroupBarrier();
{% endif %}
{% if tiles == "many" %}
        let m_before = own_m;
{% endif %}
        for (var i = own_head; i < 32u; i += HEADS) { own_m = max(own_m, maxima[i]); }
        let weight = select(0.0, exp(s - own_m), counts);
{% if tiles == "many" %}
        let rescale = exp(m_before - own_m);
        if (li < HEADS) { rescales[li] = rescale; }
        own_l = own_l * rescale + weight;
{% else %}
        own_l = weight;
{% endif %}
{% if reduce == "wg" %}
        {% if rounds == 1 %}if (own_round == 0u) { {% endif %}scores[own_key * HEADS + own_head] = weight;{% if rounds == 1 %} }{% endif %}
        workgroupBarrier();
        if (li < KEYS) { weights[li] = vec4<f32>(scores[li * 4u], scores[li * 4u + 1u], scores[li * 4u + 2u], scores[li * 4u + 3u]); }
{% else %}
        let w4 = vec4<f32>(weight, subgroupShuffleXor(weight, 1u), subgroupShuffleXor(weight, 2u), subgroupShuffleXor(weight, 3u));
        if (own_head == 0u{% if rounds == 1 %} && own_round == 0u{% endif %}) { weights[own_key] = w4; }
{% endif %}
        workgroupBarrier();

{% if tiles == "many" %}
        if (tile > first_key) {
            // What earlier tiles summed was relative to their maximum.
{% for g in range(4) %}
            let rescale{{ g }} = rescales[{{ g }}];
{% for n in range(vectors) %}
            o{{ g }}_{{ n }} *= rescale{{ g }};
{% endfor %}{% endfor %}
        }
{% endif %}
{% if tiles == "many" %}
{{ load_values() }}{% endif %}
{% for k in range(keys // 8) %}
        {
            if (appends && p{{ k }} == pos) { v{{ k }} = new_v(column); }
            let w = weights[part + {{ 8 * k }}u];
{% for n in range(vectors) %}
            let x{{ n }} = part{{ n }}(v{{ k }});
{% for g in range(4) %}
            o{{ g }}_{{ n }} += w[{{ g }}] * x{{ n }};
{% endfor %}
{% endfor %}
        }
{% endfor %}
    }

    // Sums of the weights.
{% if reduce == "sg32" %}
    var l = own_l + subgroupShuffleXor(own_l, 8u);
    l += subgroupShuffleXor(l, 16u);
    l += subgroupShuffleXor(l, 4u);
    if (li % 32u < HEADS) { sums[li / 32u * HEADS + own_head] = l; }
{% else %}
    scores[li] = own_l;
    workgroupBarrier();
    if (li < 32u) {
        var l = 0.0;
        for (var i = li; i < THREADS; i += 32u) { l += scores[i]; }
        sums[li] = l;
    }
{% endif %}
    // Eight groups' sums of the output, as many heads at a time as there is room for.
{% set at_once = 256 // width %}
{% for round in range(4 // at_once) %}
{% if round > 0 %}
    workgroupBarrier();
{% endif %}
{% for g in range(at_once) %}{% for n in range(vectors) %}{% for c in range(pairs) %}
    summands[(part * {{ at_once }}u + {{ g }}u) * {{ width }}u + li % 32u * {{ columns }}u + {{ n * pairs + c }}u] = o{{ round * at_once + g }}_{{ n }}[{{ c }}];
{% endfor %}{% endfor %}{% endfor %}
    workgroupBarrier();
    {
        let g = {{ round * at_once }}u + li / {{ width }}u;
        let e = li % {{ width }}u;
        if (g < heads && e < E) {
            var sum = 0.0;
            for (var k = 0u; k < 8u; k++) { sum += summands[k * 256u + li]; }
            po[(at_split * H + head + g) * E + e] = sum;
        }
    }
{% endfor %}
    if (li < heads) {
        var sum = 0.0;
        for (var k = li; k < 32u; k += HEADS) { sum += sums[k]; }
        ml[at_split * H + head + li] = vec2<f32>(own_m, sum);
    }
}
