use super::inputs::{Random, untouched};
use super::{Case, Compare};
use crate::base::numbers::STREAMED;
use crate::kernels::{State, Variant};

pub fn cases(variant: &'static Variant, _: &mut Random) -> Vec<Case> {
    // One word that is not 0: every other sum stays as it was.
    let case = |name: &str, groups: usize, place: usize| {
        let n = groups * (variant.workgroup[0] * STREAMED) as usize;
        let mut data = vec![0; n * 4];
        data[place * 4 + 2] = 0x1234;
        Case {
            name: name.into(),
            overrides: vec![("WORDS", n as f64)],
            grid: [groups as u32, 1, 1],
            buffers: vec![
                ("state", State { rows: 1, ..State::default() }.words()),
                ("data", data),
                ("sums", untouched(256)),
            ],
            outputs: vec![("sums", Compare::Exact)],
        }
    };
    vec![case("one word", 1, 256 * 3 + 77), case("one word far behind", 16, 256 * 201 + 5)]
}
