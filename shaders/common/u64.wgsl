// 64-bit sums as (low, high) words.
fn add64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}

fn sub64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}

fn less64(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.y < b.y || (a.y == b.y && a.x < b.x);
}

// The whole product of two words.
fn mul64(a: u32, b: u32) -> vec2<u32> {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let cross_a = (a >> 16u) * (b & 0xffffu);
    let cross_b = (a & 0xffffu) * (b >> 16u);
    let middle = (low >> 16u) + (cross_a & 0xffffu) + (cross_b & 0xffffu);
    return vec2<u32>((low & 0xffffu) | (middle << 16u), (a >> 16u) * (b >> 16u) + (cross_a >> 16u) + (cross_b >> 16u) + (middle >> 16u));
}

// ceil(a * fraction / 2^32)
fn part_of64(a: vec2<u32>, fraction: u32) -> vec2<u32> {
    let low = mul64(a.x, fraction);
    let carry = vec2<u32>(low.y, 0u);
    return add64(add64(mul64(a.y, fraction), carry), vec2<u32>(select(0u, 1u, low.x != 0u), 0u));
}
