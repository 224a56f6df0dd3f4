// Rotary position embedding of the queries (in place) and keys, and the append of keys and values to the cache.
// One workgroup for one head of one row: grid [T, H + 2G]. Position p stands in slot p % CAP, where CAP is what the buffer has room for.
{% include "common/state.wgsl" %}
{% if kv == "f16" %}{% include "common/halves.wgsl" %}{% endif %}
{% if kv == "q8" %}{% include "common/int8.wgsl" %}{% endif %}
override H: u32;            // query heads
override G: u32;            // kv heads
override E: u32;            // head width, even
override ROT: u32;          // rotated dimensions of a head, even, at most E
override INTERLEAVED: u32;  // 1: pairs (2i, 2i+1); 0: pairs (i, i + ROT/2)
override QSTRIDE: u32;      // f32 a row of qkv
override SLOTS: u32 = 1u;   // sequences that have a cache in the buffers

@group(0) @binding(1) var<storage, read_write> qkv: array<f32>;  // [T][QSTRIDE]: H*E queries, G*E keys, G*E values
@group(0) @binding(2) var<storage, read> rot: array<vec2<f32>>;  // [C][ROT/2]: (cos, sin)
@group(0) @binding(7) var<storage, read> nw: array<f32>;         // [2][{{ head_room }}]: where LATE is 1, weights for queries and for keys
{% if kv == "f32" %}
@group(0) @binding(3) var<storage, read_write> kc: array<f32>;   // [SLOTS][G][CAP][EP], EP = E padded to a multiple of 8
@group(0) @binding(4) var<storage, read_write> vc: array<f32>;   // [SLOTS][G][CAP][EP]
{% elif kv == "q8" %}
@group(0) @binding(3) var<storage, read_write> kc: array<u32>;   // [SLOTS][G][CAP][EP/4], four int8 each; EP = E padded to blocks of 32
@group(0) @binding(4) var<storage, read_write> vc: array<u32>;   // [SLOTS][G][CAP][EP/4]
@group(0) @binding(5) var<storage, read_write> ks: array<f32>;   // [SLOTS][G][CAP][EP/32]: the blocks' scales
@group(0) @binding(6) var<storage, read_write> vs: array<f32>;   // [SLOTS][G][CAP][EP/32]
var<workgroup> fresh: array<f32, 256>;
{% else %}
@group(0) @binding(3) var<storage, read_write> kc: array<u32>;   // [SLOTS][G][CAP][EP/2], two halves each; EP = E padded to a multiple of 8
@group(0) @binding(4) var<storage, read_write> vc: array<u32>;   // [SLOTS][G][CAP][E/2]
{% endif %}

const THREADS = 64u;

// `qk_norm` has normed queries and keys already, without weights where LATE is 1.
struct QkNorm { factor: f32 }
fn element(base: u32, e: u32, norm: QkNorm) -> f32 { return qkv[base + e]; }
{% include "common/rotate.wgsl" %}
fn late(at: u32) -> f32 {
    if (LATE == 0u) { return 1.0; }
    return nw[at];
}
fn key(base: u32, position: u32, e: u32) -> f32 { return rotated(base, position, e, QkNorm()) * late({{ head_room }}u + e); }

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let t = wid.x;
    let head = wid.y;
    let position = state.pos + t;
    if (t >= state.rows || head >= H + 2u * G) { return; }
    let base = t * QSTRIDE + head * E;

    if (head < H) {
        let half = ROT / 2u;
        let grown = growth(position);
        for (var i = li; i < half; i += THREADS) {
            let first = base + select(i, 2u * i, INTERLEAVED != 0u);
            let second = first + select(half, 1u, INTERLEAVED != 0u);
            let r = rot[position * half + i];
            let a = qkv[first];
            let b = qkv[second];
            qkv[first] = (a * r.x - b * r.y) * (grown * late(first - base));
            qkv[second] = (a * r.y + b * r.x) * (grown * late(second - base));
        }
        if (LATE == 1u || GROWTH != 0.0) {
            for (var e = ROT + li; e < E; e += THREADS) { qkv[base + e] *= grown * late(e); }
        }
        return;
    }

    let is_value = head >= H + G;
    let kv_head = select(head - H, head - H - G, is_value);
    let words = {{ {"f32": "(E + 7u) / 8u * 8u", "f16": "(E + 7u) / 8u * 4u", "q8": "(E + 31u) / 32u * 8u"}[kv] }};
    let cap = arrayLength(&kc) / (SLOTS * G * words);
    let row = ((state.slot * G + kv_head) * cap + position % cap) * words;
{% if kv == "f32" %}
    for (var e = li; e < E; e += THREADS) {
        if (is_value) {
            vc[row + e] = qkv[base + e];
        } else {
            kc[row + e] = key(base, position, e);
        }
    }
{% elif kv == "q8" %}
    for (var e = li; e < words * 4u; e += THREADS) {
        var x = 0.0;
        if (e < E && is_value) { x = qkv[base + e]; }
        if (e < E && !is_value) { x = key(base, position, e); }
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
            vc[row + w] = pack_halves(qkv[base + e], qkv[base + e + 1u]);
        } else {
            kc[row + w] = pack_halves(key(base, position, e), key(base, position, e + 1u));
        }
    }
{% endif %}
}
