// Linear attention chunk after chunk, each with the state that the one before it leaves: with U = (I + A)^-1 s (v - exp(G) S k), or s v where
// DELTA is 0, y = exp(G) S q + M U and S = exp(G_last) S + (exp(G_last - G) U) k^T. Grid [HEADS, VALUE / {{ tile[0] }}]: a workgroup has {{ tile[0] }}
// columns of a head's state, and walks over the chunks that `delta_intra` has prepared.
{% include "common/state.wgsl" %}
{% include "common/delta.wgsl" %}
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;              // [T][CHANNELS / 4]: what `delta_conv` leaves
@group(0) @binding(2) var<storage, read> strengths: array<vec2<f32>>;      // [T][HEADS]: (g, s)
@group(0) @binding(3) var<storage, read> within: array<vec4<f32>>;         // [chunks][HEADS][2][CHUNK][CHUNK / 4]: (I + A)^-1, M
@group(0) @binding(4) var<storage, read> heads: array<f32>;                // [3][HEADS]: A, bias, D
@group(0) @binding(5) var<storage, read_write> s: array<vec4<f32>>;        // [slots][HEADS][VALUE][KEY / 4]
@group(0) @binding(6) var<storage, read_write> y: array<f32>;              // [T][HEADS * VALUE]
override CHANNELS: u32;
override SCALE: f32;   // of queries

const COLUMNS = {{ tile[0] }}u;
const CHUNK = {{ chunk }}u;
const ROWS = CHUNK * COLUMNS / {{ workgroup }}u;   // of a chunk, neighbours, that an invocation has of its column
const PADDED = {{ 256 if width == "e256" else 128 }}u / 4u + 1u;
const CHUNKED = CHUNK / 4u + 1u;
var<workgroup> columns: array<vec4<f32>, COLUMNS * PADDED>;   // [COLUMNS][KEY / 4]: S
var<workgroup> rest: array<vec4<f32>, COLUMNS * CHUNKED>;     // [COLUMNS][CHUNK / 4]: s (v - exp(G) S k)
var<workgroup> u: array<vec4<f32>, COLUMNS * CHUNKED>;        // [COLUMNS][CHUNK / 4]: U
var<workgroup> sums: array<f32, CHUNK>;                       // G

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let head = wid.x;
    let column0 = wid.y * COLUMNS;
    let fours = KEY / 4u;
    let stored = ((state.slot * HEADS + head) * VALUE + column0) * fours;
    for (var i = li; i < COLUMNS * fours; i += {{ workgroup }}u) { columns[i / fours * PADDED + i % fours] = s[stored + i]; }
    let q_at = (Q_AT + key_head(head) * KEY) / 4u;
    let k_at = (K_AT + key_head(head) * KEY) / 4u;
    let c = li % COLUMNS;
    let group = li / COLUMNS;
    let i0 = group * ROWS;
    let v_at = V_AT + head * VALUE + column0 + c;
    for (var first = 0u; first < state.rows; first += CHUNK) {
        let rows = min(state.rows - first, CHUNK);
        if (li < CHUNK) {
            var sum = 0.0;
            for (var i = 0u; i <= min(li, rows - 1u); i++) { sum += strengths[(first + i) * HEADS + head].x; }
            sums[li] = sum;
        }
        workgroupBarrier();
        let prepared = ((first / CHUNK * HEADS + head) * 2u) * CHUNK * CHUNK / 4u;
        var old_k = vec4<f32>();
        var old_q = vec4<f32>();
        for (var f = 0u; f < fours; f++) {
            let of_s = columns[c * PADDED + f];
            for (var r = 0u; r < ROWS; r++) {
                let row = (first + min(i0 + r, rows - 1u)) * (CHANNELS / 4u);
                old_q[r] += dot(of_s, x[row + q_at + f]);
                if (DELTA == 1u) { old_k[r] += dot(of_s, x[row + k_at + f]); }
            }
        }
        var v = vec4<f32>();
        var left = vec4<f32>();
        for (var r = 0u; r < ROWS; r++) {
            let i = i0 + r;
            if (i < rows) {
                v[r] = x[(first + i) * (CHANNELS / 4u) + v_at / 4u][v_at % 4u];
                left[r] = strengths[(first + i) * HEADS + head].y * (v[r] - exp(sums[i]) * old_k[r]);
            }
        }
        rest[c * CHUNKED + group] = left;
        workgroupBarrier();
        if (DELTA == 1u) {
            var solved = vec4<f32>();
            for (var j = 0u; j < CHUNK / 4u; j++) {
                let of_rest = rest[c * CHUNKED + j];
                for (var r = 0u; r < ROWS; r++) { solved[r] += dot(within[prepared + (i0 + r) * (CHUNK / 4u) + j], of_rest); }
            }
            left = solved;
        }
        u[c * CHUNKED + group] = left;
        workgroupBarrier();
        var out = vec4<f32>();
        for (var j = 0u; j < CHUNK / 4u; j++) {
            let of_u = u[c * CHUNKED + j];
            for (var r = 0u; r < ROWS; r++) { out[r] += dot(within[prepared + (CHUNK + i0 + r) * (CHUNK / 4u) + j], of_u); }
        }
        for (var r = 0u; r < ROWS; r++) {
            let i = i0 + r;
            if (i < rows) {
                var sum = out[r] + SCALE * exp(sums[i]) * old_q[r];
                if (DELTA == 0u) { sum += heads[2u * HEADS + head] * v[r]; }
                y[((first + i) * HEADS + head) * VALUE + column0 + c] = sum;
            }
        }
        let last = sums[rows - 1u];
        let decay = exp(last);
        // Every column of S has been read; a vec4 of keys of some columns an invocation.
        for (var i = li; i < COLUMNS / 4u * fours; i += {{ workgroup }}u) {
            let f = i % fours;
            let c0 = i / fours * 4u;
            var sum: array<vec4<f32>, 4>;
            for (var n = 0u; n < 4u; n++) { sum[n] = decay * columns[(c0 + n) * PADDED + f]; }
            for (var row = 0u; row < rows; row++) {
                let k = exp(last - sums[row]) * x[(first + row) * (CHANNELS / 4u) + k_at + f];
                for (var n = 0u; n < 4u; n++) { sum[n] += u[(c0 + n) * CHUNKED + row / 4u][row % 4u] * k; }
            }
            for (var n = 0u; n < 4u; n++) { columns[(c0 + n) * PADDED + f] = sum[n]; }
        }
        workgroupBarrier();
    }
    for (var i = li; i < COLUMNS * fours; i += {{ workgroup }}u) { s[stored + i] = columns[i / fours * PADDED + i % fours]; }
}
