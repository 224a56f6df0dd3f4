use super::Call;
use super::sampling::params;
use crate::kernels::State;
use crate::sample::{AFTER_END, MAX_STOP, NOT_A_NUMBER, SLICES};

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
        let best = cand[..SLICES as usize].iter().copied().max_by_key(|c| (c[0], std::cmp::Reverse(c[1]))).unwrap_or([0, AFTER_END]);
        if best[1] == AFTER_END {
            ring[slot] = NOT_A_NUMBER;
            state.done = 1;
        } else {
            let token = best[1];
            ring[slot] = token;
            state.token = token;
            state.pos += state.rows;
            state.rows = 1;
            let stops = &params.stop[..(params.n_stop as usize).min(MAX_STOP)];
            state.done = u32::from(state.step >= state.limit || stops.contains(&token));
        }
    }
    call.write("state")[..State::BYTES / 4].copy_from_slice(&state.words());
}
