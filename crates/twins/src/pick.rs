use super::Call;
use super::sampling::{gumbel, hash, ordered, params_of, scaled};
use crate::numbers::AFTER_END;

/// cand[w] = (key of the best value, token id) of the tokens that workgroup w looks at.
pub fn run(call: &Call) {
    let state = call.state();
    let logits = call.view::<f32>("logits");
    let thr = call.read("thr");
    let groups = call.grid[0] as usize;
    let (v, stride) = (call.usize("V"), call.stride());
    let mut cand = call.view_mut::<[u32; 2]>("cand");
    for t in call.beside() {
        let params = params_of(call, t);
        let thr = &thr[4 * t..];
        let least = if params.temperature == 0.0 { 1 } else { thr[0].max(1) };
        let position =
            if call.u32("BESIDE") == 1 { state.position_of(t) as u32 + 1 } else { state.pos.wrapping_add(state.rows) };
        let mut best = vec![[0, AFTER_END]; groups];
        for (i, x) in logits[t * stride..][..v].iter().enumerate() {
            if ordered(*x) < least {
                continue;
            }
            let mut key = ordered(*x);
            if params.temperature > 0.0 {
                let draw = gumbel(hash([params.seed_lo, params.seed_hi, position, i as u32]));
                key = ordered((draw + scaled(*x, thr[1], params.temperature)) as f32);
            }
            // Ids ascend, so the first of equals stays.
            let slot = &mut best[call.slice(i)];
            if key > slot[0] {
                *slot = [key, i as u32];
            }
        }
        cand[t * groups..][..groups].copy_from_slice(&best);
    }
}
