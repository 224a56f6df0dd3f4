// Elements 4j..4j+3's fifth bits, in the place of bit 4 of each byte: bit j of byte k of `bits` belongs to element 4j + k.
fn fifth(bits: u32, j: u32) -> u32 {
    return ((bits >> j) & 0x01010101u) << 4u;
}
{% if act is defined and act == "q8" %}
// The int8 product of a block's numbers, nibbles and fifth bits, with activations.
fn dot_fifths(q: vec4<u32>, h: u32, xa: vec4<u32>, xb: vec4<u32>) -> i32 {
    let lo = q & vec4<u32>(0x0f0f0f0fu);
    let hi = (q >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
    return dot4I8Packed(lo.x | fifth(h, 0u), xa.x)
          + dot4I8Packed(lo.y | fifth(h, 1u), xa.y)
          + dot4I8Packed(lo.z | fifth(h, 2u), xa.z)
          + dot4I8Packed(lo.w | fifth(h, 3u), xa.w)
          + dot4I8Packed(hi.x | fifth(h, 4u), xb.x)
          + dot4I8Packed(hi.y | fifth(h, 5u), xb.y)
          + dot4I8Packed(hi.z | fifth(h, 6u), xb.z)
          + dot4I8Packed(hi.w | fifth(h, 7u), xb.w);
}
{% endif %}
