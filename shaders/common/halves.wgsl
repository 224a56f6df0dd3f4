// Two halves in a u32. Values beyond the largest half saturate: what pack2x16float makes of them differs from device to device.
fn pack_halves(a: f32, b: f32) -> u32 {
    return pack2x16float(clamp(vec2<f32>(a, b), vec2<f32>(-65504.0), vec2<f32>(65504.0)));
}
