// Linear attention within chunks of {{ chunk }} rows, which no state enters: with G the sum of g from the chunk's first row on,
//     A_ij = s_i exp(G_i - G_j) (k_i . k_j), j < i;  M_ij = exp(G_i - G_j) (q_i . k_j) SCALE, j <= i
// and (I + A)^-1, by forward substitution; not where DELTA is 0. Grid [HEADS, chunks]. Of rows beyond the pass's everything is 0.
{% include "common/state.wgsl" %}
{% with keys_only = true %}{% include "common/delta.wgsl" %}{% endwith %}
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;              // [T][CHANNELS / 4]: what `delta_conv` leaves
@group(0) @binding(2) var<storage, read> strengths: array<vec2<f32>>;      // [T][HEADS]: (g, s)
@group(0) @binding(3) var<storage, read_write> within: array<f32>;         // [chunks][HEADS][2][CHUNK][CHUNK]: (I + A)^-1, M
override CHANNELS: u32;
override SCALE: f32;   // of queries

const CHUNK = {{ chunk }}u;
const ACROSS = {{ workgroup }}u / CHUNK;   // invocations that share a row
const EACH = CHUNK / ACROSS;               // entries of a row that an invocation has
{% include "common/staged.wgsl" %}
var<workgroup> a: array<f32, CHUNK * (CHUNK + 1u)>;
var<workgroup> solved: array<f32, 2u * CHUNK>;   // the last row of (I + A)^-1 that is known, and the one before it
var<workgroup> sums: array<f32, CHUNK>;
var<workgroup> strength: array<f32, CHUNK>;

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let head = wid.x;
    let first = wid.y * CHUNK;
    if (first >= state.rows) { return; }
    let rows = min(state.rows - first, CHUNK);
    let at = vec2<u32>(K_AT + key_head(head) * KEY, Q_AT + key_head(head) * KEY) / 4u;
    var next = fetch(first, rows, at, 0u, li);
    if (li < CHUNK) {
        let own = strengths[(first + min(li, rows - 1u)) * HEADS + head];
        strength[li] = select(0.0, own.y, li < rows);
        sums[li] = select(0.0, own.x, li < rows);
    }
    workgroupBarrier();
    var until = 0.0;
    if (li < CHUNK) {
        for (var r = 0u; r <= li; r++) { until += sums[r]; }
    }
    workgroupBarrier();
    if (li < CHUNK) { sums[li] = until; }
    let i = li / ACROSS;
    let j0 = li % ACROSS;
    var kk = array<f32, EACH>();
    var qk = array<f32, EACH>();
    for (var begin = 0u; begin < KEY / 4u; begin += SLICE) {
        stage(next, li);
        workgroupBarrier();
        next = fetch(first, rows, at, begin + SLICE, li);
        for (var f = 0u; f < SLICE; f++) {
            let k = of_key(i, f);
            let q = of_query(i, f);
            for (var e = 0u; e < EACH; e++) {
                let other = of_key(j0 + e * ACROSS, f);
                kk[e] += dot(k, other);
                qk[e] += dot(q, other);
            }
        }
        workgroupBarrier();
    }
    let out = ((wid.y * HEADS + head) * 2u) * CHUNK * CHUNK;
    for (var e = 0u; e < EACH; e++) {
        let j = j0 + e * ACROSS;
        let there = i < rows && j <= i;
        // What is above the diagonal would overflow.
        let fade = exp(min(sums[i] - sums[j], 0.0));
        a[i * (CHUNK + 1u) + j] = select(0.0, strength[i] * fade * kk[e], there && j < i);
        within[out + CHUNK * CHUNK + i * CHUNK + j] = select(0.0, SCALE * fade * qk[e], there);
    }
    if (DELTA == 0u) { return; }
    // Row after row is done: those below it lose their share of it.
    let column = li % CHUNK;
    let r0 = li / CHUNK;
    var own = array<f32, EACH>();
    for (var e = 0u; e < EACH; e++) { own[e] = select(0.0, 1.0, r0 + e * ACROSS == column); }
    for (var l = 0u; l < CHUNK; l++) {
        if (l % ACROSS == r0) {
            for (var e = 0u; e < EACH; e++) {
                if (r0 + e * ACROSS == l) { solved[l % 2u * CHUNK + column] = own[e]; }
            }
        }
        workgroupBarrier();   // the first also is that of a
        let done = solved[l % 2u * CHUNK + column];
        for (var e = 0u; e < EACH; e++) {
            let row = r0 + e * ACROSS;
            if (row > l) { own[e] -= a[row * (CHUNK + 1u) + l] * done; }
        }
    }
    for (var e = 0u; e < EACH; e++) { within[out + (r0 + e * ACROSS) * CHUNK + column] = own[e]; }
}
