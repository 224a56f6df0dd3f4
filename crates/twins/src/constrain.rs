use super::Call;
use super::sampling::chosen;
use crate::numbers::FEW_ROWS;
use millrace_grammar::{Automaton, WALK_WORDS, Walk};

/// What the kernel writes in the place of a logit that may not be chosen.
const FORBIDDEN: u32 = 0x7fc0_0000;

/// Words before an automaton's own: classes, where the info of states begins, where the table begins, symbols.
const HEAD: usize = 4;

/// The automaton at the beginning of a buffer's words; `None` where they are none.
fn automaton_of(words: &[u32]) -> Option<Automaton> {
    let [classes, info_of_states, table, symbols] = *words.first_chunk::<HEAD>()?;
    let (info, states_info) =
        (words.get(HEAD..info_of_states as usize)?, words.get(info_of_states as usize..table as usize)?);
    let states = states_info.len() as u32;
    let table = words.get(table as usize..)?.get(..(states * classes) as usize)?;
    Automaton::from_parts(
        table.to_vec(),
        info.to_vec(),
        states_info.to_vec(),
        classes,
        states,
        symbols,
        states.min(2) - 1,
    )
}

/// The automaton and the walk of a row; `None` where the row has no grammar.
fn walked(call: &Call, row: usize) -> Option<(Automaton, Walk)> {
    let (words, walks) = (call.read("automaton"), call.read("walk"));
    let begin = words[..FEW_ROWS as usize][row] as usize;
    if begin == 0 {
        return None;
    }
    let automaton = automaton_of(&words[begin..]).unwrap_or_else(|| panic!("{}: no automaton", call.variant));
    let walk = Walk::from_words(&automaton, &walks[row * WALK_WORDS..][..WALK_WORDS])
        .unwrap_or_else(|| panic!("{}: no walk", call.variant));
    Some((automaton, walk))
}

/// Takes a row's token its way through the row's grammar. What `constrain` has let through can be walked.
pub fn follow(call: &Call, row: usize, id: usize) {
    let Some((automaton, mut walk)) = walked(call, row) else { return };
    let (bytes, ends) = token(call, id);
    if ends || !walk.allowed(&automaton, &bytes) {
        return;
    }
    // Byte by byte: words above the stack's top, which have no meaning, are those that the kernel leaves.
    for byte in bytes {
        walk.advance_token(&automaton, &[byte]);
        let words = walk.words();
        call.write("walk")[row * WALK_WORDS..][..words.len()].copy_from_slice(&words);
    }
}

/// Takes the choice of each row its way through the row's grammar.
pub fn walk(call: &Call) {
    for row in call.beside() {
        if let Some(id) = chosen(&call.view::<[u32; 2]>("cand"), row) {
            follow(call, row, id as usize);
        }
    }
}

/// The bytes of a token, and whether it ends a text.
fn token(call: &Call, id: usize) -> (Vec<u8>, bool) {
    let [_, place, _, ends] = call.view::<[u32; 4]>("vocabulary")[id];
    let words = &call.read("token_bytes")[(place >> 8) as usize..];
    let bytes = words.iter().flat_map(|word| word.to_le_bytes()).take((place & 255) as usize);
    (bytes.collect(), ends != 0)
}

/// Walks every token byte by byte, without the kernel's shortcuts.
pub fn run(call: &Call) {
    let (v, stride) = (call.usize("V"), call.stride());
    let mut logits = call.write("logits");
    for row in call.beside() {
        let Some((automaton, walk)) = walked(call, row) else { continue };
        for (id, logit) in logits[row * stride..][..v].iter_mut().enumerate() {
            let allowed = match token(call, id) {
                (_, true) => walk.accepting(&automaton),
                (bytes, false) => walk.allowed(&automaton, &bytes),
            };
            if !allowed {
                *logit = FORBIDDEN;
            }
        }
    }
}
