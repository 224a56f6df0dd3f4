// RMSNorm of the four queries and of the new key that a workgroup of attention reads, before they are rotated; and of the new value.
override QK_NORM: u32 = 0u;   // 1: they are normed
override V_NORM: u32 = 0u;    // 1: the value, too, without weights
override EPS: f32 = 0.0;
// [2][{{ head_room }}]: the weights for queries and for keys, read where QK_NORM is 1. A uniform where all storage buffers are taken: lanes that read
// different places of one wait for each other.
{% if cache_type.crowded %}
@group(0) @binding(9) var<uniform> qkn: array<vec4<f32>, {{ head_room // 2 }}>;
fn norm_weight(i: u32) -> f32 { return qkn[i / 4u][i % 4u]; }
{% else %}
@group(0) @binding(9) var<storage, read> qkn: array<f32>;
fn norm_weight(i: u32) -> f32 { return qkn[i]; }
{% endif %}

// Queries and key times their weights, [HEADS + 1][256], stand in `summands` behind what is appended; behind them the squares.
const WEIGHTED = 512u;
const SQUARES = 1792u;
struct QkNorm { factor: f32, at: u32 }
// The weight of the norm for element e of a key, where it is multiplied before the rotation.
fn key_weight(e: u32) -> f32 {
    if (LATE == 1u) { return 1.0; }
    return norm_weight({{ head_room }}u + e);
}
fn element(base: u32, e: u32, norm: QkNorm) -> f32 {
    if (QK_NORM == 0u) { return qkv[base + e]; }
    if (APPENDS == 2u && norm.at == IN_QKV) { return qkv[base + e] * key_weight(e) * norm.factor; }
    return summands[norm.at + e] * norm.factor;
}

{% from "common/shuffles" ~ (emulated | default("")) ~ ".wgsl" import sum with context %}
// 32 lanes for each of the four queries, the key and the value: `base` is where that of lane li stands in qkv, if it is there. All lanes call it.
fn weigh(base: u32, there: bool, li: u32) {
    let part = li / 32u;
    var squares = 0.0;
    if (there) {
        for (var e = li % 32u; e < E; e += 32u) {
            let x = qkv[base + e];
            squares += x * x;
            // The value stays where it is.
            if (part > HEADS) { continue; }
            var weight = 1.0;
            if (LATE == 0u) { weight = norm_weight(select(0u, {{ head_room }}u, part == HEADS) + e); }
            summands[WEIGHTED + part * 256u + e] = x * weight;
        }
    }
{% if lanes == 32 %}
{{ sum("squares", 32) }}
    if (li % 32u == 0u) { summands[SQUARES + part] = squares; }
{% else %}
    summands[SQUARES + li] = squares;
{% endif %}
    workgroupBarrier();
}

// The norm of query `which`, of the key where it is HEADS, and of the value beyond.
fn norm_of(which: u32) -> QkNorm {
    var norm = QkNorm(1.0, WEIGHTED + which * 256u);
    if (QK_NORM == 1u && which <= HEADS + V_NORM) {
{% if lanes == 32 %}
        let squares = summands[SQUARES + which];
{% else %}
        var squares = 0.0;
        for (var k = 0u; k < 32u; k++) { squares += summands[SQUARES + which * 32u + k]; }
{% endif %}
        norm.factor = inverseSqrt(squares / f32(E) + EPS);
    }
    return norm;
}
