// The walk of a token through an automaton (docs and host: crates/grammar). Wants `automaton`, `walk` and `token_bytes` as bindings.
//
// automaton: (classes, where the states' info begins, where the table begins, symbols), then from word 4 on the class of each byte, four a word, three words a
// symbol (where its states for outcomes begin, least counter, greatest counter) and those states; then a word a state; then the table, [states, classes].
// walk: (state, depth of the stack, counter, run of white space), then (symbol, counter) of each frame, the lowest first.
const INFO = 4u;
const SYMBOLS = {{ 4 + class_words }}u;  // of `automaton`
const MAX_SPACE = {{ max_space }}u;
const MAX_PUSHES = {{ max_token_pushes }}u;
const MAX_STACK = {{ max_stack }}u;
const FRAMES = 4u;  // of `walk`

// What a byte does in a state: crates/grammar/src/automaton.rs, `entry`.
fn entry_of(state: u32, byte: u32) -> u32 {
    let column = (automaton[INFO + (byte >> 2u)] >> (8u * (byte & 3u))) & 255u;
    return automaton[automaton[2] + state * automaton[0] + column];
}

// The k-th word of a symbol.
fn of_symbol(symbol: u32, k: u32) -> u32 { return automaton[SYMBOLS + 3u * symbol + k]; }

// The state that a symbol goes on in.
fn after_symbol(symbol: u32, outcome: u32) -> u32 { return automaton[INFO + of_symbol(symbol, 0u) + outcome]; }
