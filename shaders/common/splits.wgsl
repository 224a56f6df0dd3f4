// How the cache is cut for attention of few rows (Rust: src/kernels/splits.rs): keys a workgroup, LEAST or twice that and so on, so that at
// most FILL workgroups or so run at once; at most MOST, so that one row's are many in a long cache. All rows are cut as the last is.
override LEAST: u32;          // keys of the smallest split, a power of two
override MOST: u32 = {{ decode_most_keys }}u;    // keys of the largest
override FILL: u32 = {{ decode_fill }}u;    // workgroups that fill a GPU

fn keys_a_split(keys: u32, groups: u32) -> u32 {
    var split = LEAST;
    while (split < MOST && keys * groups > split * FILL) { split *= 2u; }
    return split;
}

struct Splits {
    keys: u32,    // of a split
    count: u32,   // of the last row
}
// How the rows of this pass are cut, each of `groups` workgroups a split.
fn splits_of(groups: u32) -> Splits {
    let keys = seen(state.pos + state.rows - 1u);
    let split = keys_a_split(keys, groups * state.rows);
    return Splits(split, (keys + split - 1u) / split);
}
