// The residual stream, as products read it that norm it themselves.
@group(0) @binding(3) var<storage, read> h: array<vec4<f32>>;    // [T][KB * 8]: the residual stream, zeros beyond D
@group(0) @binding(4) var<storage, read> nw: array<vec4<f32>>;   // [D / 4]; with POST behind it the weights of the other norm, and a vec4 more
// With POST the residual stream is not complete: the norm of what the last block has made is added to it here. All do so for themselves; the
// first workgroup writes the sum, into another buffer, as others still read this one.
override POST: u32 = 0u;
override SCALED: u32 = 0u;   // 1: what is complete is multiplied by the number behind the weights of both norms
override PLAIN: u32 = 0u;    // 1: nothing is normed here: all of nw are ones
@group(0) @binding(7) var<storage, read> block: array<vec4<f32>>;        // [T][KB * 8]: what the last block has made, zeros beyond D
@group(0) @binding(8) var<storage, read_write> sum: array<vec4<f32>>;    // [T][KB * 8]: h + norm(block)
override D: u32;     // model width
override EPS: f32;

// Four elements, the j-th, of the row of the residual stream that begins at vec4 `row`; `post` is the factor of the other norm.
fn complete(row: u32, j: u32, post: f32) -> vec4<f32> {
    if (POST == 0u || j >= D / 4u) { return h[row + j]; }
    let all = h[row + j] + block[row + j] * post * nw[D / 4u + j];
    if (SCALED == 1u) { return all * nw[D / 2u].x; }
    return all;
}
