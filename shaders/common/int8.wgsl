// Blocks of int8, four elements at a time.
// Four int8 of v, whose block has the scale d.
fn quantize4(v: vec4<f32>, d: f32) -> u32 {
    // A quotient by 0 is undefined even where it is not selected from.
    return pack4xI8(vec4<i32>(select(vec4<f32>(), round(v / select(1.0, d, d > 0.0)), d > 0.0)));
}
fn largest4(v: vec4<f32>) -> f32 {
    let a = abs(v);
    return max(max(a.x, a.y), max(a.z, a.w));
}
fn total4(q: u32) -> i32 { return dot4I8Packed(q, 0x01010101u); }
