// The prologue of products that read the residual stream: RMSNorm, and with int8 activations its quantization, by every workgroup
// for itself; that costs less than a dispatch of its own. What goes through workgroup memory does not depend on the norm's factor
// 1 / sqrt(mean(h^2) + EPS), which is multiplied to the finished sums instead: no load waits for it.
{% include "common/residual.wgsl" %}
var<private> post_factor: f32;
var<private> h0: u32;   // where this row begins, in vec4: 0 but where EACH is 1

fn residual(j: u32) -> vec4<f32> { return complete(EACH * h0, j, post_factor); }
var<workgroup> squares: array<f32, {{ workgroup // lanes }}>;   // sums of h^2, before that of block^2, by group of lanes

// What comes before all else: the factor of the other norm, and the sum for later readers.
fn add_block(li: u32, first: bool) {
    var sq = 0.0;
    for (var j = li; j < D / 4u; j += {{ workgroup }}u) { sq += dot(block[j + EACH * h0], block[j + EACH * h0]); }
    let of_group = lane_sum(sq, li);
    if (li % LANES == 0u) { squares[li / LANES] = of_group; }
    workgroupBarrier();
    post_factor = mean_factor();
    workgroupBarrier();
    if (first) {
        for (var j = li; j < KB * 8u; j += {{ workgroup }}u) { sum[j + EACH * h0] = residual(j); }
    }
}

{% if act == "f32" %}
// As many blocks as fit go through workgroup memory, those of a wider model come from h again. Neighbouring lanes read neighbouring blocks.
const ROOM = {{ float_blocks }}u;
const PITCH = {{ float_blocks + 1 }}u;
var<workgroup> nx: array<vec4<f32>, {{ 8 * (float_blocks + 1) }}>;   // [8][PITCH]: h * nw as products want it, by block
fn x4(j: u32) -> vec4<f32> {
    if (KB > ROOM) { return residual(j) * nw[j] * x_factor(j); }
    return nx[(j & 7u) * PITCH + (j >> 3u)];
}
fn prologue(li: u32) {
    var sq = 0.0;
    for (var j = li; j < KB * 8u; j += {{ workgroup }}u) {
        let v = residual(j);
        sq += dot(v, v);
        if (KB <= ROOM) { nx[(j & 7u) * PITCH + (j >> 3u)] = v * nw[j] * x_factor(j); }
    }
{% else %}
{% from "common/shuffles" ~ through ~ ".wgsl" import most, sum with context %}
var<workgroup> nq: array<vec2<u32>, {{ prologue_blocks * 4 }}>;   // [KB][4]: int8 of h * nw, eight each
var<workgroup> ns: array<vec2<f32>, {{ prologue_blocks }}>;   // [KB]: (scale, scale * sum of the int8)

fn prologue(li: u32) {
    var sq = 0.0;
    // Four invocations share a block.
    for (var first = 0u; first < KB * 4u; first += {{ workgroup }}u) {
        let inside = first + li < KB * 4u;
        let j = min(first + li, KB * 4u - 1u);
        let h0 = residual(j * 2u);
        let h1 = residual(j * 2u + 1u);
        let v0 = h0 * nw[j * 2u];
        let v1 = h1 * nw[j * 2u + 1u];
        sq += select(0.0, dot(h0, h0) + dot(h1, h1), inside);
        var largest = max(largest4(v0), largest4(v1));
{{ most("largest", 4) }}
        let d = largest / 127.0;
        let q = vec2<u32>(quantize4(v0, d), quantize4(v1, d));
        var total = total4(q.x) + total4(q.y);
{{ sum("total", 4, "i32") }}
        if (inside) {
            nq[j] = q;
            if (j % 4u == 0u) { ns[j / 4u] = vec2<f32>(d, d * f32(total)); }
        }
    }
{% endif %}
    let of_group = lane_sum(sq, li);
    if (li % LANES == 0u) { squares[li / LANES] = of_group; }
    workgroupBarrier();
}

// 1 / sqrt of the mean of what `squares` holds the sums of.
fn mean_factor() -> f32 {
    var sum = squares[0];
    for (var i = 1u; i < {{ workgroup // lanes }}u; i++) { sum += squares[i]; }
    return inverseSqrt(sum / f32(D) + EPS);
}
// The norm's factor, after the prologue.
fn norm_factor() -> f32 { return select(mean_factor(), 1.0, PLAIN == 1u); }
