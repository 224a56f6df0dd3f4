use super::inputs::{Random, untouched};
use super::{Case, Compare};
use crate::kernels::{State, Variant};

pub fn random(_: &'static Variant, _: &mut Random) -> Vec<Case> {
    // (words, [seed, bits that are random, bits that are set, unused], workgroups)
    let shapes: [(usize, [u32; 4], [u32; 3]); 3] = [
        (1, [0, u32::MAX, 0, 0], [1, 1, 1]),
        (5000, [77, 0x83ff_83ff, 0x2000_2000, 0], [1, 2, 1]),
        (9000, [u32::MAX, 0x03ff_03ff, 0x1c00_1c00, 0], [2, 2, 1]),
    ];
    let cases = shapes.into_iter().map(|(words, params, grid)| Case {
        name: format!("{words} words"),
        overrides: Vec::new(),
        grid,
        buffers: vec![
            ("state", State { rows: 1, ..State::default() }.words()),
            ("params", params.to_vec()),
            ("words", untouched(words)),
        ],
        outputs: vec![("words", Compare::Exact)],
    });
    cases.collect()
}
