use super::random::{Random, untouched};
use super::{Case, Compare};
use crate::kernels::{State, Variant};

pub fn random(_: &'static Variant, _: &mut Random) -> Vec<Case> {
    // (words, seed, bits that are random, bits that are set, workgroups)
    let shapes = [(1, 0, u32::MAX, 0, [1, 1, 1]), (5000, 77, 0x83ff_83ff, 0x2000_2000, [1, 2, 1]), (9000, u32::MAX, 0x03ff_03ff, 0x1c00_1c00, [2, 2, 1])];
    let cases = shapes.into_iter().map(|(words, seed, keep, set, grid)| Case {
        name: format!("WORDS={words}"),
        overrides: [("WORDS", words), ("SEED", seed), ("KEEP", keep), ("SET", set)].map(|(name, value)| (name, f64::from(value))).to_vec(),
        grid,
        buffers: vec![("state", State { rows: 1, ..State::default() }.words()), ("words", untouched(words as usize + 3))],
        outputs: vec![("words", Compare::Exact)],
    });
    cases.collect()
}
