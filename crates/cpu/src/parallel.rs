//! Work that is done in parts, each by a thread where there are threads.

use std::ops::Range;

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
        // SAFETY: it lies within the slice, and nobody else has it.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(part.start), part.len()) }
    }
}

/// Products of numbers that are worth a thread.
#[cfg(not(target_arch = "wasm32"))]
const LEAST: usize = 2_000_000;

/// Threads that there are processors for.
#[cfg(not(target_arch = "wasm32"))]
pub fn threads() -> usize {
    use std::sync::OnceLock;
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Threads: the one that the module runs in.
#[cfg(target_arch = "wasm32")]
pub fn threads() -> usize {
    1
}

/// Has `0..n` be done in parts that together are the whole. `cost`: products of numbers in all.
pub fn parallel(n: usize, cost: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
    #[cfg(not(target_arch = "wasm32"))]
    {
        let parts = threads().min(cost / LEAST).min(n);
        if parts > 1 {
            let part = |i: usize| i * n / parts..(i + 1) * n / parts;
            std::thread::scope(|scope| {
                for i in 1..parts {
                    scope.spawn(move || work(part(i)));
                }
                work(part(0));
            });
            return;
        }
    }
    let _ = cost;
    work(0..n);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_whole() {
        for n in 0..20 {
            let mut times = vec![0.0; n];
            let shared = Shared::new(&mut times);
            parallel(n, usize::MAX, &|part| shared.part(part).iter_mut().for_each(|times| *times += 1.0));
            assert_eq!(times, vec![1.0; n]);
        }
    }
}
