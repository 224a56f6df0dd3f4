use super::Call;

/// sums[li] = the bits of everything that some invocation li reads, where there are any.
pub fn run(call: &Call) {
    let threads = call.variant.workgroup[0] as usize;
    let data = call.view::<[u32; 4]>("data");
    let mut sums = call.view_mut::<u32>("sums");
    for (li, sum) in sums.iter_mut().enumerate().take(threads) {
        let bits = data.iter().skip(li).step_by(threads).flatten().fold(0, |all, word| all | word);
        if bits != 0 {
            *sum = bits;
        }
    }
}
