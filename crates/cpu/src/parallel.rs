//! Work that is done in parts, by several threads where there are some.

use std::ops::Range;

use crate::pool;

/// Floats whose parts are written by different threads.
pub struct Shared {
    start: *mut f32,
    length: usize,
}

// SAFETY: parts that exist at one time do not overlap: see `Shared::part`.
unsafe impl Sync for Shared {}

impl Shared {
    /// The slice is not used otherwise while parts of it are.
    pub fn new(all: &mut [f32]) -> Self {
        Self { start: all.as_mut_ptr(), length: all.len() }
    }

    /// A part. No two that exist at one time may overlap.
    #[allow(clippy::mut_from_ref, reason = "parts do not overlap")]
    pub fn part(&self, part: Range<usize>) -> &mut [f32] {
        assert!(part.start <= part.end && part.end <= self.length, "a part beyond the end");
        // SAFETY: it lies within the slice, and no other part overlaps it.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(part.start), part.len()) }
    }
}

/// Does a part of the whole.
pub type Work<'a> = dyn Fn(Range<usize>) + Sync + 'a;

/// Multiplications that are worth a part of their own: some microseconds.
const LEAST: usize = 60_000;
/// Parts for each thread: a thread that the system has interrupted holds up one part, not its whole share.
const PARTS: usize = 4;

/// Has `0..n` be done in parts that together are the whole. Parts begin at multiples of `grain`. `cost`: multiplications
/// in all.
pub fn parallel(n: usize, grain: usize, cost: usize, work: &Work) {
    let threads = pool::threads();
    let parts = (cost / LEAST).min(threads * PARTS);
    let part = n.div_ceil(parts.max(1)).next_multiple_of(grain);
    if threads < 2 || part >= n || !pool::run(n, part, work) {
        work(0..n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By all threads, once no other test has them.
    fn together(n: usize, part: usize, work: &Work) {
        assert!(pool::threads() > 0);
        while !pool::run(n, part, work) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn parts_are_the_whole() {
        for n in 0..100 {
            for part in [1, 4, 7, 64] {
                let mut times = vec![0.0; n];
                let shared = Shared::new(&mut times);
                let add = |part: Range<usize>| shared.part(part).iter_mut().for_each(|times| *times += 1.0);
                together(n, part, &add);
                assert_eq!(times, vec![1.0; n], "parts of {part}");
                let shared = Shared::new(&mut times);
                parallel(n, part, usize::MAX, &|range| {
                    assert!(range.start.is_multiple_of(part));
                    shared.part(range).iter_mut().for_each(|times| *times += 1.0);
                });
                assert_eq!(times, vec![2.0; n], "multiples of {part}");
            }
        }
    }

    #[test]
    fn callers_at_the_same_time_get_what_is_theirs() {
        std::thread::scope(|scope| {
            for caller in 0..4 {
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let mut made = [0.0; 64];
                        let shared = Shared::new(&mut made);
                        parallel(64, 1, usize::MAX, &|part| {
                            let start = part.start;
                            for (i, made) in shared.part(part).iter_mut().enumerate() {
                                *made = (caller * 100 + start + i) as f32;
                            }
                        });
                        assert!(made.iter().enumerate().all(|(i, made)| *made == (caller * 100 + i) as f32));
                    }
                });
            }
        });
    }

    #[test]
    fn a_part_that_panics_is_the_callers_panic() {
        for _ in 0..50 {
            let ran = std::panic::catch_unwind(|| together(64, 1, &|part| assert!(!part.contains(&40), "planted")));
            assert!(ran.is_err());
        }
        together(64, 1, &|_| {});
    }
}
