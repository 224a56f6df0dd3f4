// The experts that `route` has chosen, and which of them this part of w holds.
@group(0) @binding(7) var<storage, read> chosen: array<vec2<u32>>;   // [T][USED]: expert, bits of its weight
override USED: u32;    // experts that a row chooses
override FIRST: u32;   // first expert of this part
override COUNT: u32;   // experts of this part
