// How the cache is cut for attention of few rows (Rust: src/kernels/splits.rs): keys a workgroup, LEAST or twice that and so on, so that at
// most FILL workgroups or so run at once; at most MOST, so that one row's are many in a long cache. All rows are cut as the last is, unless ROOM says otherwise.
override LEAST: u32;          // keys of the smallest split, a power of two
override MOST: u32 = {{ decode_most_keys }}u;    // keys of the largest
override FILL: u32 = {{ decode_fill }}u;    // workgroups that fill a GPU

fn keys_a_split(keys: u32, groups: u32) -> u32 {
    var split = LEAST;
    while (split < MOST && keys * groups > split * FILL) { split *= 2u; }
    return split;
}

override ROOM: u32 = 0u;      // splits that each row has room for, where it is cut as if it were alone: its sums are those of a step of one row

struct Splits {
    keys: u32,    // of a split
    count: u32,   // of the row that decides
    apart: u32,   // splits from a row to the next
}
// How row `row` of this pass is cut, each of `groups` workgroups a split.
fn splits_of(groups: u32, row: u32) -> Splits {
    let keys = seen(position_of(select(state.rows - 1u, row, ROOM != 0u)));
    let split = keys_a_split(keys, groups * select(state.rows, 1u, ROOM != 0u));
    let count = (keys + split - 1u) / split;
    return Splits(split, count, select(count, ROOM, ROOM != 0u));
}
