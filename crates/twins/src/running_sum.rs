use super::Call;
use crate::numbers::FEW_ROWS;

/// S with a row of x more.
fn added(sum: f32, row: f32) -> f32 {
    let next = f64::from(sum) + 0.25 * f64::from(row);
    (next - 2.0 * (next * 0.5).round_ties_even()) as f32
}

/// S with the first rows of a half of those that are kept.
fn add(call: &Call, s: &mut [f32], kept: &[f32], (side, rows): (u32, usize)) {
    let d = call.usize("D");
    for row in kept[side as usize * FEW_ROWS as usize * d..].chunks_exact(d).take(rows) {
        s[call.state().slot as usize * d..][..d].iter_mut().zip(row).for_each(|(s, row)| *s = added(*s, *row));
    }
}

/// What counts of the last step with drafts goes to the state.
pub fn settle(call: &Call) {
    let state = call.state();
    let (mut s, kept) = (call.view_mut::<f32>("s"), call.view::<f32>("kept"));
    add(call, &mut s, &kept, (1 - state.side, state.kept as usize));
}

/// S += x / 4, modulo 2; h += |S| - 1/2, row after row, of which each goes to the state of its sequence. Of a token and
/// its drafts S stays as it is before them, and the rows are kept.
pub fn run(call: &Call) {
    let (d, stride) = (call.usize("D"), call.usize("STRIDE"));
    let state = call.state();
    let x = call.view::<f32>("x");
    let (mut h, mut s, mut kept) = (call.view_mut::<f32>("h"), call.view_mut::<f32>("s"), call.view_mut::<f32>("kept"));
    let drafter = call.u32("DRAFTER") == 1;
    let drafts = call.u32("APART") == 1 && state.apart == 0 || drafter;
    let earlier = if drafter { state.step as usize } else { 0 };
    let at = |t: usize| (state.side as usize * FEW_ROWS as usize + earlier + t) * d;
    if drafts && earlier == 0 {
        add(call, &mut s, &kept, (1 - state.side, state.kept as usize));
    }
    let before = s.to_vec();
    add(call, &mut s, &kept, (state.side, earlier));
    let stays = drafts && (state.rows > 1 || drafter);
    for t in (0..state.rows as usize).filter(|t| !state.rests(*t)) {
        for (i, sum) in s[state.slot_of(t) * d..][..d].iter_mut().enumerate() {
            *sum = added(*sum, x[t * stride + i]);
            h[t * stride + i] += sum.abs() - 0.5;
        }
        if stays {
            kept[at(t)..][..d].copy_from_slice(&x[t * stride..][..d]);
        }
    }
    if stays {
        s.copy_from_slice(&before);
    }
}
