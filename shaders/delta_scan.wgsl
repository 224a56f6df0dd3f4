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
const AHEAD = 8u;                                  // rows of keys on their way
{% include "common/staged.wgsl" %}
// Together no more than the default limit of 16 KiB.
var<workgroup> columns: array<vec4<f32>, COLUMNS * PADDED>;       // [COLUMNS][KEY / 4]: S
var<workgroup> u: array<f32, COLUMNS * (CHUNK + 1u)>;             // [COLUMNS][CHUNK]: s (v - exp(G) S k), then U
var<workgroup> sums: array<f32, CHUNK>;                           // G
var<workgroup> fades: array<f32, CHUNK>;                          // exp(G_last - G)

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let head = wid.x;
    let column0 = wid.y * COLUMNS;
    let fours = KEY / 4u;
    let kept = ((state.slot * HEADS + head) * VALUE + column0) * fours;
    for (var i = li; i < COLUMNS * fours; i += {{ workgroup }}u) { columns[i / fours * PADDED + i % fours] = s[kept + i]; }
    let at = vec2<u32>(K_AT + key_head(head) * KEY, Q_AT + key_head(head) * KEY) / 4u;
    let c = li % COLUMNS;
    let i0 = li / COLUMNS * ROWS;
    let v_at = V_AT + head * VALUE + column0 + c;
    for (var first = 0u; first < state.rows; first += CHUNK) {
        let rows = min(state.rows - first, CHUNK);
        var next = fetch(first, rows, at, 0u, li);
        if (li < CHUNK) { sums[li] = select(0.0, strengths[(first + min(li, rows - 1u)) * HEADS + head].x, li < rows); }
        workgroupBarrier();
        // Sums from the first row on, and from the last row back: differences of sums would lose what is small.
        var until = 0.0;
        var after = 0.0;
        if (li < CHUNK) {
            for (var i = 0u; i < CHUNK; i++) {
                let g = sums[i];
                if (i <= li) { until += g; } else { after += g; }
            }
        }
        var v = array<f32, ROWS>();
        var strength = array<f32, ROWS>();
        for (var r = 0u; r < ROWS; r++) {
            let i = first + min(i0 + r, rows - 1u);
            v[r] = x[i * (CHANNELS / 4u) + v_at / 4u][v_at % 4u];
            strength[r] = select(0.0, strengths[i * HEADS + head].y, i0 + r < rows);
        }
        workgroupBarrier();
        if (li < CHUNK) {
            sums[li] = until;
            fades[li] = exp(after);
        }
        let prepared = ((first / CHUNK * HEADS + head) * 2u) * CHUNK * CHUNK / 4u;
        var old_k = array<f32, ROWS>();
        var old_q = array<f32, ROWS>();
        for (var begin = 0u; begin < fours; begin += SLICE) {
            stage(next, li);
            workgroupBarrier();
            next = fetch(first, rows, at, begin + SLICE, li);
            for (var f = 0u; f < SLICE; f++) {
                if (begin + f < fours) {
                    let of_s = columns[c * PADDED + begin + f];
                    for (var r = 0u; r < ROWS; r++) {
                        old_q[r] += dot(of_s, of_query(i0 + r, f));
                        if (DELTA == 1u) { old_k[r] += dot(of_s, of_key(i0 + r, f)); }
                    }
                }
            }
            workgroupBarrier();
        }
        for (var r = 0u; r < ROWS; r++) { u[c * (CHUNK + 1u) + i0 + r] = strength[r] * (v[r] - exp(sums[i0 + r]) * old_k[r]); }
        workgroupBarrier();
        if (DELTA == 1u) {
            var solved = array<f32, ROWS>();
            for (var j = 0u; j < CHUNK / 4u; j++) {
                let at_u = c * (CHUNK + 1u) + 4u * j;
                let of_rest = vec4<f32>(u[at_u], u[at_u + 1u], u[at_u + 2u], u[at_u + 3u]);
                for (var r = 0u; r < ROWS; r++) { solved[r] += dot(within[prepared + (i0 + r) * (CHUNK / 4u) + j], of_rest); }
            }
            workgroupBarrier();
            for (var r = 0u; r < ROWS; r++) { u[c * (CHUNK + 1u) + i0 + r] = select(0.0, solved[r], i0 + r < rows); }
            workgroupBarrier();
        }
        var out = array<f32, ROWS>();
        for (var j = 0u; j < CHUNK / 4u; j++) {
            let at_u = c * (CHUNK + 1u) + 4u * j;
            let of_u = vec4<f32>(u[at_u], u[at_u + 1u], u[at_u + 2u], u[at_u + 3u]);
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
        let decay = exp(sums[CHUNK - 1u]);
        // Every column of S has been read; a vec4 of keys of two columns an invocation.
        for (var i = li; i < COLUMNS / 2u * fours; i += {{ workgroup }}u) {
            let f = i % fours;
            let c0 = i / fours * 2u;
            var one = decay * columns[c0 * PADDED + f];
            var two = decay * columns[(c0 + 1u) * PADDED + f];
            for (var row = 0u; row < CHUNK; row += AHEAD) {
                var k = array<vec4<f32>, AHEAD>();
                for (var n = 0u; n < AHEAD; n++) { k[n] = x[(first + min(row + n, rows - 1u)) * (CHANNELS / 4u) + at.x + f]; }
                for (var n = 0u; n < AHEAD; n++) {
                    let faded = fades[row + n] * k[n];
                    one += u[c0 * (CHUNK + 1u) + row + n] * faded;
                    two += u[(c0 + 1u) * (CHUNK + 1u) + row + n] * faded;
                }
            }
            columns[c0 * PADDED + f] = one;
            columns[(c0 + 1u) * PADDED + f] = two;
        }
        workgroupBarrier();
    }
    for (var i = li; i < COLUMNS * fours; i += {{ workgroup }}u) { s[kept + i] = columns[i / fours * PADDED + i % fours]; }
}
