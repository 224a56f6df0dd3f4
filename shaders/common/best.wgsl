// The best of (key, token id), one an invocation: the largest key, and of equals the lowest id.
const NO_TOKEN = {{ after_end }}u;

var<workgroup> best_key: atomic<u32>;
var<workgroup> best_id: atomic<u32>;

// In every invocation; all of a workgroup call it.
fn best_of(mine: vec2<u32>, li: u32) -> vec2<u32> {
    // Invocations may still read the result of an earlier call.
    workgroupBarrier();
    if (li == 0u) {
        atomicStore(&best_key, 0u);
        atomicStore(&best_id, NO_TOKEN);
    }
    workgroupBarrier();
    atomicMax(&best_key, mine.x);
    workgroupBarrier();
    let key = atomicLoad(&best_key);
    if (mine.x == key) { atomicMin(&best_id, mine.y); }
    workgroupBarrier();
    return vec2<u32>(key, atomicLoad(&best_id));
}
