use super::Call;
use millrace_grammar::{Automaton, Walk};

/// What the kernel writes in the place of a logit that may not be chosen.
const FORBIDDEN: u32 = 0x7fc0_0000;

/// Words before an automaton's own: classes, where the info of states begins, where the table begins, symbols.
const HEAD: usize = 4;

/// The automaton of a buffer's words; `None` where they are none.
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

/// The automaton and the walk of a call.
pub fn walked(call: &Call) -> (Automaton, Walk) {
    let automaton = automaton_of(&call.read("automaton")).unwrap_or_else(|| panic!("{}: no automaton", call.variant));
    let walk = Walk::from_words(&automaton, &call.read("walk")).unwrap_or_else(|| panic!("{}: no walk", call.variant));
    (automaton, walk)
}

/// The bytes of a token, and whether it ends a text.
pub fn token(call: &Call, id: usize) -> (Vec<u8>, bool) {
    let [_, place, _, ends] = call.view::<[u32; 4]>("vocabulary")[id];
    let words = &call.read("token_bytes")[(place >> 8) as usize..];
    let bytes = words.iter().flat_map(|word| word.to_le_bytes()).take((place & 255) as usize);
    (bytes.collect(), ends != 0)
}

/// Walks every token byte by byte, without the kernel's shortcuts.
pub fn run(call: &Call) {
    let (automaton, walk) = walked(call);
    let mut logits = call.write("logits");
    for (id, logit) in logits.iter_mut().enumerate().take(call.usize("V")) {
        let allowed = match token(call, id) {
            (_, true) => walk.accepting(&automaton),
            (bytes, false) => walk.allowed(&automaton, &bytes),
        };
        if !allowed {
            *logit = FORBIDDEN;
        }
    }
}
