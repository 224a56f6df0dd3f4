// The rows of a pass before linear attention: the convolution with SiLU of every channel, queries and keys of length 1 where DELTA is 1, and of
// each head (g, s). A workgroup has a query, a key or a value: grid [2 KEY_HEADS + HEADS, T].
{% include "common/state.wgsl" %}
{% include "common/rows.wgsl" %}
{% include "common/conv.wgsl" %}
{% include "common/delta.wgsl" %}
{% include "common/gates.wgsl" %}
{% include "common/conv_silu.wgsl" %}
{% with sum = "f32", reduce = "wg" %}{% include "common/reduce.wgsl" %}{% endwith %}
@group(0) @binding(5) var<storage, read> conv: array<f32>;                // [slots][RING][CHANNELS]: rows before this pass's
@group(0) @binding(6) var<storage, read_write> y: array<f32>;             // [T][CHANNELS]
@group(0) @binding(7) var<storage, read_write> strengths: array<vec2<f32>>;   // [T][HEADS]: (g, s)

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let row = wid.y;
    if (row >= state.rows) { return; }
    let is_value = wid.x >= 2u * KEY_HEADS;
    let width = select(KEY, VALUE, is_value);
    var first = Q_AT + wid.x * KEY;
    if (wid.x >= KEY_HEADS) { first = K_AT + (wid.x - KEY_HEADS) * KEY; }
    if (is_value) { first = V_AT + (wid.x - 2u * KEY_HEADS) * VALUE; }
    let out = row * CHANNELS + first;
    var squares = 0.0;
    var values = array<f32, {{ max_key // workgroup }}>();
    for (var j = 0u; j < {{ max_key // workgroup }}u; j++) {
        let i = j * {{ workgroup }}u + li;
        if (i < width) {
            values[j] = convolved(row, first + i);
            squares += values[j] * values[j];
        }
    }
    var unit = 1.0;
    if (DELTA == 1u) {
        let sum = workgroup_sum(squares, li);
        unit = select(inverseSqrt(sum + 1e-6), 1.0, is_value);
    }
    for (var j = 0u; j < {{ max_key // workgroup }}u; j++) {
        let i = j * {{ workgroup }}u + li;
        if (i < width) { y[out + i] = values[j] * unit; }
    }
    if (is_value && li == 0u) {
        let head = wid.x - 2u * KEY_HEADS;
        strengths[row * HEADS + head] = gates_of(row, head);
    }
}
