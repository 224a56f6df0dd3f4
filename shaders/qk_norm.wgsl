// RMSNorm, in place, of spans of a row of queries and keys: QSPANS spans of QWIDTH, then KSPANS of KWIDTH. A span is a head, or all heads.
// One workgroup a span: grid [QSPANS + KSPANS, T].
{% include "common/state.wgsl" %}
{% with sum = "f32", reduce = "wg" %}{% include "common/reduce.wgsl" %}{% endwith %}
@group(0) @binding(1) var<storage, read_write> qkv: array<f32>;   // [T][QSTRIDE]
@group(0) @binding(2) var<storage, read> nw: array<f32>;          // [KAT + KWIDTH]: weights for a span of queries, and from KAT on for one of keys
override QSPANS: u32;
override QWIDTH: u32;
override KSPANS: u32;
override KWIDTH: u32;
override KAT: u32;
override QSTRIDE: u32;   // f32 a row of qkv
override EPS: f32;

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    if (wid.y >= state.rows || wid.x >= QSPANS + KSPANS) { return; }
    let key = wid.x >= QSPANS;
    let width = select(QWIDTH, KWIDTH, key);
    let base = wid.y * QSTRIDE + min(wid.x, QSPANS) * QWIDTH + select(0u, wid.x - QSPANS, key) * KWIDTH;
    let weights = select(0u, KAT, key);
    var squares = 0.0;
    for (var e = li; e < width; e += {{ workgroup }}u) { squares += qkv[base + e] * qkv[base + e]; }
    let r = inverseSqrt(workgroup_sum(squares, li) / f32(width) + EPS);
    for (var e = li; e < width; e += {{ workgroup }}u) { qkv[base + e] *= r * nw[weights + e]; }
}
