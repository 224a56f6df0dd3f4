use super::Call;

/// The USED largest logits of each row, the first of equals, with their softmax.
pub fn run(call: &Call) {
    let (experts, used, stride) = (call.usize("EXPERTS"), call.usize("USED"), call.usize("STRIDE"));
    let logits = call.view::<f32>("logits");
    let mut chosen = call.view_mut::<[u32; 2]>("chosen");
    for t in 0..call.state().rows.min(call.grid[0]) as usize {
        let row = &logits[t * stride..][..experts];
        let mut order: Vec<usize> = (0..experts).collect();
        order.sort_by(|a, b| row[*b].partial_cmp(&row[*a]).unwrap_or(std::cmp::Ordering::Equal));
        let weight = |i: usize| f64::from(row[i] - row[order[0]]).exp();
        let counted = if call.u32("NORMED") == 1 { &order[..used] } else { &order[..] };
        let sum: f64 = counted.iter().map(|i| weight(*i)).sum();
        for (slot, i) in order[..used].iter().enumerate() {
            chosen[t * used + slot] = [*i as u32, ((weight(*i) / sum) as f32).to_bits()];
        }
    }
}
