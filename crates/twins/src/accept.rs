use super::Call;
use super::sampling::{chosen, params, params_of};
use crate::State;
use crate::numbers::{AFTER_END, FEW_ROWS, NOT_A_NUMBER};

/// Most rows of a step.
const ROWS: usize = FEW_ROWS as usize;
/// Most of the text's last tokens that a place is compared with.
const LOOKED_AT: usize = 4;

/// Where in `text` what its end may go on as came before: the latest place with as many of its last tokens as can be,
/// at least two; the place of the last of them.
pub fn place(text: &[u32]) -> Option<usize> {
    let end = text.len();
    let same = |e: usize| (0..LOOKED_AT.min(e + 1)).take_while(|k| text[e - k] == text[end - 1 - k]).count();
    let mut best = (1, 0);
    for e in (1..end.saturating_sub(1)).rev() {
        let same = same(e);
        if same > best.0 {
            best = (same, e);
        }
        if same == LOOKED_AT {
            break;
        }
    }
    (best.0 > 1).then_some(best.1)
}

/// tokens = (the token that is read next, what came after the place where the text's end stood before); rows = how many
/// they are.
pub fn draft(call: &Call) {
    let mut state = call.state();
    let text = call.read("text");
    let pos = state.pos as usize;
    let mut tokens = call.write("tokens");
    tokens[0] = state.token;
    state.rows = 1;
    if let Some(place) = place(&text[..=pos]).filter(|_| call.u32("T") > 1) {
        state.rows = call.u32("T").min(state.limit.saturating_sub(state.step).max(1));
        for i in 1..state.rows as usize {
            tokens[i] = text[place + 1 + (i - 1) % (pos - place)];
        }
    }
    call.write("state")[..State::BYTES / 4].copy_from_slice(&state.words());
}

/// The draft model's state = where the next step of the model begins.
pub fn drafter_begin(call: &Call) {
    let state = call.state();
    let mut drafter = call.write("drafter");
    let mut begun = State::from_words(&drafter).unwrap_or_default();
    if begun.done == 0 {
        begun.kept = if begun.turn == 0 { 0 } else { state.taken };
        begun.side = 1 - begun.side.min(1);
    }
    (begun.pos, begun.token, begun.done, begun.rows, begun.step, begun.turn) =
        (state.pos, state.token, state.done, 1, 0, 1);
    drafter[..State::BYTES / 4].copy_from_slice(&begun.words());
}

/// tokens = (the token that is read next, what a draft model has sampled after it); rows = how many they are.
pub fn drafter_end(call: &Call) {
    let mut state = call.state();
    let (ring, vocab) = (call.read("ring"), call.u32("V"));
    let mut tokens = call.write("tokens");
    tokens[0] = state.token;
    let drafts = call.u32("T").min(state.limit.saturating_sub(state.step).max(1)) as usize - 1;
    let usable = ring[..drafts].iter().take_while(|draft| **draft < vocab).count();
    tokens[1..=usable].copy_from_slice(&ring[..usable]);
    state.rows = 1 + usable as u32;
    call.write("state")[..State::BYTES / 4].copy_from_slice(&state.words());
}

/// Takes the choices of a step's rows as long as each is the draft that the next row has read.
pub fn run(call: &Call) {
    let params = params(call);
    let mut state = call.state();
    let (mut accepted, mut text, mut tokens) = (call.write("accepted"), call.write("text"), call.write("tokens"));
    let slot = &mut accepted[(state.turn % params.ring_len.max(1)) as usize * (ROWS + 1)..][..ROWS + 1];
    state.turn = state.turn.wrapping_add(1);
    slot[..ROWS].fill(AFTER_END);
    slot[ROWS] = 0;
    let rows = (state.rows as usize).min(ROWS);
    let cand = call.view::<[u32; 2]>("cand");
    let choices = (0..rows).map(|t| chosen(&cand, t).unwrap_or(AFTER_END));
    if state.done == 0 && state.apart != 0 {
        for (t, token) in choices.enumerate() {
            if state.rests(t) {
                continue;
            }
            let [position, _, left, _] = &mut state.each[t];
            (*position, *left) = (*position + 1, *left - 1);
            slot[t] = if token == AFTER_END { NOT_A_NUMBER } else { token };
            if token == AFTER_END || params_of(call, t).stops(token) {
                *left = 0;
            }
            if token != AFTER_END {
                tokens[t] = token;
            }
        }
        state.done = u32::from((0..rows).all(|t| state.rests(t)));
    } else if state.done == 0 {
        slot[ROWS] = rows as u32 - 1;
        let first = state.pos;
        state.side = 1 - state.side.min(1);
        for (t, token) in choices.enumerate() {
            if token == AFTER_END {
                slot[t] = NOT_A_NUMBER;
                state.done = 1;
                break;
            }
            slot[t] = token;
            (state.token, state.pos, state.step) = (token, state.pos + 1, state.step.wrapping_add(1));
            if let Some(at) = text.get_mut(state.pos as usize) {
                *at = token;
            }
            state.done = u32::from(state.step >= state.limit || params.stops(token));
            if state.done == 1 || t + 1 == rows || tokens[t + 1] != token {
                break;
            }
        }
        state.taken = state.pos - first;
        state.kept = if rows > 1 { state.taken } else { 0 };
        state.rows = 1;
    }
    call.write("state")[..State::BYTES / 4].copy_from_slice(&state.words());
}
