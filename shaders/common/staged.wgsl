// Slices of a chunk's queries and keys, 16 elements wide, on their way through workgroup memory: each invocation fetches its share of the next
// slice while the one before it is used.
const SLICE = 4u;                              // vec4 of a row of a slice
const PER = 2u * CHUNK * SLICE / {{ workgroup }}u;   // vec4 of an invocation
var<workgroup> slice: array<vec4<f32>, 2u * CHUNK * (SLICE + 1u)>;   // [keys, queries][CHUNK][SLICE]
struct Fetched { v: array<vec4<f32>, PER> }
// `first`: the chunk's first row, of `rows`; `at`: vec4 of a row where the head's keys and queries begin; `begin`: vec4 of a key where the slice does.
fn fetch(first: u32, rows: u32, at: vec2<u32>, begin: u32, li: u32) -> Fetched {
    var out = Fetched();
    for (var n = 0u; n < PER; n++) {
        let i = n * {{ workgroup }}u + li;
        let row = i / SLICE % CHUNK;
        let f = begin + i % SLICE;
        out.v[n] = vec4<f32>();
        if (f < KEY / 4u) { out.v[n] = x[(first + min(row, rows - 1u)) * (CHANNELS / 4u) + select(at.x, at.y, i >= CHUNK * SLICE) + f]; }
    }
    return out;
}
fn stage(fetched: Fetched, li: u32) {
    for (var n = 0u; n < PER; n++) {
        let i = n * {{ workgroup }}u + li;
        slice[i / SLICE * (SLICE + 1u) + i % SLICE] = fetched.v[n];
    }
}
fn of_key(row: u32, f: u32) -> vec4<f32> { return slice[row * (SLICE + 1u) + f]; }
fn of_query(row: u32, f: u32) -> vec4<f32> { return slice[(CHUNK + row) * (SLICE + 1u) + f]; }
