use super::Call;

/// words[i] = (hash of i + SEED & KEEP) | SET.
pub fn run(call: &Call) {
    let mix = |v: u32| {
        let x = (v ^ (v >> 16)).wrapping_mul(0x7feb_352d);
        let x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        x ^ (x >> 16)
    };
    let mut words = call.view_mut::<u32>("words");
    for (i, word) in words.iter_mut().enumerate().take(call.usize("WORDS")) {
        *word = (mix((i as u32).wrapping_add(call.u32("SEED"))) & call.u32("KEEP")) | call.u32("SET");
    }
}
