// Int8 activations: blocks of 32 with a scale each. Eight neighbouring invocations hold a block, four elements each; all of
// a workgroup of `workgroup` invocations call quantize, as often as they like.
struct Quantized {
    packed: u32,         // this invocation's four int8
    scale: vec2<f32>,    // the block's (scale, scale * sum of the 32 int8); valid where li is a multiple of 8
}
var<workgroup> block_max: array<f32, {{ workgroup }}>;
var<workgroup> block_sum: array<i32, {{ workgroup }}>;

fn quantize(v: vec4<f32>, li: u32) -> Quantized {
    let a = abs(v);
    block_max[li] = max(max(a.x, a.y), max(a.z, a.w));
    workgroupBarrier();
    let first = li & ~7u;
    var largest = block_max[first];
    for (var i = 1u; i < 8u; i++) { largest = max(largest, block_max[first + i]); }
    let d = largest / 127.0;
    // A quotient by 0 is undefined even where it is not selected from.
    let q = vec4<i32>(select(vec4<f32>(), round(v / select(1.0, d, d > 0.0)), d > 0.0));
    block_sum[li] = q.x + q.y + q.z + q.w;
    workgroupBarrier();
    var sum = 0;
    if (li == first) {
        for (var i = 0u; i < 8u; i++) { sum += block_sum[first + i]; }
    }
    return Quantized(pack4xI8(q), vec2<f32>(d, d * f32(sum)));
}
