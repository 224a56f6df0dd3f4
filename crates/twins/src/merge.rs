use super::activate::sigmoid;
use super::quantize::write_row;
use super::{Call, kv};

/// y = sum of exp(m_s - m) po_s / sum of exp(m_s - m) l_s over the splits s, flattened to H*E and padded to blocks of
/// 32.
pub fn run(call: &Call) {
    let (h, e) = (call.usize("H"), call.usize("E"));
    let state = call.state();
    let (po, ml) = (call.view::<f32>("po"), call.view::<[f32; 2]>("ml"));
    let (gate, gate_at, stride) = (call.view::<f32>("gate"), call.usize("GATE"), call.usize("QSTRIDE"));
    let gated =
        |t: usize, i: usize| if gate_at == 0 { 1.0 } else { sigmoid(f64::from(gate[t * stride + gate_at + i])) };
    let factor = call.f64("FACTOR");
    for t in (0..state.rows.min(call.grid[1]) as usize).filter(|t| !state.rests(*t)) {
        let (split, count) = kv::cut(call, t, call.u32("GROUPS"));
        let splits = kv::seen(call, state.position_of(t)).count().div_ceil(split);
        let first = t * if call.u32("ROOM") == 0 { count } else { call.usize("ROOM") };
        let mut y = vec![0.0f32; h * e];
        for head in 0..h {
            let ml = |s: usize| ml[(first + s) * h + head].map(f64::from);
            let sink = (call.u32("SINKS") == 1).then(|| f64::from(call.view::<f32>("sinks")[head]));
            let m = (0..splits).map(|s| ml(s)[0]).chain(sink).fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = (0..splits).map(|s| (ml(s)[0] - m).exp()).collect();
            let l: f64 = weights.iter().enumerate().map(|(s, w)| w * ml(s)[1]).sum::<f64>()
                + sink.map_or(0.0, |sink| (sink - m).exp());
            for i in head * e..(head + 1) * e {
                let o: f64 = weights.iter().enumerate().map(|(s, w)| w * f64::from(po[(first + s) * h * e + i])).sum();
                y[i] = (factor * o / l * gated(t, i)) as f32;
            }
        }
        write_row(call, call.usize("KB"), t, y);
    }
}
