use super::Call;
use super::sampling::params;

/// Keeps the logits in `raw`, then takes penalties from them and adds the bias.
pub fn run(call: &Call) {
    let params = params(call);
    let state = call.state();
    let mut logits = call.view_mut::<f32>("logits");
    let mut tallies = call.view_mut::<[u32; 2]>("tallies");
    let mut raw = call.view_mut::<f32>("raw");
    for i in 0..call.usize("V") {
        if state.step > 0 && i as u32 == state.token {
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
