// Which experts each row goes to: the USED largest of its EXPERTS logits, weighted by their softmax, over all of them or (NORMED) over the
// chosen alone. Of equals the first. One workgroup a row: grid [T].
{% include "common/state.wgsl" %}
@group(0) @binding(1) var<storage, read> logits: array<f32>;                  // [T][STRIDE]
@group(0) @binding(2) var<storage, read_write> chosen: array<vec2<u32>>;      // [T][USED]: expert, bits of its weight
override EXPERTS: u32;   // at most {{ workgroup }}
override USED: u32;
override STRIDE: u32;
override NORMED: u32;

var<workgroup> all: array<f32, {{ workgroup }}>;
var<workgroup> counted: array<f32, {{ workgroup }}>;

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    if (wid.x >= state.rows) { return; }
    if (li < EXPERTS) { all[li] = logits[wid.x * STRIDE + li]; }
    workgroupBarrier();
    var rank = 0u;
    var largest = all[0];
    for (var i = 0u; i < EXPERTS; i++) {
        largest = max(largest, all[i]);
        if (all[i] > all[li] || (all[i] == all[li] && i < li)) { rank++; }
    }
    let weight = exp(all[li] - largest);
    counted[li] = select(0.0, weight, li < EXPERTS && (NORMED == 0u || rank < USED));
    workgroupBarrier();
    if (li >= EXPERTS || rank >= USED) { return; }
    var sum = 0.0;
    for (var i = 0u; i < EXPERTS; i++) { sum += counted[i]; }
    chosen[wid.x * USED + rank] = vec2<u32>(li, bitcast<u32>(weight / sum));
}
