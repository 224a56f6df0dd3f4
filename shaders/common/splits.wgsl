// How the cache is cut for decode attention (Rust: src/kernels/splits.rs): keys a workgroup, LEAST or twice that and so on, so that at
// most FILL workgroups or so run at once; in a long cache MOST, so that there is less to merge.
override LEAST: u32;   // keys of the smallest split, a power of two
const MOST = 128u;
const FILL = 160u;

fn keys_a_split(keys: u32, groups: u32) -> u32 {
    var split = LEAST;
    while (split < MOST && keys * groups > split * FILL) { split *= 2u; }
    return split;
}
