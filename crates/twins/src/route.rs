use super::Call;

/// The USED largest logits of each row, the first of equals, with their softmax; or those of the largest sums of
/// sigmoid and bias.
pub fn run(call: &Call) {
    let (experts, used, stride) = (call.usize("EXPERTS"), call.usize("USED"), call.usize("STRIDE"));
    let logits = call.view::<f32>("logits");
    let (scaled, scales) = (call.u32("SCALED") == 1, call.view::<f32>("bias"));
    let mut chosen = call.view_mut::<[u32; 2]>("chosen");
    for t in 0..call.state().rows.min(call.grid[0]) as usize {
        let row = &logits[t * stride..][..experts];
        if call.u32("SIGMOID") == 1 {
            sigmoids(call, row, &mut chosen[t * used..][..used]);
            continue;
        }
        let mut order: Vec<usize> = (0..experts).collect();
        order.sort_by(|a, b| row[*b].partial_cmp(&row[*a]).unwrap_or(std::cmp::Ordering::Equal));
        let weight = |i: usize| f64::from(row[i] - row[order[0]]).exp();
        let counted = if call.u32("NORMED") == 1 { &order[..used] } else { &order[..] };
        let sum: f64 = counted.iter().map(|i| weight(*i)).sum();
        for (slot, i) in order[..used].iter().enumerate() {
            let scale = if scaled { f64::from(scales[*i]) } else { 1.0 };
            chosen[t * used + slot] = [*i as u32, ((call.f64("FACTOR") * weight(*i) / sum * scale) as f32).to_bits()];
        }
    }
}

fn sigmoids(call: &Call, row: &[f32], chosen: &mut [[u32; 2]]) {
    let bias = call.view::<f32>("bias");
    let weight = |i: usize| super::activate::sigmoid(f64::from(row[i]));
    // As rounded on the GPU: close sums are the cases' business.
    let key = |i: usize| weight(i) + f64::from(bias[i]);
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|a, b| key(*b).partial_cmp(&key(*a)).unwrap_or(std::cmp::Ordering::Equal));
    let sum = match call.u32("NORMED") {
        1 => order[..chosen.len()].iter().map(|i| weight(*i)).sum::<f64>() + call.f64("ADDED"),
        _ => 1.0,
    };
    for (slot, i) in chosen.iter_mut().zip(order) {
        *slot = [i as u32, ((call.f64("FACTOR") * weight(i) / sum) as f32).to_bits()];
    }
}
