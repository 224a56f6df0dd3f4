// Elements 4j..4j+3's fifth bits, in the place of bit 4 of each byte: bit j of byte k of `bits` belongs to element 4j + k.
fn fifth(bits: u32, j: u32) -> u32 {
    return ((bits >> j) & 0x01010101u) << 4u;
}
