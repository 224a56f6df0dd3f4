use super::Case;
use super::compare::F32;
use super::random::{Random, words};
use crate::kernels::{State, Variant};

pub fn cases(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (T, D, STRIDE, slot)
    let shapes: [(u32, u32, u32, u32); 3] = [(1, 32, 32, 0), (3, 80, 96, 1), (200, 64, 64, 2)];
    let case = |(t, d, stride, slot): (u32, u32, u32, u32)| Case {
        name: format!("T={t} D={d} slot {slot}"),
        overrides: vec![("D", f64::from(d)), ("STRIDE", f64::from(stride))],
        grid: [d.div_ceil(64), 1, 1],
        buffers: vec![
            ("state", State { rows: t, slot, ..State::default() }.words()),
            ("x", words(&random.f32s((t * stride) as usize, 1.0))),
            ("h", words(&random.f32s((t * stride) as usize, 1.0))),
            ("s", words(&random.f32s((3 * d) as usize, 0.9))),
        ],
        outputs: vec![("h", F32), ("s", F32)],
    };
    shapes.into_iter().map(case).collect()
}
