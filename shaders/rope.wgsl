// Rotary position embedding of the queries (in place) and keys, and the append of keys and values to the cache.
// One workgroup for one head of one row: grid [T, H + 2G].
{% include "common/state.wgsl" %}
{% if kv == "f16" %}{% include "common/halves.wgsl" %}{% endif %}
override H: u32;            // query heads
override G: u32;            // kv heads
override E: u32;            // head width, even
override ROT: u32;          // rotated dimensions of a head, even, at most E
override INTERLEAVED: u32;  // 1: pairs (2i, 2i+1); 0: pairs (i, i + ROT/2)
override QSTRIDE: u32;      // f32 a row of qkv
override CAP: u32;          // positions that the cache holds

@group(0) @binding(1) var<storage, read_write> qkv: array<f32>;  // [T][QSTRIDE]: H*E queries, G*E keys, G*E values
@group(0) @binding(2) var<storage, read> rot: array<vec2<f32>>;  // [C][ROT/2]: (cos, sin)
{% if kv == "f32" %}
@group(0) @binding(3) var<storage, read_write> kc: array<f32>;   // [G][CAP][EP], EP = E padded to a multiple of 8
@group(0) @binding(4) var<storage, read_write> vc: array<f32>;   // [G][CAP][EP]
{% else %}
@group(0) @binding(3) var<storage, read_write> kc: array<u32>;   // [G][CAP][EP/2], two halves each; EP = E padded to a multiple of 8
@group(0) @binding(4) var<storage, read_write> vc: array<u32>;   // [G][CAP][E/2]
{% endif %}

const THREADS = 64u;

{% include "common/rotate.wgsl" %}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let t = wid.x;
    let head = wid.y;
    let position = state.pos + t;
    if (t >= state.rows || head >= H + 2u * G || position >= CAP) { return; }
    let base = t * QSTRIDE + head * E;

    if (head < H) {
        let half = ROT / 2u;
        for (var i = li; i < half; i += THREADS) {
            let first = base + select(i, 2u * i, INTERLEAVED != 0u);
            let second = first + select(half, 1u, INTERLEAVED != 0u);
            let r = rot[position * half + i];
            let a = qkv[first];
            let b = qkv[second];
            qkv[first] = a * r.x - b * r.y;
            qkv[second] = a * r.y + b * r.x;
        }
        return;
    }

    let is_value = head >= H + G;
    let kv_head = select(head - H, head - H - G, is_value);
{% if kv == "f32" %}
    let row = (kv_head * CAP + position) * ((E + 7u) / 8u * 8u);
    for (var e = li; e < E; e += THREADS) {
        if (is_value) {
            vc[row + e] = qkv[base + e];
        } else {
            kc[row + e] = rotated(base, position, e);
        }
    }
{% else %}
    let row = (kv_head * CAP + position) * ((E + 7u) / 8u * 4u);
    for (var w = li; w < E / 2u; w += THREADS) {
        let e = 2u * w;
        if (is_value) {
            vc[row + w] = pack_halves(qkv[base + e], qkv[base + e + 1u]);
        } else {
            kc[row + w] = pack_halves(rotated(base, position, e), rotated(base, position, e + 1u));
        }
    }
{% endif %}
}
