// The walk of a token through an automaton (docs and host: crates/grammar). Wants `automaton`, `walk` and `token_bytes` as bindings.
//
// automaton: of each of {{ few_rows }} rows where its automaton begins, 0 where it has none; rows may share one. Then the automata, each: (classes,
// where the states' info begins, where the table begins, symbols), then from word 4 on the class of each byte, four a word, three words a symbol
// (where its states for outcomes begin, least counter, greatest counter) and those states; then a word a state; then the table, [states, classes].
// walk: of each row (state, depth of the stack, counter, run of white space), then (symbol, counter) of each frame, the lowest first.
const INFO = 4u;
const SYMBOLS = {{ 4 + class_words }}u;  // of `automaton`
const MAX_SPACE = {{ max_space }}u;
const MAX_PUSHES = {{ max_token_pushes }}u;
const MAX_STACK = {{ max_stack }}u;
const FRAMES = 4u;  // of a row's walk
const WALK = FRAMES + 2u * MAX_STACK;

// Where the row's automaton and its walk begin.
var<private> automaton_at: u32;
var<private> walk_at: u32;

// Turns to a row; false where it has no automaton.
fn has_grammar(row: u32) -> bool {
    automaton_at = automaton[row];
    walk_at = row * WALK;
    return automaton_at != 0u;
}

// What a byte does in a state: crates/grammar/src/automaton.rs, `entry`.
fn entry_of(state: u32, byte: u32) -> u32 {
    let column = (automaton[automaton_at + INFO + (byte >> 2u)] >> (8u * (byte & 3u))) & 255u;
    return automaton[automaton_at + automaton[automaton_at + 2u] + state * automaton[automaton_at] + column];
}

// The k-th word of a symbol.
fn of_symbol(symbol: u32, k: u32) -> u32 { return automaton[automaton_at + SYMBOLS + 3u * symbol + k]; }

// The state that a symbol goes on in.
fn after_symbol(symbol: u32, outcome: u32) -> u32 { return automaton[automaton_at + INFO + of_symbol(symbol, 0u) + outcome]; }
