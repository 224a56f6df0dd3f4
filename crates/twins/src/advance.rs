use super::Call;
use super::constrain::follow;
use super::sampling::{chosen, params};
use crate::State;
use crate::numbers::{AFTER_END, MAX_STOP, NOT_A_NUMBER};

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
        let chosen = chosen(&call.view::<[u32; 2]>("cand"), 0);
        ring[slot] = chosen.unwrap_or(NOT_A_NUMBER);
        state.done = u32::from(chosen.is_none());
        if let Some(chosen) = chosen {
            state.token = chosen;
            state.pos += state.rows;
            state.rows = 1;
            let stops = &params.stop[..(params.n_stop.min(MAX_STOP)) as usize];
            state.done = u32::from(state.step >= state.limit || stops.contains(&chosen));
            if call.axis("grammar") == "walk" {
                follow(call, 0, chosen as usize);
            }
        }
    }
    call.write("state")[..State::BYTES / 4].copy_from_slice(&state.words());
}
