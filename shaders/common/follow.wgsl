// Takes a token's way through the grammar of a row (common/grammar.wgsl).
// What `constrain` has let through needs no more checks; whatever leaves the language all the same ends in state 0, from where nothing goes on.
fn follow(token: vec4<u32>) {
    let length = token.y & 255u;
    var word = token.x;
    for (var i = 0u; i < length; i++) {
        if (i > 3u && (i & 3u) == 0u) { word = token_bytes[(token.y >> 8u) + (i >> 2u)]; }
        let entry = entry_of(walk[walk_at], word & 255u);
        word >>= 8u;
        let kind = entry >> 30u;
        let depth = walk[walk_at + 1u];
        walk[walk_at + 3u] = select(0u, walk[walk_at + 3u] + 1u, kind == {{ entry_space }}u);
        walk[walk_at] = entry & 0xffffu;
        if (kind == {{ entry_push }}u && depth < MAX_STACK) {
            walk[walk_at + FRAMES + 2u * depth] = (entry >> 16u) & 0x3fffu;
            walk[walk_at + FRAMES + 2u * depth + 1u] = walk[walk_at + 2u];
            walk[walk_at + 1u] = depth + 1u;
            walk[walk_at + 2u] = 0u;
        } else if (kind == {{ entry_pop }}u && depth > 0u) {
            walk[walk_at] = after_symbol(walk[walk_at + FRAMES + 2u * (depth - 1u)], entry & 0xffffu);
            walk[walk_at + 2u] = walk[walk_at + FRAMES + 2u * (depth - 1u) + 1u];
            walk[walk_at + 1u] = depth - 1u;
        } else if (kind == {{ entry_plain }}u && (entry & {{ entry_count }}u) != 0u) {
            walk[walk_at + 2u] += 1u;
        }
    }
}
