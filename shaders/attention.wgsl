// Attention of few rows over one split of the cache: grid [G * ceil(H / G / 4), T * room for splits]; splits beyond pos return.
// In decode, which has one row, queries and the new key are normed (QK_NORM) and rotated here, and the workgroups whose split the row's own
// position falls into append its key and value to the cache: those of one kv head write the same bits, and none reads them from there.
// Where there are more rows (APPENDS is 0), `rope` has done it; always for heads of e512, which leave no workgroup memory for it. In a step of several
// rows (APPENDS is 2) each row does as one row does. Rows of one sequence see keys of rows before them, which other workgroups append meanwhile: a
// workgroup computes these keys and values from qkv once more.
// The softmax is left open: `po` is the sum of exp(s - m) v and `ml` holds (m, sum of exp(s - m)); `merge` joins the splits.
//
// Four query heads of the kv head share each read of K and V. Keys go through in tiles: eight lanes share a key, so that neighbouring
// lanes read neighbouring 16 bytes; then {{ "64 lanes share a row of V, and the four" if width == "e512" else "32 lanes share a row of V, and the eight" }} groups of them deal the keys out among themselves.
// `tiles` is `one` where no split of the cache has more keys than a tile.
{% set width = {"e64": 64, "e128": 128, "e256": 256, "e512": 512}[width] %}
{% set fused = width < 512 %}{# norms, rotations and the append happen here #}
{% set across = 32 if fused else 64 %}{# lanes that share a row of V #}
{% set deals = 256 // across %}{# and the groups of them #}
{% set keys = tile[0] %}{% set rounds = keys // 32 %}
{% set units = width // 64 %}{% set columns = width // across %}
{% set pairs = 2 if columns == 2 else 4 %}
{% set vectors = columns // pairs %}{% set V = "vec" ~ pairs ~ "<f32>" %}
{% import "common/cache_" ~ kv ~ ".wgsl" as cache_type with context %}
{% import "common/scores_" ~ ("workgroup" if reduce == "wg" else "subgroup") ~ ".wgsl" as scores with context %}
{% import "common/attention_keys.wgsl" as keys_of with context %}
{% import "common/attention_values.wgsl" as values_of with context %}
{% include "common/state.wgsl" %}
{% include "common/rows.wgsl" %}
{% include "common/window.wgsl" %}
{% include "common/splits.wgsl" %}
override H: u32;      // query heads
override G: u32;      // kv heads; H / G query heads share one
override E: u32;      // head width: a multiple of 4, at most {{ width }}
override SCALE: f32;  // of the scores, usually 1 / sqrt(E)
{% if fused %}
override APPENDS: u32 = 1u;      // 1: keys and values of the one row are appended here; 2: of each of several rows; 0: the cache holds them
{% endif %}
override SLOTS: u32 = 1u;        // sequences that have a cache in the buffers
override QSTRIDE: u32 = 0u;      // f32 a row of qkv
{% include "common/slots.wgsl" %}

@group(0) @binding(1) var<storage, read> qkv: array<f32>;        // [T][QSTRIDE]: H*E queries, G*E keys, G*E values
@group(0) @binding(4) var<storage, read_write> po: array<f32>;         // [T][splits][H][E]
@group(0) @binding(5) var<storage, read_write> ml: array<vec2<f32>>;   // [T][splits][H]

const THREADS = {{ workgroup }}u;
const KEYS = {{ keys }}u;   // keys of a tile
const LANES = 8u;           // lanes that share a key
const HEADS = {{ heads_a_read }}u;           // query heads that share a read
const LOWEST = -3.4028234e38;

var<workgroup> q: array<vec4<f32>, {{ width }}>;         // [HEADS][EP/4], scaled
var<workgroup> weights: array<vec4<f32>, KEYS>;          // [KEYS], a component a head: exp(s - m)
var<workgroup> maxima: array<f32, 32>;                   // [8][HEADS], of an eighth of the keys each
var<workgroup> sums: array<f32, 32>;                     // [8][HEADS], of an eighth of the weights each
{% if tiles == "many" %}
var<workgroup> rescales: array<f32, 4>;                  // what earlier tiles' sums are multiplied by
{% endif %}
{{ scores.memory() }}
{% if fused %}
var<workgroup> summands: array<f32, 2048>;               // [8][heads at once][{{ width }}], of the output
{% include "common/heads.wgsl" %}
{% include "common/earlier.wgsl" %}
{% elif reduce == "wg" %}
var<workgroup> summands: array<f32, 1024>;               // of the scores; those of the output take the queries' place
{% endif %}
{% include "common/cache.wgsl" %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let room = select(grid.y / state.rows, ROOM, ROOM != 0u);
    let row = wid.y / room;
    let pos = position_of(row);
    let shared_by = H / G;
    let passes = (shared_by + HEADS - 1u) / HEADS;
    let splits = splits_of(G * passes, row);
    let own_split = wid.y % room;
    let first_key = pos + 1u - seen(pos) + own_split * splits.keys;
    let kv_head = wid.x / passes;
    if (first_key > pos || kv_head >= G || rests(row) || own_split >= splits.count) { return; }
    let end_key = min(first_key + splits.keys, pos + 1u);
{% if fused %}
    let appends = APPENDS != 0u && end_key > pos;
    // Whether keys of earlier rows are among these.
    let sees_earlier = APPENDS == 2u && !apart() && max(first_key, state.pos) < min(end_key, pos);
{% endif %}
    let eights = {{ cache_type.eights }};   // of a row of the cache, whose width is E padded to EP
    let cap = arrayLength(&kc) / (SLOTS * G * {{ cache_type.row }});
    let first_slot = first_key % cap;
    let at_split = row * splits.apart + own_split;
    let row_columns = eights * {{ 8 // columns }}u;
    let cache = (slot_of(row) * G + kv_head) * cap;

    // Roles of this lane: for K a key of every 32, and an eighth of its elements; for V {{ columns }} elements of one key of {{ deals }}.
    let lane = li % LANES;
    let key = li / LANES;
    let column = min(li % {{ across }}u, row_columns - 1u);
    let part = li / {{ across }}u;

{% if tiles == "one" %}
    // All that this workgroup reads of the cache is under way before it is known what for.
    let tile = first_key;
    let count = end_key - first_key;
{{ keys_of.load() }}
{{ values_of.load() }}
{% endif %}
    let h0 = wid.x % passes * HEADS;
    let heads = min(HEADS, shared_by - h0);
    let head = kv_head * shared_by + h0;
{% if fused %}
{% include "common/append.wgsl" %}
{% else %}
    for (var i = li; i < HEADS * eights * 2u; i += THREADS) {
        let which = i / (eights * 2u);
        let four = i % (eights * 2u);
        var x = vec4<f32>();
        if (four * 4u < E && which < heads) {
            let query = row * QSTRIDE + (head + which) * E + four * 4u;
            x = vec4<f32>(qkv[query], qkv[query + 1u], qkv[query + 2u], qkv[query + 3u]) * SCALE;
        }
        q[i] = x;
    }
    workgroupBarrier();
{% endif %}
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
{{ keys_of.load() }}
{% endif %}
{% if fused %}{{ keys_of.earlier() }}{% endif %}
{{ keys_of.scores() }}
        let own_key = key + 32u * own_round;
        let counts = own_key < count{% if rounds == 1 %} && own_round == 0u{% endif %};
{{ scores.join() }}
        s = select(LOWEST, capped0(s), counts);
{{ scores.most() }}
        workgroupBarrier();
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
{{ scores.share() }}
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
{{ values_of.load() }}
{% endif %}
{% if fused %}{{ values_of.earlier() }}{% endif %}
{{ values_of.add() }}
    }

{{ scores.total() }}
{{ values_of.store() }}
}
