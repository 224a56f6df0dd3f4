@group(0) @binding(2) var<storage, read> ws: array<u32>;   // f16 scale of block b: half b & 1 of ws[b >> 1]

fn w_scale(b: u32) -> f32 {
    let h = (ws[b >> 1u] >> ((b & 1u) * 16u)) & 0xffffu;
    // By hand, as unpack2x16float may flush subnormals, and the scales of small weights are subnormal: 0.005 / 127 is.
    let small = f32(h & 0x3ffu) * 0x1p-24f;
    let normal = bitcast<f32>(((h & 0x7fffu) << 13u) + 0x38000000u);
    let size = select(normal, small, (h & 0x7c00u) == 0u);
    return select(size, -size, h >= 0x8000u);
}
