// Which experts each row goes to: the USED largest of its EXPERTS logits, weighted by their softmax, over all of them or (NORMED) over the
// chosen alone; or (SIGMOID) the USED largest sums of their sigmoids and a bias, weighted by the sigmoids. Of equals the first. One workgroup a row: grid [T]; an invocation has one expert of every {{ workgroup }}.
{% include "common/state.wgsl" %}
@group(0) @binding(1) var<storage, read> logits: array<f32>;                  // [T][STRIDE]
@group(0) @binding(2) var<storage, read_write> chosen: array<vec2<u32>>;      // [T][USED]: expert, bits of its weight
override EXPERTS: u32;   // at most MOST
override USED: u32;
override STRIDE: u32;
override NORMED: u32;
override SIGMOID: u32 = 0u;
override ADDED: f32 = 0.0;    // where SIGMOID is 1, to the sum by which weights are divided
override FACTOR: f32 = 1.0;   // of the weights
@group(0) @binding(3) var<storage, read> bias: array<f32>;   // [EXPERTS], read where SIGMOID is 1

const MOST = {{ max_experts }}u;
var<workgroup> all: array<f32, MOST>;
var<workgroup> counted: array<f32, MOST>;

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    if (wid.x >= state.rows) { return; }
    let own = li + {{ workgroup }}u * vec4<u32>(0u, 1u, 2u, 3u);
    var logit = vec4<f32>();
    var weight = vec4<f32>();
    for (var c = 0u; c < 4u; c++) {
        if (own[c] < EXPERTS) {
            logit[c] = logits[wid.x * STRIDE + own[c]];
            if (SIGMOID == 1u) {
                weight[c] = 1.0 / (1.0 + exp(-logit[c]));
                logit[c] = weight[c] + bias[own[c]];
            }
            all[own[c]] = logit[c];
        }
    }
    workgroupBarrier();
    var rank = vec4<u32>();
    var largest = all[0];
    for (var i = 0u; i < EXPERTS; i++) {
        let other = vec4<f32>(all[i]);
        largest = max(largest, all[i]);
        rank += select(vec4<u32>(), vec4<u32>(1u), (other > logit) | ((other == logit) & (vec4<u32>(i) < own)));
    }
    if (SIGMOID == 0u) { weight = exp(logit - largest); }
    for (var c = 0u; c < 4u; c++) {
        if (own[c] < EXPERTS) { counted[own[c]] = select(0.0, weight[c], NORMED == 0u || rank[c] < USED); }
    }
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < EXPERTS; i++) { sum += counted[i]; }
    if (SIGMOID == 1u) { sum = select(1.0, sum + ADDED, NORMED == 1u); }
    for (var c = 0u; c < 4u; c++) {
        if (own[c] < EXPERTS && rank[c] < USED) { chosen[wid.x * USED + rank[c]] = vec2<u32>(own[c], bitcast<u32>(FACTOR * weight[c] / sum)); }
    }
}
