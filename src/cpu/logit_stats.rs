use super::Call;
use super::sampling::{ordered, params, unordered};

/// part[w] = the largest of the logits that workgroup w looks at.
pub fn run(call: &Call) {
    if params(call).temperature == 0.0 {
        return;
    }
    let logits = call.view::<f32>("logits");
    let groups = call.grid[0] as usize;
    let mut top = vec![ordered(f32::MIN); groups];
    for (i, x) in logits[..call.usize("V")].iter().enumerate() {
        let w = call.slice(i);
        top[w] = top[w].max(ordered(*x));
    }
    let mut part = call.view_mut::<f32>("part");
    for (w, key) in top.into_iter().enumerate() {
        part[w] = unordered(key);
    }
}
