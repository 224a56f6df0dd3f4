use super::compare::F32;
use super::random::{Random, untouched, words};
use super::{Case, Compare};
use crate::kernels::{State, Variant};

pub fn cases(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (T, D, STRIDE, LAST, size of h)
    let shapes: [(u32, u32, u32, u32, f32); 6] =
        [(1, 32, 32, 0, 1.0), (3, 80, 96, 0, 5.0), (2, 1000, 1000, 0, 0.01), (5, 2304, 2304, 1, 1.0), (4, 256, 300, 0, 100.0), (1, 64, 64, 1, 0.0)];
    shapes
        .into_iter()
        .map(|(t, d, stride, last, size)| {
            let kb = d.div_ceil(32);
            let out = if last == 1 { 1 } else { t };
            let overrides = [("D", d), ("KB", kb), ("STRIDE", stride), ("LAST", last)];
            Case {
                name: format!("T={t} D={d}{}{}", if last == 1 { " last" } else { "" }, if size == 0.0 { " zeros" } else { "" }),
                overrides: overrides.into_iter().map(|(name, value)| (name, f64::from(value))).chain([("EPS", 1e-5)]).collect(),
                grid: [out, 1, 1],
                buffers: [
                    ("state", State { rows: t, ..State::default() }.words()),
                    ("h", words(&random.f32s((t * stride) as usize, size))),
                    ("nw", words(&random.f32s(d as usize, 2.0))),
                ]
                .into_iter()
                .chain(out_buffers(variant, (out * kb) as usize))
                .collect(),
                outputs: out_compare(variant),
            }
        })
        .collect()
}

/// The outputs of a kernel with an `out` axis, for this many blocks of 32 and some room behind them.
pub fn out_buffers(variant: &Variant, blocks: usize) -> Vec<(&'static str, Vec<u32>)> {
    match variant.axis("out") {
        Some("f32") => return vec![("y", untouched(blocks * 32 + 32))],
        Some("f16") => return vec![("y", untouched(blocks * 16 + 16))],
        _ => {}
    }
    vec![("yq", untouched(blocks * 8 + 8)), ("ys", untouched(blocks * 2 + 2))]
}

/// How to compare them.
pub fn out_compare(variant: &Variant) -> Vec<(&'static str, Compare)> {
    match variant.axis("out") {
        Some("f32") => vec![("y", F32)],
        Some("f16") => vec![("y", Compare::Halves(1e-3))],
        _ => vec![("yq", Compare::Int8), ("ys", Compare::Scales)],
    }
}
