// f32 as u32 keys that compare as the numbers do, so that maxima and thresholds are exact and need no float comparison.
// NaN is 0, below every number, and therefore never wins; -0 and +0 are the same key.
fn ordered(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) { return 0u; }
    if (magnitude == 0u) { return 0x80000000u; }
    return select(bits | 0x80000000u, ~bits, (bits >> 31u) != 0u);
}

// The number of a key that is not 0.
fn unordered(key: u32) -> f32 {
    return bitcast<f32>(select(~key, key & 0x7fffffffu, (key >> 31u) != 0u));
}
