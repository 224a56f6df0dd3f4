use super::Call;
use millrace_core::blocks::decode::{BLOCK, decode_block};

/// h[t][i] = embedding[tokens[TOKEN_AT + t]][i] for the tokens whose rows this part holds. EACH neighbouring rows of h
/// are interleaved.
pub fn run(call: &Call) {
    let (d, kb, stride) = (call.usize("D"), call.usize("KB"), call.usize("STRIDE"));
    let (row0, rows, each) = (call.u32("ROW0"), call.u32("ROWS"), call.usize("EACH"));
    let tokens = call.read("tokens");
    let (wq, ws) = (call.read("wq"), call.scales());
    let mut h = call.view_mut::<f32>("h");
    let state = call.state();
    for t in (0..state.rows.min(call.grid[0]) as usize).filter(|t| !state.rests(*t)) {
        let token =
            if call.u32("POSITIONS") == 1 { state.position_of(t) as u32 } else { tokens[call.usize("TOKEN_AT") + t] };
        if token < row0 || token - row0 >= rows {
            continue;
        }
        for b in 0..kb {
            let values = decode_block(call.axis("weight"), &wq, &ws, (token - row0) as usize * kb + b);
            for (i, value) in values.into_iter().enumerate().take_while(|(i, _)| b * BLOCK + i < d) {
                let h = &mut h[(t - t % each) * stride + (b * BLOCK + i) * each + t % each];
                let old = if call.u32("ADD") == 1 { *h } else { 0.0 };
                *h = value * call.f32("SCALE") + old;
            }
        }
    }
}
