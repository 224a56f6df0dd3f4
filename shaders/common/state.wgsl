// What changes from token to token. It lives on the GPU: `advance` writes it, every other kernel reads it as a uniform.
// The same 64 bytes as `State` in src/kernels/state.rs.
struct State {
    pos: u32,    // absolute position of row 0
    token: u32,  // the token sampled last
    done: u32,   // not 0: the generation has ended and every kernel returns at once
    rows: u32,   // T: rows in this pass; 1 in decode
    step: u32,   // tokens sampled so far
    limit: u32,  // the generation ends when step reaches it
    reserved_0: u32,
    reserved_1: u32,
    reserved_2: vec4<u32>,
    reserved_3: vec4<u32>,
}
