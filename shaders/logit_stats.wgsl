// The largest logit, which `threshold` starts from: part[w] is the maximum of the logits that workgroup w looks at.
// Grid [SLICES]. Greedy sampling needs none of it and returns at once.
{% include "common/state.wgsl" %}
{% include "common/sampling.wgsl" %}
{% include "common/ordered.wgsl" %}
override V: u32;  // logits
override PADDING: u32 = 0u;  // behind those of each row, of no token
{% include "common/beside.wgsl" %}

@group(0) @binding(1) var<uniform> params: array<Sampling, {{ few_rows }}>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;      // [T][V + PADDING]
@group(0) @binding(3) var<storage, read_write> part: array<f32>;  // [T][SLICES], the lowest f32 where nothing is greater

const LOWEST = -3.4028234e38;

var<workgroup> top: atomic<u32>;

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    let row = BESIDE * wid.y;
    if (rests(row)) { return; }
    let ask = asks(row);
    if (params[ask].temperature == 0.0) { return; }
    var key = ordered(LOWEST);
    for (var i = wid.x * {{ workgroup }}u + li; i < V; i += grid.x * {{ workgroup }}u) { key = max(key, ordered(logits[row * (V + PADDING) + i])); }
    atomicMax(&top, key);
    workgroupBarrier();
    if (li == 0u) { part[row * {{ slices }}u + wid.x] = unordered(atomicLoad(&top)); }
}
