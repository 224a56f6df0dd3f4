// Takes over into the state of linear attention what counts of the last step with drafts. An invocation has four elements of a column. Grid
// [HEADS, ceil(VALUE KEY / 4 / {{ workgroup }})]. It runs once the generation has ended, too.
{% include "common/state.wgsl" %}
override HEADS: u32;
override KEY: u32;      // width of a key, a multiple of 4
override VALUE: u32;    // columns of a head
@group(0) @binding(1) var<storage, read_write> s: array<vec4<f32>>;     // [slots][HEADS][VALUE][KEY / 4]
{% with kept_at = 2, kept_access = "read" %}{% include "common/kept.wgsl" %}{% endwith %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    let head = wid.x;
    let i = wid.y * {{ workgroup }}u + li;
    if (state.kept == 0u || i >= VALUE * (KEY / 4u)) { return; }
    let at = (state.slot * HEADS + head) * VALUE * (KEY / 4u) + i;
    var part = s[at];
    for (var t = 0u; t < min(state.kept, {{ few_rows }}u); t++) { part = taken_over(part, 1u - state.side, t, head, i / (KEY / 4u), i % (KEY / 4u)); }
    s[at] = part;
}
