// The value of a half. unpack2x16float may flush subnormals, and the scales of small weights are subnormal, 0.005 / 127 is: those by hand.
fn half_value(h: u32) -> f32 {
    if ((h & 0x7c00u) != 0u) { return unpack2x16float(h).x; }
    let size = f32(h & 0x3ffu) * 0x1p-24f;
    return select(size, -size, h >= 0x8000u);
}
