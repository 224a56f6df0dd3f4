use super::Call;

/// words[i] = (hash of i + seed & keep) | fixed, with `params` (seed, keep, fixed).
pub fn run(call: &Call) {
    let mix = |v: u32| {
        let x = (v ^ (v >> 16)).wrapping_mul(0x7feb_352d);
        let x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        x ^ (x >> 16)
    };
    let params = call.view::<[u32; 4]>("params");
    let [seed, keep, fixed, _] = params[0];
    for (i, word) in call.view_mut::<u32>("words").iter_mut().enumerate() {
        *word = (mix((i as u32).wrapping_add(seed)) & keep) | fixed;
    }
}
