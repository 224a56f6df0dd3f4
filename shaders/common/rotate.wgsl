override GROWTH: f32 = 0.0;      // queries are scaled by 1 + GROWTH ln(1 + floor(position / GROWS_AT)); 0: by nothing
override GROWS_AT: u32 = 1u;
override LATE: u32 = 0u;         // 1: weights of the norms of queries and keys are multiplied after the rotation
fn growth(position: u32) -> f32 {
    if (GROWTH == 0.0) { return 1.0; }
    return 1.0 + GROWTH * log(f32(1u + position / GROWS_AT));
}
// Element e of the head at `base` of qkv, rotated for `position`; element(base, e, norm) is the kernel's, with what it knows of the head's norm, and so is
// turned_by(position, pair), the position that a pair is rotated by, and halves(): 2 where each half of what is rotated has pairs of its own.
fn rotated(base: u32, position: u32, e: u32, norm: QkNorm) -> f32 {
    let x = element(base, e, norm);
    if (e >= ROT) { return x; }
    let half = max(ROT / 2u, 1u);   // a divisor: nothing is rotated where ROT is 0
    let distance = max(half / halves(), 1u);
    let pair = select(e / (2u * distance) * distance + e % distance, e / 2u, INTERLEAVED != 0u);
    let second = select(e % (2u * distance) >= distance, (e & 1u) == 1u, INTERLEAVED != 0u);
    let step = select(distance, 1u, INTERLEAVED != 0u);
    let r = rot[turned_by(position, pair) * half + pair];
    if (second) { return x * r.x + element(base, e - step, norm) * r.y; }
    return x * r.x - element(base, e + step, norm) * r.y;
}
