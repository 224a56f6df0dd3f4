// Element e of the head at `base` of qkv, rotated for `position`; element(base, e, norm) is the kernel's, with what it knows of the head's norm.
fn rotated(base: u32, position: u32, e: u32, norm: QkNorm) -> f32 {
    let x = element(base, e, norm);
    if (e >= ROT) { return x; }
    let half = max(ROT / 2u, 1u);   // a divisor: nothing is rotated where ROT is 0
    let pair = select(e % half, e / 2u, INTERLEAVED != 0u);
    let second = select(e >= half, (e & 1u) == 1u, INTERLEAVED != 0u);
    let step = select(half, 1u, INTERLEAVED != 0u);
    let r = rot[position * half + pair];
    if (second) { return x * r.x + element(base, e - step, norm) * r.y; }
    return x * r.x - element(base, e + step, norm) * r.y;
}
