// Forbids what may not come next: the logit of each token that would leave the grammar's language becomes NaN, which is never chosen. Tokens that end the
// answer are left where the text may end. Grid [ceil(V / {{ workgroup }}), T]. An invocation walks one token: it keeps what the token pushes to itself, and reads
// the stack below it.
{% include "common/state.wgsl" %}
override V: u32;  // logits
override PADDING: u32 = 0u;  // behind those of each row, of no token
{% include "common/beside.wgsl" %}

@group(0) @binding(1) var<storage, read> automaton: array<u32>;
@group(0) @binding(2) var<storage, read> walk: array<u32>;
@group(0) @binding(3) var<storage, read> vocabulary: array<vec4<u32>>;  // [V] (first bytes, word of `token_bytes` << 8 | length, categories, ends a text)
@group(0) @binding(4) var<storage, read> token_bytes: array<u32>;
@group(0) @binding(5) var<storage, read_write> logits: array<u32>;      // [T][V + PADDING] f32

{% include "common/grammar.wgsl" %}

const FORBIDDEN = 0x7fc00000u;  // NaN

// Frames that the token has pushed and not popped.
var<private> symbols: array<u32, MAX_PUSHES>;
var<private> counters: array<u32, MAX_PUSHES>;

// Whether all bytes of a token stay in the language.
fn stays(first: u32, at: u32, length: u32) -> bool {
    var here = walk[walk_at];
    var depth = walk[walk_at + 1u];
    var counter = walk[walk_at + 2u];
    var run = walk[walk_at + 3u];
    var pushed = 0u;
    var word = first;
    for (var i = 0u; i < length; i++) {
        if (i > 3u && (i & 3u) == 0u) { word = token_bytes[at + (i >> 2u)]; }
        let entry = entry_of(here, word & 255u);
        word >>= 8u;
        if (entry == 0u) { return false; }
        let kind = entry >> 30u;
        let ran = run;
        run = 0u;
        here = entry & 0xffffu;
        if (kind == {{ entry_push }}u) {
            if (pushed >= MAX_PUSHES || depth + pushed >= MAX_STACK) { return false; }
            symbols[pushed] = (entry >> 16u) & 0x3fffu;
            counters[pushed] = counter;
            pushed += 1u;
            counter = 0u;
        } else if (kind == {{ entry_space }}u) {
            if (ran >= MAX_SPACE) { return false; }
            run = ran + 1u;
        } else if (kind == {{ entry_pop }}u || (entry & {{ entry_count }}u) != 0u) {
            // Both look at the frame on top.
            var symbol = 0u;
            var below = 0u;
            if (pushed > 0u) {
                symbol = symbols[pushed - 1u];
                below = counters[pushed - 1u];
            } else if (depth > 0u) {
                symbol = walk[walk_at + FRAMES + 2u * (depth - 1u)];
                below = walk[walk_at + FRAMES + 2u * (depth - 1u) + 1u];
            } else if (kind == {{ entry_pop }}u) {
                return false;
            }
            if (kind == {{ entry_pop }}u) {
                if (counter < of_symbol(symbol, 1u)) { return false; }
                if (pushed > 0u) { pushed -= 1u; } else { depth -= 1u; }
                counter = below;
                here = after_symbol(symbol, here);
            } else {
                if (pushed + depth > 0u && counter >= of_symbol(symbol, 2u)) { return false; }
                counter += 1u;
            }
        }
        if (here == 0u) { return false; }
    }
    return true;
}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let row = BESIDE * gid.y;
    if (rests(row) || !has_grammar(row)) { return; }
    let i = gid.x;
    if (i >= V) { return; }
    let token = vocabulary[i];
    let length = token.y & 255u;
    let about = automaton[automaton_at + automaton[automaton_at + 1u] + walk[walk_at]];
    var allowed = false;
    if (token.w != 0u) {
        allowed = walk[walk_at + 1u] == 0u && ((about >> 17u) & 1u) == 1u;
    } else if (length > 0u) {
        if ((token.z & 0x1ffffu & ~(about & 0xffffu)) == 0u) {
            // All of it leads from the state back to the state: only a counter can be in its way.
            allowed = true;
            if (((about >> 16u) & 1u) == 1u && walk[walk_at + 1u] > 0u) {
                let most = of_symbol(walk[walk_at + FRAMES + 2u * (walk[walk_at + 1u] - 1u)], 2u);
                allowed = most >= walk[walk_at + 2u] && (token.z >> 17u) <= most - walk[walk_at + 2u];
            }
        } else {
            allowed = stays(token.x, token.y >> 8u, length);
        }
    }
    if (!allowed) { logits[row * (V + PADDING) + i] = FORBIDDEN; }
}
