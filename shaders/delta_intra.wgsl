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
const EACH = CHUNK * CHUNK / {{ workgroup }}u;   // entries of a row that an invocation has
var<workgroup> a: array<f32, CHUNK * CHUNK>;
var<workgroup> inverse: array<f32, CHUNK * CHUNK>;
var<workgroup> sums: array<f32, CHUNK>;
var<workgroup> strength: array<f32, CHUNK>;

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let head = wid.x;
    let first = wid.y * CHUNK;
    if (first >= state.rows) { return; }
    let rows = min(state.rows - first, CHUNK);
    if (li < CHUNK) {
        var sum = 0.0;
        for (var i = 0u; i <= min(li, rows - 1u); i++) { sum += strengths[(first + i) * HEADS + head].x; }
        sums[li] = sum;
        strength[li] = select(0.0, strengths[(first + min(li, rows - 1u)) * HEADS + head].y, li < rows);
    }
    workgroupBarrier();
    let i = li / (CHUNK / EACH);
    let j0 = li % (CHUNK / EACH);
    let q_at = (Q_AT + key_head(head) * KEY) / 4u;
    let k_at = (K_AT + key_head(head) * KEY) / 4u;
    let own = (first + min(i, rows - 1u)) * (CHANNELS / 4u);
    let out = ((wid.y * HEADS + head) * 2u) * CHUNK * CHUNK;
    var kk: array<f32, EACH>;
    var qk: array<f32, EACH>;
    for (var f = 0u; f < KEY / 4u; f++) {
        let k = x[own + k_at + f];
        let q = x[own + q_at + f];
        for (var e = 0u; e < EACH; e++) {
            let j = j0 + e * (CHUNK / EACH);
            let other = x[(first + min(j, rows - 1u)) * (CHANNELS / 4u) + k_at + f];
            kk[e] += dot(k, other);
            qk[e] += dot(q, other);
        }
    }
    for (var e = 0u; e < EACH; e++) {
        let j = j0 + e * (CHUNK / EACH);
        let there = i < rows && j <= i;
        // What is above the diagonal would overflow.
        let fade = exp(min(sums[i] - sums[j], 0.0));
        a[i * CHUNK + j] = select(0.0, strength[i] * fade * kk[e], there && j < i);
        within[out + CHUNK * CHUNK + i * CHUNK + j] = select(0.0, SCALE * fade * qk[e], there);
    }
    if (DELTA == 0u) { return; }
    workgroupBarrier();
    // A column an invocation, which nobody else reads.
    if (li < CHUNK) {
        for (var row = 0u; row < CHUNK; row++) {
            var sum = select(0.0, 1.0, row == li);
            for (var l = li; l < row; l++) { sum -= a[row * CHUNK + l] * inverse[l * CHUNK + li]; }
            inverse[row * CHUNK + li] = sum;
            within[out + row * CHUNK + li] = sum;
        }
    }
}
