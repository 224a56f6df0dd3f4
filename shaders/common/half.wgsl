// The value of a half. unpack2x16float may flush subnormals, and the scales of small weights are subnormal: 0.005 / 127 is. Where the
// device was seen to keep them (Caps::native_halves) it is one instruction; elsewhere it is done by hand.
fn half_value(h: u32) -> f32 {
    if (NATIVE_HALVES) { return unpack2x16float(h).x; }
    let tiny = (h & 0x7c00u) == 0u;
    // A subnormal is what is left of its mantissa with an implicit one when that one is taken away again.
    let size = bitcast<f32>(((h & 0x7fffu) << 13u) + select(0x38000000u, 0x38800000u, tiny)) - select(0.0, 0x1p-14f, tiny);
    return select(size, -size, h >= 0x8000u);
}
