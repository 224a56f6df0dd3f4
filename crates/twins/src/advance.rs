use super::Call;
use super::constrain::{token, walked};
use super::sampling::params;
use crate::State;
use crate::numbers::{AFTER_END, MAX_STOP, NOT_A_NUMBER, SLICES};

/// Appends the best candidate to the ring and moves the state on; after the end it marks the slot as empty.
pub fn run(call: &Call) {
    let params = params(call);
    let mut state = call.state();
    let mut ring = call.write("ring");
    let slot = (state.step % params.ring_len.max(1)) as usize;
    state.step = state.step.wrapping_add(1);
    if state.done != 0 {
        ring[slot] = AFTER_END;
    } else {
        let cand = call.view::<[u32; 2]>("cand");
        // The largest key; of equals the lowest id.
        let best = cand[..SLICES as usize]
            .iter()
            .copied()
            .max_by_key(|c| (c[0], std::cmp::Reverse(c[1])))
            .unwrap_or([0, AFTER_END]);
        if best[1] == AFTER_END {
            ring[slot] = NOT_A_NUMBER;
            state.done = 1;
        } else {
            let chosen = best[1];
            ring[slot] = chosen;
            state.token = chosen;
            state.pos += state.rows;
            state.rows = 1;
            let stops = &params.stop[..(params.n_stop.min(MAX_STOP)) as usize];
            state.done = u32::from(state.step >= state.limit || stops.contains(&chosen));
            if call.axis("grammar") == "walk" {
                follow(call, chosen as usize);
            }
        }
    }
    call.write("state")[..State::BYTES / 4].copy_from_slice(&state.words());
}

/// Takes a token's way through the grammar. What `constrain` has let through can be walked.
fn follow(call: &Call, id: usize) {
    let (automaton, mut walk) = walked(call);
    let (bytes, ends) = token(call, id);
    if !ends && walk.advance_token(&automaton, &bytes) {
        let words = walk.words();
        // What is left above the stack's top says nothing.
        call.write("walk")[..words.len()].copy_from_slice(&words);
    }
}
