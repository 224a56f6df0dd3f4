//! In a page whose memory cannot be shared there is one thread.

use crate::parallel::Work;

pub fn threads() -> usize {
    1
}

pub fn run(_: usize, _: usize, _: &Work) -> bool {
    false
}
