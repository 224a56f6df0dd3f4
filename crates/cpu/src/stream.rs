//! Reading of memory, for its bandwidth.

use std::sync::Mutex;

use millrace_twins::Call;

use crate::parallel::parallel;

/// sums[li] = the bits of everything that an invocation li reads, where there are any: as the twin, but in the order of
/// addresses and by all threads.
pub fn read(call: &Call) {
    let invocations = call.variant.workgroup[0] as usize;
    let data = call.view::<[u32; 4]>("data");
    let data = &*data;
    let all = Mutex::new(vec![[0; 4]; invocations]);
    parallel(data.len(), invocations, data.len() * 4, &|part| {
        let mut bits = vec![[0; 4]; invocations];
        data[part].chunks(invocations).for_each(|words| join(&mut bits, words));
        join(&mut all.lock().unwrap_or_else(std::sync::PoisonError::into_inner), &bits);
    });
    let all = all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (sum, [a, b, c, d]) in call.view_mut::<u32>("sums").iter_mut().zip(all) {
        let bits = a | b | c | d;
        if bits != 0 {
            *sum = bits;
        }
    }
}

fn join(bits: &mut [[u32; 4]], words: &[[u32; 4]]) {
    for (bits, words) in bits.iter_mut().zip(words) {
        for (bits, word) in bits.iter_mut().zip(words) {
            *bits |= word;
        }
    }
}
