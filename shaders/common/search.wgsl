// The search for the smallest key (common/ordered.wgsl) that survives top-k, and after it for that which survives top-p: in four rounds each, from
// the highest eight bits of the key to the lowest. Neither is searched for where it is off.
struct Search {
    round: u32,          // the next
    floor_key: u32,      // tokens below it do not count any more
    prefix: u32,         // of the key that is searched for: what earlier rounds have found
    unused: u32,
    missing: vec2<u32>,  // what tokens whose key begins with the prefix have to weigh together, 64 bits
}

fn searches_top_k(ask: u32) -> bool { return params[ask].top_k != 0u && params[ask].top_k < V; }
fn searches_top_p(ask: u32) -> bool { return params[ask].top_p < 1.0; }
fn rounds(ask: u32) -> u32 { return select(0u, 4u, searches_top_k(ask)) + select(0u, 4u, searches_top_p(ask)); }
// Whether a token's weight in that round is its probability mass, and not 1.
fn by_mass(ask: u32, round: u32) -> bool { return !searches_top_k(ask) || round >= 4u; }
