// Causal attention of many rows: row t sees keys 0..=pos + t, which are in the cache already. Grid [H, ceil(T / 16)].
// A workgroup takes 16 rows of one head through the keys in tiles of 32 with an online softmax. K and V pass through
// workgroup memory 64 elements of the head at a time, so that any head width up to 256 fits.
{% include "common/state.wgsl" %}
{% include "common/kv_" ~ kv ~ ".wgsl" %}
override H: u32;        // query heads
override G: u32;        // kv heads; H / G query heads share one
override E: u32;        // head width: a multiple of 4, at most 256
override CAP: u32;      // positions that the cache holds
override SCALE: f32;    // of the scores, usually 1 / sqrt(E)
override QSTRIDE: u32;  // f32 a row of qkv, a multiple of 4
override KB: u32;       // blocks of 32 a row of y: ceil(H*E / 32)

@group(0) @binding(1) var<storage, read> qkv: array<vec4<f32>>;  // [T][QSTRIDE/4]: H*E queries first, rotated
{% if kv == "f32" %}
@group(0) @binding(2) var<storage, read> kc: array<vec4<f32>>;   // [G][CAP][EP/4], EP = E padded to a multiple of 8
@group(0) @binding(3) var<storage, read> vc: array<vec4<f32>>;   // [G][CAP][EP/4]
{% else %}
@group(0) @binding(2) var<storage, read> kc: array<vec2<u32>>;   // [G][CAP][EP/4], four halves each; EP = E padded to a multiple of 8
@group(0) @binding(3) var<storage, read> vc: array<vec2<u32>>;   // [G][CAP][EP/4]
{% endif %}
@group(0) @binding(4) var<storage, read_write> y: array<vec4<f32>>;  // [T][KB*8], zero beyond H*E

const THREADS = 256u;
const ROWS = {{ tile[1] }}u;   // rows of a workgroup
const KEYS = {{ tile[0] }}u;   // keys of a tile
const SLICE = 16u;  // vec4 of a head that pass through workgroup memory together
const PAD = 17u;    // their stride: one more, against bank conflicts
const SPAD = 33u;   // and that of the scores
const LOWEST = -3.4028234e38;

var<workgroup> q: array<vec4<f32>, ROWS * PAD>;  // [ROWS][PAD], scaled
var<workgroup> kv: array<vec4<f32>, KEYS * PAD>; // [KEYS][PAD]: a slice of K, then of V
var<workgroup> scores: array<f32, ROWS * SPAD>;  // [ROWS][SPAD]: scores, then exp(s - m)

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let head = wid.x;
    let t0 = wid.y * ROWS;
    if (t0 >= state.rows || head >= H) { return; }
    let width = E / 4u;  // of a head, in vec4
    let slices = (width + SLICE - 1u) / SLICE;
    let stride = (E + 7u) / 8u * 2u;  // of a row of the cache, in vec4
    let cache = head / (H / G) * CAP * stride;
    let last_row = min(t0 + ROWS, state.rows) - 1u;
    let end_key = min(state.pos + last_row + 1u, CAP);

    // This lane: one row; two keys of a tile, 16 apart; four elements of each slice of the output.
    let row = li / 16u;
    let lane = li % 16u;
    let t = t0 + row;
    var m = LOWEST;
    var l = 0.0;
    var o = array<vec4<f32>, 4>();  // a slice each

    for (var tile = 0u; tile < end_key; tile += KEYS) {
        var score_a = 0.0;
        var score_b = 0.0;
        for (var slice = 0u; slice < slices; slice++) {
            let column = slice * SLICE + lane;
            // What the loops below read must have been read before it is replaced.
            workgroupBarrier();
            q[row * PAD + lane] = vec4<f32>(0.0);
            if (column < width && t < state.rows) {
                q[row * PAD + lane] = qkv[t * (QSTRIDE / 4u) + head * width + column] * SCALE;
            }
            for (var key = row; key < KEYS; key += ROWS) {
                var k = vec4<f32>(0.0);
                if (column < width && tile + key < end_key) { k = unpack_kv(kc[cache + (tile + key) * stride + column]); }
                kv[key * PAD + lane] = k;
            }
            workgroupBarrier();
            for (var c = 0u; c < SLICE; c++) {
                let x = q[row * PAD + c];
                score_a += dot(x, kv[lane * PAD + c]);
                score_b += dot(x, kv[(lane + 16u) * PAD + c]);
            }
        }
        // Keys after the row's own position do not exist for it.
        let visible = state.pos + t;
        if (tile + lane > visible) { score_a = LOWEST; }
        if (tile + lane + 16u > visible) { score_b = LOWEST; }
        scores[row * SPAD + lane] = score_a;
        scores[row * SPAD + lane + 16u] = score_b;
        workgroupBarrier();

        // Key 0 is visible to every row, so m is a score from the first tile on.
        let m_before = m;
        for (var i = 0u; i < KEYS; i++) { m = max(m, scores[row * SPAD + i]); }
        let rescale = exp(m_before - m);
        workgroupBarrier();
        scores[row * SPAD + lane] = select(exp(score_a - m), 0.0, tile + lane > visible);
        scores[row * SPAD + lane + 16u] = select(exp(score_b - m), 0.0, tile + lane + 16u > visible);
        l *= rescale;
        for (var slice = 0u; slice < slices; slice++) { o[slice] *= rescale; }

        // The loop's bound is a constant of the pipeline, so that o stays in registers.
        for (var slice = 0u; slice < slices; slice++) {
            let column = slice * SLICE + lane;
            workgroupBarrier();
            for (var key = row; key < KEYS; key += ROWS) {
                var v = vec4<f32>(0.0);
                if (column < width && tile + key < end_key) { v = unpack_kv(vc[cache + (tile + key) * stride + column]); }
                kv[key * PAD + lane] = v;
            }
            workgroupBarrier();
            var sum = o[slice];
            for (var key = 0u; key < KEYS; key++) { sum += scores[row * SPAD + key] * kv[key * PAD + lane]; }
            o[slice] = sum;
        }
        // After the barrier of the first slice every score of the tile is final.
        for (var key = 0u; key < KEYS; key++) { l += scores[row * SPAD + key]; }
    }

    if (t >= state.rows) { return; }
    let out = t * KB * 8u + head * width;
    for (var slice = 0u; slice < slices; slice++) {
        if (slice * SLICE + lane < width) { y[out + slice * SLICE + lane] = o[slice] / l; }
    }
    if (head == H - 1u) {
        for (var i = H * width + lane; i < KB * 8u; i += 16u) { y[t * KB * 8u + i] = vec4<f32>(0.0); }
    }
}
