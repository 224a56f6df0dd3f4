// Reads `data` once, {{ streamed }} vec4 an invocation, and writes something that depends on all of it: the device's streaming bandwidth.
{% include "common/state.wgsl" %}
override WORDS: u32;   // vec4 of data
@group(0) @binding(1) var<storage, read> data: array<vec4<u32>>;        // [WORDS]
@group(0) @binding(2) var<storage, read_write> sums: array<u32>;        // [{{ workgroup }}]: number 0 if the data are zeros, else a number that is never read

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let first = (wid.x + wid.y * grid.x) * {{ workgroup * streamed }}u + li;
    var all = vec4<u32>();
    for (var i = 0u; i < {{ streamed }}u; i++) { all |= data[min(first + i * {{ workgroup }}u, WORDS - 1u)]; }
    // Never true for zeros, which the compiler cannot know.
    if (any(all != vec4<u32>())) { sums[li] = all.x | all.y | all.z | all.w; }
}
