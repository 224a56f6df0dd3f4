use super::product::fitting;
use super::random::{Random, untouched};
use super::{Case, Compare};
use crate::kernels::{State, Variant};

pub fn cases(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    let weight = variant.axis("weight").unwrap_or_default();
    // (T, D, STRIDE, ROW0, ROWS, small weights)
    let shapes: [(u32, u32, u32, u32, u32, bool); 5] =
        [(1, 32, 32, 0, 7, false), (5, 80, 96, 0, 33, false), (3, 256, 256, 0, 9, true), (9, 70, 70, 11, 13, false), (300, 32, 40, 3, 5, false)];
    shapes
        .into_iter()
        .map(|(t, d, stride, row0, rows, small)| {
            let (d, stride) = (fitting(variant, d), stride.max(fitting(variant, d)));
            let kb = d.div_ceil(32);
            // Some tokens belong to other parts, before and after this one.
            let tokens = (0..t + 2).map(|_| random.below(row0 + rows + 4 * row0.min(1))).collect();
            let mut buffers = random.weights(weight, (rows * kb) as usize, small);
            buffers.extend([("state", State { rows: t, ..State::default() }.words()), ("tokens", tokens), ("h", untouched((t * stride + 7) as usize))]);
            let overrides = [("D", d), ("KB", kb), ("STRIDE", stride), ("ROW0", row0), ("ROWS", rows), ("TOKEN_AT", 2)];
            Case {
                name: format!("T={t} D={d} rows {row0}..{}{}", row0 + rows, if small { " small" } else { "" }),
                overrides: overrides.map(|(name, value)| (name, f64::from(value))).to_vec(),
                grid: [t, 1, 1],
                buffers,
                outputs: vec![("h", Compare::F32(1e-6))],
            }
        })
        .collect()
}
