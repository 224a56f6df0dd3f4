// How the next token is chosen. The same 112 bytes as `Sampling` in src/sample/mod.rs, where the order of the steps is said.
struct Sampling {
    temperature: f32,  // 0: greedy
    top_p: f32,        // 1: off
    min_p: f32,        // 0: off
    top_k: u32,        // 0: off
    seed_lo: u32,
    seed_hi: u32,
    n_stop: u32,       // how many of `stop` count
    ring_len: u32,     // length of the ring of sampled tokens
    presence: f32,     // 0: off
    frequency: f32,    // 0: off
    repetition: f32,   // 1: off
    top_logprobs: u32, // how many of the likeliest tokens' log probabilities are wanted
    stop: array<vec4<u32>, {{ max_stop // 4 }}>,
}
