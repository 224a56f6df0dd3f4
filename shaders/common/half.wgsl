// The value of a half. By hand, as unpack2x16float may flush subnormals, and the scales of small weights are subnormal: 0.005 / 127 is.
fn half_value(h: u32) -> f32 {
    let small = f32(h & 0x3ffu) * 0x1p-24f;
    let normal = bitcast<f32>(((h & 0x7fffu) << 13u) + 0x38000000u);
    let size = select(normal, small, (h & 0x7c00u) == 0u);
    return select(size, -size, h >= 0x8000u);
}
