use super::activate::sigmoid;
use super::quantize::write_rows;
use super::{Call, kv};
use crate::kernels::splits::Rule;

/// y = sum of exp(m_s - m) po_s / sum of exp(m_s - m) l_s over the splits s, flattened to H*E and padded to blocks of 32.
pub fn run(call: &Call) {
    let (h, e) = (call.usize("H"), call.usize("E"));
    let state = call.state();
    let (po, ml) = (call.view::<f32>("po"), call.view::<[f32; 2]>("ml"));
    let (gate, gate_at, stride) = (call.view::<f32>("gate"), call.usize("GATE"), call.usize("QSTRIDE"));
    let gated = |t: usize, i: usize| if gate_at == 0 { 1.0 } else { sigmoid(f64::from(gate[t * stride + gate_at + i])) };
    let factor = call.f64("FACTOR");
    let rule = Rule { least: call.u32("LEAST"), most: call.u32("MOST"), fill: call.u32("FILL") };
    let most = kv::seen(call, (state.pos + state.rows - 1) as usize).count() as u32;
    let split = rule.keys_a_split(most, call.u32("GROUPS") * state.rows);
    let rows = (0..state.rows.min(call.grid[1]) as usize).map(|t| {
        let keys = kv::seen(call, state.pos as usize + t).count() as u32;
        let splits = keys.div_ceil(split) as usize;
        let first = t * most.div_ceil(split) as usize;
        let mut y = vec![0.0f32; h * e];
        for head in 0..h {
            let ml = |s: usize| ml[(first + s) * h + head].map(f64::from);
            let m = (0..splits).map(|s| ml(s)[0]).fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = (0..splits).map(|s| (ml(s)[0] - m).exp()).collect();
            let l: f64 = weights.iter().enumerate().map(|(s, w)| w * ml(s)[1]).sum();
            for i in head * e..(head + 1) * e {
                let o: f64 = weights.iter().enumerate().map(|(s, w)| w * f64::from(po[(first + s) * h * e + i])).sum();
                y[i] = (factor * o / l * gated(t, i)) as f32;
            }
        }
        y
    });
    write_rows(call, call.usize("KB"), rows);
}
