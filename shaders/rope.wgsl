// RMSNorm of single heads (QK_NORM), rotary position embedding of the queries (in place) and keys, and the append of keys and values to the cache.
// One workgroup for one head of one row: grid [T, H + 2G]. Position p stands in slot p % CAP, where CAP is what the buffer has room for.
{% include "common/state.wgsl" %}
{% include "common/rows.wgsl" %}
{% if kv == "f16" %}{% include "common/halves.wgsl" %}{% endif %}
{% if kv == "q8" %}{% include "common/int8.wgsl" %}{% endif %}
{% with sum = "f32", reduce = "wg" %}{% include "common/reduce.wgsl" %}{% endwith %}
override H: u32;            // query heads
override G: u32;            // kv heads
override E: u32;            // head width, even
override ROT: u32;          // rotated dimensions of a head, even, at most E
override INTERLEAVED: u32;  // 1: pairs (2i, 2i+1); 0: pairs (i, i + ROT/2)
override QSTRIDE: u32;      // f32 a row of qkv
override SLOTS: u32 = 1u;   // sequences that have a cache in the buffers
override SPANS: u32 = 0u;   // not 0: rows are of several texts, each rotated from its own beginning on
override AXES: u32 = 0u;    // not 0: positions have three axes, time, rows and columns; pairs take them 1: in turn, 2: one after the other, 3: in halves
override ROW_PAIRS: u32 = 0u;     // pairs that the row rotates
override COLUMN_PAIRS: u32 = 0u;  // those that the column does; the others' is time; of halves the first one's is the column, the second one's the row

@group(0) @binding(1) var<storage, read_write> qkv: array<f32>;  // [T][QSTRIDE]: H*E queries, G*E keys, G*E values
@group(0) @binding(2) var<storage, read> rot: array<vec2<f32>>;  // [C][ROT/2]: (cos, sin)
@group(0) @binding(7) var<storage, read> nw: array<f32>;         // [2][{{ head_room }}]: where QK_NORM is 1, weights for queries and for keys
// [T]: where SPANS is not 0, where row t's text begins and ends; [2 T]: where AXES is not 0, row t's time and row, and then its column and 0
@group(0) @binding(8) var<storage, read> spans: array<vec2<u32>>;
{% if kv == "f32" %}
@group(0) @binding(3) var<storage, read_write> kc: array<f32>;   // [SLOTS][G][CAP][EP], EP = E padded to a multiple of 8
@group(0) @binding(4) var<storage, read_write> vc: array<f32>;   // [SLOTS][G][CAP][EP]
{% elif kv == "q8" %}
@group(0) @binding(3) var<storage, read_write> kc: array<u32>;   // [SLOTS][G][CAP][EP/4], four int8 each; EP = E padded to blocks of 32
@group(0) @binding(4) var<storage, read_write> vc: array<u32>;   // [SLOTS][G][CAP][EP/4]
@group(0) @binding(5) var<storage, read_write> ks: array<f32>;   // [SLOTS][G][CAP][EP/32]: the blocks' scales
@group(0) @binding(6) var<storage, read_write> vs: array<f32>;   // [SLOTS][G][CAP][EP/32]
var<workgroup> fresh: array<f32, {{ head_room }}>;
{% else %}
@group(0) @binding(3) var<storage, read_write> kc: array<u32>;   // [SLOTS][G][CAP][EP/2], two halves each; EP = E padded to a multiple of 8
@group(0) @binding(4) var<storage, read_write> vc: array<u32>;   // [SLOTS][G][CAP][E/2]
{% endif %}

const THREADS = 64u;

override QK_NORM: u32 = 0u;   // 1: queries and keys are normed
override V_NORM: u32 = 0u;    // 1: values are, without weights
override EPS: f32 = 0.0;

// A head's norm: its factor, and where its weights stand.
struct QkNorm { factor: f32, at: u32 }
fn element(base: u32, e: u32, norm: QkNorm) -> f32 {
    if (QK_NORM == 0u) { return qkv[base + e]; }
    return qkv[base + e] * norm.factor * select(nw[norm.at + e], 1.0, LATE == 1u);
}
var<private> place_of: vec3<u32>;
fn turned_by(position: u32, pair: u32) -> u32 {
    if (AXES == 0u) { return position; }
    var row = pair % 3u == 1u && pair < 3u * ROW_PAIRS;
    var column = pair % 3u == 2u && pair < 3u * COLUMN_PAIRS;
    if (AXES == 2u) {
        column = pair + COLUMN_PAIRS >= ROT / 2u;
        row = !column && pair + COLUMN_PAIRS + ROW_PAIRS >= ROT / 2u;
    }
    if (AXES == 3u) {
        column = pair < ROT / 4u;
        row = !column;
    }
    return select(select(place_of.x, place_of.y, row), place_of.z, column);
}
fn halves() -> u32 { return select(1u, 2u, AXES == 3u); }
{% include "common/rotate.wgsl" %}
fn late(at: u32) -> f32 {
    if (LATE == 0u) { return 1.0; }
    return nw[at];
}
fn key(base: u32, position: u32, e: u32, norm: QkNorm) -> f32 { return rotated(base, position, e, norm) * late(norm.at + e); }

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let t = wid.x;
    let head = wid.y;
    if (rests(t) || head >= H + 2u * G) { return; }
    let place = position_of(t);
    var position = rotated_at(t);
    if (SPANS != 0u) { position -= spans[t].x; }
    if (AXES != 0u) {
        place_of = vec3<u32>(spans[2u * t], spans[2u * t + 1u].x);
        position = place_of.x;
    }
    let base = t * QSTRIDE + head * E;
    let is_value = head >= H + G;
    var norm = QkNorm(1.0, select({{ head_room }}u, 0u, head < H));
    if (select(QK_NORM, V_NORM, is_value) == 1u) {
        var squares = 0.0;
        for (var e = li; e < E; e += THREADS) { squares += qkv[base + e] * qkv[base + e]; }
        norm.factor = inverseSqrt(workgroup_sum(squares, li) / f32(E) + EPS);
    }

    if (head < H) {
        let half = ROT / 2u;
        let grown = growth(position);
        for (var i = li; i < half; i += THREADS) {
            let distance = max(half / halves(), 1u);
            let first = base + select(i / distance * 2u * distance + i % distance, 2u * i, INTERLEAVED != 0u);
            let second = first + select(distance, 1u, INTERLEAVED != 0u);
            let r = rot[turned_by(position, i) * half + i];
            let a = element(base, first - base, norm);
            let b = element(base, second - base, norm);
            qkv[first] = (a * r.x - b * r.y) * (grown * late(first - base));
            qkv[second] = (a * r.y + b * r.x) * (grown * late(second - base));
        }
        if (QK_NORM == 1u || GROWTH != 0.0) {
            for (var e = ROT + li; e < E; e += THREADS) { qkv[base + e] = element(base, e, norm) * grown * late(e); }
        }
        return;
    }

    let kv_head = select(head - H, head - H - G, is_value);
    let words = {{ {"f32": "(E + 7u) / 8u * 8u", "f16": "(E + 7u) / 8u * 4u", "q8": "(E + 31u) / 32u * 8u"}[kv] }};
    let cap = arrayLength(&kc) / (SLOTS * G * words);
    let row = ((slot_of(t) * G + kv_head) * cap + place % cap) * words;
{% if kv == "f32" %}
    for (var e = li; e < E; e += THREADS) {
        if (is_value) {
            vc[row + e] = qkv[base + e] * norm.factor;
        } else {
            kc[row + e] = key(base, position, e, norm);
        }
    }
{% elif kv == "q8" %}
    for (var e = li; e < words * 4u; e += THREADS) {
        var x = 0.0;
        if (e < E && is_value) { x = qkv[base + e] * norm.factor; }
        if (e < E && !is_value) { x = key(base, position, e, norm); }
        fresh[e] = x;
    }
    workgroupBarrier();
    for (var w = li; w < words; w += THREADS) {
        var largest = 0.0;
        for (var e = w / 8u * 32u; e < (w / 8u + 1u) * 32u; e++) { largest = max(largest, abs(fresh[e])); }
        let d = largest / 127.0;
        let packed = quantize4(vec4<f32>(fresh[4u * w], fresh[4u * w + 1u], fresh[4u * w + 2u], fresh[4u * w + 3u]), d);
        let word = row + w;
        if (is_value) { vc[word] = packed; } else { kc[word] = packed; }
        if (w % 8u == 0u && is_value) { vs[word / 8u] = d; }
        if (w % 8u == 0u && !is_value) { ks[word / 8u] = d; }
    }
{% else %}
    for (var w = li; w < E / 2u; w += THREADS) {
        let e = 2u * w;
        if (is_value) {
            vc[row + w] = pack_halves(qkv[base + e] * norm.factor, qkv[base + e + 1u] * norm.factor);
        } else {
            kc[row + w] = pack_halves(key(base, position, e, norm), key(base, position, e + 1u, norm));
        }
    }
{% endif %}
}
