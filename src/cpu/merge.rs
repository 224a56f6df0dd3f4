use super::Call;
use super::quantize::write_rows;
use crate::kernels::splits::keys_a_split;

/// y = sum of exp(m_s - m) po_s / sum of exp(m_s - m) l_s over the splits s, flattened to H*E and padded to blocks of 32.
pub fn run(call: &Call) {
    let (h, e) = (call.usize("H"), call.usize("E"));
    let keys = call.state().pos + 1;
    let splits = keys.div_ceil(keys_a_split(keys, call.u32("GROUPS"), call.u32("LEAST"))) as usize;
    let (po, ml) = (call.view::<f32>("po"), call.view::<[f32; 2]>("ml"));
    let mut y = vec![0.0f32; h * e];
    for head in 0..h {
        let m = (0..splits).map(|s| f64::from(ml[s * h + head][0])).fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = (0..splits).map(|s| (f64::from(ml[s * h + head][0]) - m).exp()).collect();
        let l: f64 = weights.iter().enumerate().map(|(s, w)| w * f64::from(ml[s * h + head][1])).sum();
        for i in head * e..(head + 1) * e {
            let o: f64 = weights.iter().enumerate().map(|(s, w)| w * f64::from(po[s * h * e + i])).sum();
            y[i] = (o / l) as f32;
        }
    }
    write_rows(call, call.usize("KB"), std::iter::once(y));
}
