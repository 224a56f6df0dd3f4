use super::Call;
use super::sampling::{ordered, params_of, unordered};

/// part[w] = the largest of the logits that workgroup w looks at.
pub fn run(call: &Call) {
    let groups = call.grid[0] as usize;
    let mut part = call.view_mut::<f32>("part");
    let (logits, v, stride) = (call.view::<f32>("logits"), call.usize("V"), call.stride());
    for t in call.beside().filter(|t| params_of(call, *t).temperature != 0.0) {
        let (logits, part) = (&logits[t * stride..][..v], &mut part[t * groups..][..groups]);
        let mut top = vec![ordered(f32::MIN); groups];
        for (i, x) in logits.iter().enumerate() {
            let w = call.slice(i);
            top[w] = top[w].max(ordered(*x));
        }
        for (part, key) in part.iter_mut().zip(top) {
            *part = unordered(key);
        }
    }
}
