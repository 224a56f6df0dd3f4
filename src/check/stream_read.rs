use super::random::{Random, untouched};
use super::{Case, Compare};
use crate::kernels::{State, Variant};

pub fn cases(_: &'static Variant, _: &mut Random) -> Vec<Case> {
    // One word that is not 0: every other sum stays as it was.
    let mut data = vec![0; 4096 * 4];
    data[(256 * 3 + 77) * 4 + 2] = 0x1234;
    let overrides = vec![("WORDS", 4096.0)];
    let buffers =
        vec![("state", State { rows: 1, ..State::default() }.words()), ("data", data), ("sums", untouched(256))];
    vec![Case { name: "one word".into(), overrides, grid: [1, 1, 1], buffers, outputs: vec![("sums", Compare::Exact)] }]
}
