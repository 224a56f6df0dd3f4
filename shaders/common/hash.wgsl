// 32 random bits from a counter: pcg4d of Jarzynski and Olano, "Hash Functions for GPU Rendering", JCGT 9(3), 2020.
// Nothing is carried from token to token, so a resumed generation continues the same text.
fn hash(counter: vec4<u32>) -> u32 {
    var v = counter * 1664525u + 1013904223u;
    v.x += v.y * v.w;
    v.y += v.z * v.x;
    v.z += v.x * v.y;
    v.w += v.y * v.z;
    v ^= v >> vec4<u32>(16u);
    v.x += v.y * v.w;
    v.y += v.z * v.x;
    v.z += v.x * v.y;
    v.w += v.y * v.z;
    return v.x;
}

// A standard Gumbel variate, -log(-log(1 - p)) for p uniform in (0, 1), from 32 random bits.
// The winners among many tokens are those with a small p, so small p keep their full precision:
// -log(1 - p) = 2 atanh(p / (2 - p)) as a series (relative error below 1e-9) where log(1 - p) would cancel.
fn gumbel(bits: u32) -> f32 {
    // 1 - 2^-24 is the largest f32 below 1.
    let p = min((f32(bits) + 0.5) * 2.3283064365386963e-10, 0.99999994);
    let s = p / (2.0 - p);
    let s2 = s * s;
    let series = 2.0 * s * (1.0 + s2 * (1.0 / 3.0 + s2 * (0.2 + s2 * (1.0 / 7.0 + s2 * (1.0 / 9.0)))));
    return -log(select(-log(1.0 - p), series, p < 0.25));
}
