use super::Call;
use super::sampling::params_of;

/// Keeps the logits in `raw`, then takes penalties from them and adds the bias.
pub fn run(call: &Call) {
    let state = call.state();
    let tokens = call.read("tokens");
    let mut logits = call.view_mut::<f32>("logits");
    let mut tallies = call.view_mut::<[u32; 2]>("tallies");
    let mut raw = call.view_mut::<f32>("raw");
    let (v, stride) = (call.usize("V"), call.stride());
    for t in call.beside() {
        let params = params_of(call, t);
        let apart = call.u32("BESIDE") == 1 && state.apart != 0;
        let (steps, last) = if apart { (state.turn, tokens[t]) } else { (state.step, state.token) };
        for id in 0..v {
            let i = t * stride + id;
            if steps > 0 && id as u32 == last {
                tallies[i][0] += 1;
            }
            let (x, [seen, bias]) = (f64::from(logits[i]), tallies[i]);
            raw[i] = logits[i];
            let count = seen & 0x7fff_ffff;
            let mut y = x;
            if seen != 0 {
                let repetition = f64::from(params.repetition);
                y = if x > 0.0 { x / repetition } else { x * repetition };
            }
            if count != 0 {
                y -= f64::from(params.frequency) * f64::from(count) + f64::from(params.presence);
            }
            logits[i] = (y + f64::from(f32::from_bits(bias))) as f32;
        }
    }
}
