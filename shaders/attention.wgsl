// Attention of one row (decode) over one split of the cache: grid [G * ceil(H / G / 4), ceil(CAP / SPLIT)]; splits beyond
// pos return. Queries and the new
// key are rotated here, and the workgroups whose split the row's own position falls into append its key and value to the cache: those of one kv
// head write the same bits, and each reads what it wrote itself.
// The softmax is left open: `po` is the sum of exp(s - m) v and `ml` holds (m, sum of exp(s - m)); `merge` joins the splits.
//
// Four query heads of the kv head share each read of K and V: the four components of a vec4 are four heads wherever
// scores are meant. Keys go through in tiles of 64: eight lanes share a key, so that neighbouring lanes read neighbouring
// memory; then the lanes are dealt out again, one for four elements of V, and the rest of them over the keys.
{% include "common/state.wgsl" %}
{% include "common/kv_" ~ kv ~ ".wgsl" %}
{% if reduce == "sg" %}{% include "common/ordered.wgsl" %}{% endif %}
override H: u32;      // query heads
override G: u32;      // kv heads; H / G query heads share one
override E: u32;      // head width: a multiple of 4, at most 256
override CAP: u32;    // positions that the cache holds
override SPLIT: u32;  // keys a split
override SCALE: f32;  // of the scores, usually 1 / sqrt(E)

override ROT: u32;          // rotated dimensions of a head, even, at most E
override INTERLEAVED: u32;  // 1: pairs (2i, 2i+1); 0: pairs (i, i + ROT/2)

@group(0) @binding(1) var<storage, read> qkv: array<f32>;        // H*E queries, G*E keys, G*E values
{% if kv == "f32" %}
@group(0) @binding(2) var<storage, read_write> kc: array<vec4<f32>>;   // [G][CAP][E/4]
@group(0) @binding(3) var<storage, read_write> vc: array<vec4<f32>>;   // [G][CAP][E/4]
{% else %}
@group(0) @binding(2) var<storage, read_write> kc: array<vec2<u32>>;   // [G][CAP][E/4], four halves each
@group(0) @binding(3) var<storage, read_write> vc: array<vec2<u32>>;   // [G][CAP][E/4]
{% endif %}
@group(0) @binding(6) var<storage, read> rot: array<vec2<f32>>;  // [C][ROT/2]: (cos, sin)
@group(0) @binding(4) var<storage, read_write> po: array<vec4<f32>>;  // [splits][H][E/4]
@group(0) @binding(5) var<storage, read_write> ml: array<vec2<f32>>;  // [splits][H]

const THREADS = 256u;
const TILE = {{ tile[0] }}u;   // keys that go through workgroup memory together
const LANES = 8u;   // lanes that share a key
const HEADS = 4u;   // query heads that share a read
const LOWEST = -3.4028234e38;

var<workgroup> q: array<vec4<f32>, 256>;        // [HEADS][E/4], scaled
var<workgroup> scores: array<vec4<f32>, TILE>;  // [TILE], a component a head: scores, then exp(s - m)
// The summands of sums across lanes: of scores [TILE][LANES], then of the output [parts][HEADS][E/4].
var<workgroup> summands: array<vec4<f32>, 512>;
var<workgroup> l_summands: array<vec4<f32>, 64>;  // [parts]
{% if reduce == "sg" %}
var<workgroup> maxima: array<atomic<u32>, 4>;   // [HEADS], as ordered keys
{% else %}
var<workgroup> maxima: array<vec4<f32>, 8>;     // of eight keys each
{% endif %}

{% include "common/rotate.wgsl" %}

// Elements 4i..4i+3 of head `head` of qkv, rotated for the row's position.
fn rotated4(head: u32, i: u32) -> vec4<f32> {
    var v = vec4<f32>();
    for (var c = 0u; c < 4u; c++) { v[c] = rotated(head * E, state.pos, i * 4u + c); }
    return v;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let first_key = wid.y * SPLIT;
    let shared_by = H / G;
    let passes = (shared_by + HEADS - 1u) / HEADS;
    let kv_head = wid.x / passes;
    if (first_key > state.pos || kv_head >= G) { return; }
    let end_key = min(first_key + SPLIT, state.pos + 1u);
    let width = E / 4u;  // of a head, in vec4
    let cache = kv_head * CAP * width;

    // Roles of this lane: for K, a key of the tile (and the one 32 later) and an eighth of its elements;
    // for V, four elements of every parts-th key.
    let lane = li % LANES;
    let key_a = li / LANES;
    let key_b = key_a + TILE / 2u;
    let parts = min(THREADS / width, 64u) & ~1u;   // even: halves are joined
    let part = li / width;
    let column = li % width;

    if (state.pos < end_key) {
        for (var i = li; i < width; i += THREADS) {
            let value = (H + G + kv_head) * E + i * 4u;
            kc[cache + state.pos * width + i] = pack_kv(rotated4(H + kv_head, i));
            vc[cache + state.pos * width + i] = pack_kv(vec4<f32>(qkv[value], qkv[value + 1u], qkv[value + 2u], qkv[value + 3u]));
        }
        storageBarrier();
    }

    let h0 = wid.x % passes * HEADS;
    let heads = min(HEADS, shared_by - h0);
    let head = kv_head * shared_by + h0;
    for (var i = li; i < HEADS * width; i += THREADS) {
        if (i < heads * width) {
            q[i] = rotated4(head + i / width, i % width) * SCALE;
        } else {
            q[i] = vec4<f32>(0.0);
        }
    }
    var m = vec4<f32>(LOWEST);
    var l = vec4<f32>(0.0);
{% for g in range(4) %}
    var o{{ g }} = vec4<f32>(0.0);
{% endfor %}
    workgroupBarrier();

    for (var tile = first_key; tile < end_key; tile += TILE) {
        let keys = min(TILE, end_key - tile);

        var a = vec4<f32>(0.0);
        var b = vec4<f32>(0.0);
        for (var c = lane; c < width; c += LANES) {
            // Keys beyond the last repeat it and do not count below: a load without a condition need not wait for one.
            let ka = unpack_kv(kc[cache + (tile + min(key_a, keys - 1u)) * width + c]);
            let kb = unpack_kv(kc[cache + (tile + min(key_b, keys - 1u)) * width + c]);
            let q0 = q[c];
            let q1 = q[width + c];
            let q2 = q[2u * width + c];
            let q3 = q[3u * width + c];
            a += vec4<f32>(dot(ka, q0), dot(ka, q1), dot(ka, q2), dot(ka, q3));
            b += vec4<f32>(dot(kb, q0), dot(kb, q1), dot(kb, q2), dot(kb, q3));
        }
        summands[key_a * LANES + lane] = a;
        summands[key_b * LANES + lane] = b;
{% if reduce == "sg" %}
        if (li < HEADS) { atomicStore(&maxima[li], 0u); }
{% endif %}
        workgroupBarrier();

        var s = vec4<f32>(LOWEST);
        if (li < keys) {
            let i = li * LANES;
            s = (summands[i] + summands[i + 1u]) + (summands[i + 2u] + summands[i + 3u])
              + (summands[i + 4u] + summands[i + 5u]) + (summands[i + 6u] + summands[i + 7u]);
        }
{% if reduce == "sg" %}
        // Which lanes make up a subgroup is not known; a maximum does not depend on it.
        let of_subgroup = subgroupMax(s);
        if (subgroupBroadcastFirst(li) == li) {
{% for g in range(4) %}
            atomicMax(&maxima[{{ g }}], ordered(of_subgroup[{{ g }}]));
{% endfor %}
        }
        workgroupBarrier();
        let tile_m = vec4<f32>(
{% for g in range(4) %}
            unordered(atomicLoad(&maxima[{{ g }}])),
{% endfor %}
        );
{% else %}
        if (li < TILE) { scores[li] = s; }
        workgroupBarrier();
        if (li < 8u) {
            var of_eight = scores[li * 8u];
            for (var i = 1u; i < 8u; i++) { of_eight = max(of_eight, scores[li * 8u + i]); }
            maxima[li] = of_eight;
        }
        workgroupBarrier();
        var tile_m = maxima[0];
        for (var i = 1u; i < 8u; i++) { tile_m = max(tile_m, maxima[i]); }
{% endif %}
        let m_before = m;
        m = max(m, tile_m);
        let p = exp(s - m);
        if (li < TILE) { scores[li] = select(vec4<f32>(0.0), p, li < keys); }
        workgroupBarrier();

        // What earlier tiles summed was relative to their maximum.
        let rescale = exp(m_before - m);
        l *= rescale;
{% for g in range(4) %}
        o{{ g }} *= rescale[{{ g }}];
{% endfor %}
        if (part < parts) {
            for (var key = part; key < keys; key += 4u * parts) {
                // Four loads under way at once; keys beyond the last weigh nothing.
{% for k in range(4) %}
                let k{{ k }} = key + {{ k }}u * parts;
                let v{{ k }} = unpack_kv(vc[cache + (tile + min(k{{ k }}, keys - 1u)) * width + column]);
{% endfor %}
{% for k in range(4) %}
                var w{{ k }} = vec4<f32>(0.0);
                if (k{{ k }} < keys) { w{{ k }} = scores[k{{ k }}]; }
                l += w{{ k }};
{% for g in range(4) %}
                o{{ g }} += w{{ k }}[{{ g }}] * v{{ k }};
{% endfor %}
{% endfor %}
            }
        }
    }

    // Half of the parts hand over to the other half: workgroup memory holds no more at one time.
    workgroupBarrier();
    let half = parts / 2u;
    if (part >= half && part < parts) {
{% for g in range(4) %}
        summands[((part - half) * HEADS + {{ g }}u) * width + column] = o{{ g }};
{% endfor %}
        if (column == 0u) { l_summands[part] = l; }
    }
    workgroupBarrier();
    if (part < half) {
{% for g in range(4) %}
        summands[(part * HEADS + {{ g }}u) * width + column] += o{{ g }};
{% endfor %}
        if (column == 0u) { l_summands[part] = l; }
    }
    workgroupBarrier();
    for (var i = li; i < heads * width; i += THREADS) {
        var sum = vec4<f32>(0.0);
        for (var k = 0u; k < half; k++) { sum += summands[k * HEADS * width + i]; }
        po[(wid.y * H + head) * width + i] = sum;
    }
    if (li < heads) {
        var sum = 0.0;
        for (var k = 0u; k < parts; k++) { sum += l_summands[k][li]; }
        ml[wid.y * H + head + li] = vec2<f32>(m[li], sum);
    }
}
