// A recurrent layer that no model has: S, the sum of all rows so far, modulo 2, and h += |S| - 1/2. A row more, or one that is read twice, is seen
// in every row after it. Each invocation follows an element through the rows, or has that of a row where each is of another sequence. With drafts S
// is left as it is before the rows, which are kept, as in common/kept.wgsl. Grid [ceil(D / 64), 1 or T].
{% include "common/state.wgsl" %}
{% include "common/rows.wgsl" %}
override D: u32;                // model width
override STRIDE: u32;           // f32 a row of x and of h
override DRAFTER: u32 = 0u;     // 1: a draft model's step, before which it has taken state.step since the model's last one
@group(0) @binding(1) var<storage, read> x: array<f32>;            // [T][STRIDE]
@group(0) @binding(2) var<storage, read_write> h: array<f32>;      // [T][STRIDE]: the residual stream
@group(0) @binding(3) var<storage, read_write> s: array<f32>;      // [slots][D], each within -1..1
@group(0) @binding(4) var<storage, read_write> kept: array<f32>;   // [2][{{ few_rows }}][D]: rows of x

const ROWS = {{ few_rows }}u;

{% include "common/added.wgsl" %}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (state.done != 0u || id.x >= D) { return; }
    let own = id.y;
    let drafts = (APART == 1u && !apart()) || DRAFTER == 1u;
    let before = DRAFTER * state.step;
    if (rests(own) || (own > 0u && !apart())) { return; }
    let at = slot_of(own) * D + id.x;
    var sum = s[at];
    if (drafts && before == 0u) {
        for (var t = 0u; t < min(state.kept, ROWS); t++) { sum = added(sum, kept[((1u - state.side) * ROWS + t) * D + id.x]); }
    }
    let stays = drafts && (state.rows > 1u || DRAFTER == 1u);
    if (stays && before == 0u) { s[at] = sum; }
    for (var t = 0u; t < before; t++) { sum = added(sum, kept[(state.side * ROWS + t) * D + id.x]); }
    for (var t = own; t < select(state.rows, own + 1u, apart()); t++) {
        let row = x[t * STRIDE + id.x];
        sum = added(sum, row);
        h[t * STRIDE + id.x] += abs(sum) - 0.5;
        if (stays) { kept[(state.side * ROWS + before + t) * D + id.x] = row; }
    }
    if (!stays) { s[at] = sum; }
}
