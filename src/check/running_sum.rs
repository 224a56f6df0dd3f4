use super::Case;
use super::compare::F32;
use super::delta::{apart, drafting};
use super::inputs::{Random, words};
use crate::base::numbers::FEW_ROWS;
use crate::kernels::{State, Variant};

pub fn cases(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (T, D, STRIDE, slot)
    let shapes: [(u32, u32, u32, u32); 3] = [(1, 32, 32, 0), (3, 80, 96, 1), (200, 64, 64, 2)];
    let mut case =
        |(t, d, stride, slot): (u32, u32, u32, u32), what: &str, state, flags: &[(&'static str, f64)]| Case {
            name: format!("T={t} D={d} slot {slot}{what}"),
            overrides: [&[("D", f64::from(d)), ("STRIDE", f64::from(stride))][..], flags].concat(),
            grid: [d.div_ceil(64), if flags.is_empty() { 1 } else { FEW_ROWS }, 1],
            buffers: vec![
                state,
                ("x", words(&random.f32s((t * stride) as usize, 1.0))),
                ("h", words(&random.f32s((t * stride) as usize, 1.0))),
                ("s", words(&random.f32s((3 * d) as usize, 0.9))),
                ("kept", words(&random.f32s((2 * FEW_ROWS * d) as usize, 1.0))),
            ],
            outputs: vec![("h", F32), ("s", F32)],
        };
    let of = |(t, _, _, slot): (u32, u32, u32, u32)| State { rows: t, slot, ..State::default() };
    let mut cases: Vec<Case> =
        shapes.into_iter().map(|shape| case(shape, "", ("state", of(shape).words()), &[])).collect();
    let [one, three, _] = shapes;
    let several = [("APART", 1.0)];
    cases.push(case(three, ", apart", apart(7), &several));
    cases.push(case(three, ", drafts", drafting(of(three), 0), &several));
    cases.push(case(three, ", drafts after 3", drafting(of(three), 3), &several));
    cases.push(case(one, ", drafts after 8", drafting(of(one), 8), &several));
    let drafter = [("DRAFTER", 1.0)];
    cases.push(case(one, ", a draft model's first step", drafting(of(one), 3), &drafter));
    cases.push(case(one, ", its fifth", drafting(State { step: 4, ..of(one) }, 3), &drafter));
    cases
}

pub fn settle(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    let case = |(d, slot, counts): (u32, u32, u32)| Case {
        name: format!("{}D={d} slot {slot} after {counts}", if counts == 0 { "idle: " } else { "" }),
        overrides: vec![("D", f64::from(d))],
        grid: [d.div_ceil(64), 1, 1],
        buffers: vec![
            drafting(State { rows: 1, slot, ..State::default() }, counts),
            ("s", words(&random.f32s((3 * d) as usize, 0.9))),
            ("kept", words(&random.f32s((2 * FEW_ROWS * d) as usize, 1.0))),
        ],
        outputs: vec![("s", F32)],
    };
    [(80, 1, 4), (32, 0, 1), (96, 2, 8), (32, 1, 0)].into_iter().map(case).collect()
}
