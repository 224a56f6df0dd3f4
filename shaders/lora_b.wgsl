// y[row][n] += scale * factor * (B[n] . t[row]) for the N rows of a matrix, of which each has as many numbers of t as B has columns, from where `at` says.
// Grid [ceil(N / {{ workgroup }}), T].
{% include "common/state.wgsl" %}
{% include "common/rows.wgsl" %}
{% include "common/voices.wgsl" %}
{% if weight == "f32" %}
@group(0) @binding(1) var<storage, read> b: array<vec4<f32>>;   // [adapters][N][COLUMNS / 4]
fn b4(i: u32) -> vec4<f32> { return b[i]; }
{% else %}
@group(0) @binding(1) var<storage, read> b: array<vec2<u32>>;   // [adapters][N][COLUMNS / 4], two halves a u32
fn b4(i: u32) -> vec4<f32> { return vec4<f32>(unpack2x16float(b[i].x), unpack2x16float(b[i].y)); }
{% endif %}
@group(0) @binding(2) var<storage, read> at: array<vec2<u32>>;      // [adapters][N]: (vec4 of t that the row begins at, bits of the factor; 0: none)
@group(0) @binding(3) var<storage, read> t: array<vec4<f32>>;       // [T][RANKS / 4]
@group(0) @binding(4) var<storage, read_write> y: array<f32>;       // [T][NSTRIDE]
override N: u32;         // rows of the matrix
override COLUMNS: u32;   // columns of B, a multiple of 4
override RANKS: u32;     // f32 a row of t
override NSTRIDE: u32;   // f32 elements between rows of y

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    if (state.done != 0u) { return; }
    let n = wid.x * {{ workgroup }}u + li;
    if (wid.y >= state.rows || n >= N) { return; }
    let voice = voice_of(wid.y);
    if (voice.x == 0u) { return; }
    let row = (voice.x - 1u) * N + n;
    let place = at[row];
    if (place.y == 0u) { return; }
    var sums = vec4<f32>();
    for (var i = 0u; i < COLUMNS / 4u; i++) { sums += b4(row * (COLUMNS / 4u) + i) * t[wid.y * (RANKS / 4u) + place.x + i]; }
    y[wid.y * NSTRIDE + n] += bitcast<f32>(voice.y) * bitcast<f32>(place.y) * ((sums.x + sums.y) + (sums.z + sums.w));
}
