use super::Call;
use super::sampling::{ordered, params, scaled};

/// thr = (smallest key that survives top-k, top-p and min-p, key of the largest logit, 0, 0).
pub fn run(call: &Call) {
    let params = params(call);
    let mut thr = call.write("thr");
    thr[..4].fill(0);
    if params.temperature == 0.0 {
        return;
    }
    let top_key = call.view::<f32>("part")[..64].iter().map(|x| ordered(*x)).max().unwrap_or(0);
    let logits = call.view::<f32>("logits");
    // (key, logit), best first, without NaN.
    let mut tokens: Vec<(u32, f32)> = logits[..call.usize("V")].iter().map(|x| (ordered(*x), *x)).filter(|t| t.0 > 0).collect();
    tokens.sort_unstable_by_key(|t| std::cmp::Reverse(t.0));

    let mut key = 0;
    if params.top_k > 0 && params.top_k < call.u32("V") {
        let kept = tokens.len().min(params.top_k as usize);
        key = tokens[..kept].last().map_or(0, |t| t.0);
    }
    if params.top_p < 1.0 {
        tokens.retain(|t| t.0 >= key);
        key = key.max(smallest_kept(&tokens, params.top_p, |x| mass(scaled(x, top_key, params.temperature))));
    }
    if params.min_p > 0.0 {
        let bound = f64::from(super::sampling::unordered(top_key)) + f64::from(params.temperature) * f64::from(params.min_p).ln();
        key = key.max(ordered(bound as f32).min(top_key));
    }
    thr[0] = key;
    thr[1] = top_key;
}

/// A probability relative to the likeliest token's, in units of 2^-31.
fn mass(scaled: f64) -> u64 {
    (scaled.exp() * 2_147_483_648.0).round() as u64
}

/// The key at which the tokens, best first, add up to `share` of the whole.
fn smallest_kept(tokens: &[(u32, f32)], share: f32, mass: impl Fn(f32) -> u64) -> u32 {
    let whole: u64 = tokens.iter().map(|t| mass(t.1)).sum();
    if whole == 0 {
        return 0;
    }
    let fraction = (f64::from(share) * 4_294_967_296.0) as u128;
    let wanted = (u128::from(whole) * fraction).div_ceil(1 << 32).max(1) as u64;
    let mut sum = 0;
    for (key, x) in tokens {
        sum += mass(*x);
        if sum >= wanted {
            return *key;
        }
    }
    0
}
