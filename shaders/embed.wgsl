// h[t] = row of the embedding for row t's token. A table too large for one binding is split into parts by rows: each
// part writes the rows of the tokens that it holds. With POSITIONS the table is of learned positions, not of tokens.
{% include "common/state.wgsl" %}
{% include "common/rows.wgsl" %}
{% include "common/weight.wgsl" %}
@group(0) @binding(3) var<storage, read> tokens: array<u32>;
@group(0) @binding(4) var<storage, read_write> h: array<f32>;      // [T][STRIDE]

override D: u32;          // model width
override KB: u32;         // blocks of a row, ceil(D / 32)
override STRIDE: u32;     // f32 elements between rows of h
override ROW0: u32;       // first vocabulary row of this part
override ROWS: u32;       // vocabulary rows of this part
override TOKEN_AT: u32;   // where row 0's token stands in `tokens`
override SCALE: f32 = 1.0;       // of the embedding
override ADD: u32 = 0u;          // 1: h is added to
override EACH: u32 = 1u;         // rows of h whose numbers are interleaved: those of one channel side by side
override POSITIONS: u32 = 0u;    // 1: row t's token is its position

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let t = wid.x;
    if (rests(t)) { return; }
    var token = position_of(t);
    if (POSITIONS == 0u) { token = tokens[TOKEN_AT + t]; }
    if (token < ROW0 || token - ROW0 >= ROWS) { return; }
    let block = (token - ROW0) * KB;
    for (var i = li; i * 4u < D; i += {{ workgroup }}u) {
        let v = w4(block + i / 8u, i % 8u);
        for (var c = 0u; c < min(4u, D - i * 4u); c++) {
            let at = t / EACH * EACH * STRIDE + (i * 4u + c) * EACH + t % EACH;
            var x = v[c] * SCALE;
            if (ADD == 1u) { x += h[at]; }
            h[at] = x;
        }
    }
}
