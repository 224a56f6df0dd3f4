// Which experts each row goes to: the USED largest of its EXPERTS logits, weighted by their softmax, over all of them or (NORMED) over the
// chosen alone; or (SIGMOID) the USED largest sums of their sigmoids and a bias, weighted by the sigmoids. Of equals the first. One workgroup a
// row: grid [T]; an invocation has one expert of every {{ workgroup }}.
{% include "common/state.wgsl" %}
@group(0) @binding(1) var<storage, read> logits: array<f32>;                  // [T][STRIDE]
@group(0) @binding(2) var<storage, read_write> chosen: array<vec2<u32>>;      // [T][USED]: expert, bits of its weight
@group(0) @binding(3) var<storage, read> bias: array<f32>;                    // [EXPERTS], read where SIGMOID or SCALED is 1
override EXPERTS: u32;   // at most MOST
override USED: u32;
override STRIDE: u32;
override NORMED: u32;
override SIGMOID: u32 = 0u;
override SCALED: u32 = 0u;    // 1: weights are multiplied by a factor of each expert, which stands in `bias`
override ADDED: f32 = 0.0;    // where SIGMOID is 1, to the sum by which weights are divided
override FACTOR: f32 = 1.0;   // of the weights

const MOST = {{ max_experts }}u;
// Experts of an invocation, at most. Loops over them have this constant as their bound, or the arrays would lie in memory: with a bound that follows
// from EXPERTS it took 151 us for 256 experts on an H200.
const EACH = MOST / {{ workgroup }}u;
var<workgroup> all: array<f32, MOST>;
var<workgroup> counted: array<f32, MOST>;

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    if (wid.x >= state.rows) { return; }
    var score = array<f32, EACH>();
    var weight = array<f32, EACH>();
    var rank = array<u32, EACH>();
    for (var c = 0u; c < EACH; c++) {
        let own = li + {{ workgroup }}u * c;
        if (own < EXPERTS) {
            score[c] = logits[wid.x * STRIDE + own];
            if (SIGMOID == 1u) {
                weight[c] = 1.0 / (1.0 + exp(-score[c]));
                score[c] = weight[c] + bias[own];
            }
            all[own] = score[c];
        }
    }
    workgroupBarrier();
    var largest = all[0];
    for (var i = 0u; i < EXPERTS; i++) {
        let other = all[i];
        largest = max(largest, other);
        for (var c = 0u; c < EACH; c++) {
            let own = li + {{ workgroup }}u * c;
            if (other > score[c] || (other == score[c] && i < own)) { rank[c] += 1u; }
        }
    }
    for (var c = 0u; c < EACH; c++) {
        let own = li + {{ workgroup }}u * c;
        if (own < EXPERTS) {
            if (SIGMOID == 0u) { weight[c] = exp(score[c] - largest); }
            counted[own] = select(0.0, weight[c], NORMED == 0u || rank[c] < USED);
        }
    }
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < EXPERTS; i++) { sum += counted[i]; }
    if (SIGMOID == 1u) { sum = select(1.0, sum + ADDED, NORMED == 1u); }
    for (var c = 0u; c < EACH; c++) {
        let own = li + {{ workgroup }}u * c;
        if (own < EXPERTS && rank[c] < USED) {
            var share = FACTOR * weight[c] / sum;
            if (SCALED == 1u) { share *= bias[own]; }
            chosen[wid.x * USED + rank[c]] = vec2<u32>(own, bitcast<u32>(share));
        }
    }
}
