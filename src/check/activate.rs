use super::inputs::{Random, words};
use super::norm::{out_buffers, out_compare};
use super::{Case, Compare};
use crate::kernels::{State, Variant};

pub fn quantize(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    [(1_u32, 1_u32), (3, 9), (2, 40)]
        .into_iter()
        .map(|(t, kb)| {
            let mut x = random.f32s((t * kb * 32) as usize, 3.0);
            // A block of zeros has the scale 0.
            x[..32].fill(0.0);
            let buffers = [("state", State { rows: t, ..State::default() }.words()), ("x", words(&x))];
            Case {
                name: format!("T={t} KB={kb}"),
                overrides: vec![("KB", f64::from(kb))],
                grid: [kb.div_ceil(8), t, 1],
                buffers: buffers.into_iter().chain(out_buffers(variant, (t * kb) as usize)).collect(),
                outputs: vec![("yq", Compare::Int8), ("ys", Compare::Scales)],
            }
        })
        .collect()
}

pub fn activate(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (T, F, size of the gate: large ones saturate the sigmoid, GELU, gated)
    let shapes = [
        (1_u32, 32_u32, 1.0, 0, 1),
        (3, 80, 8.0, 1, 1),
        (2, 1000, 3.0, 0, 1),
        (2, 288, 200.0, 0, 1),
        (2, 96, 200.0, 1, 0),
        (3, 500, 3.0, 2, 0),
        (3, 64, 3.0, 1, 0),
        (2, 96, 9.0, 3, 1),
        (3, 500, 3.0, 4, 0),
        (2, 96, 40.0, 4, 1),
        (2, 96, 3.0, 5, 0),
        (2, 64, 400.0, 5, 0),
    ];
    shapes
        .into_iter()
        .enumerate()
        .map(|(i, (t, f, size, act, gated))| {
            let factor = if i % 3 == 1 { 7 } else { 0 };
            // The last times numbers that are there, which begin at the fourth of a row.
            let beside = if i == 6 { f + 9 } else { 0 };
            let factors = [("INNER", 0.8), ("OUTER", 1.4)].into_iter().filter(|_| i == 1);
            let kb = f.div_ceil(32);
            let stride = 2 * f + 5;
            // One of a pass of one row that has two here.
            let each = if i == 3 { t } else { 1 };
            let overrides = [
                ("F", f),
                ("KB", kb),
                ("GSTRIDE", stride),
                ("ACT", act),
                ("GATED", gated),
                ("FACTOR", factor),
                ("BESIDE", beside),
                ("AT", 2),
                ("EACH", each),
            ];
            let buffers = [
                ("state", State { rows: t / each, ..State::default() }.words()),
                ("gu", words(&random.f32s((t * stride) as usize, size))),
                ("factors", words(&random.f32s((t * factor.max(beside).max(4)) as usize, 3.0))),
                ("at", words(&[0.0, 1.0, 4.0])),
            ];
            Case {
                name: format!(
                    "T={t} F={f} size {size}{}{}",
                    ["", " GELU", " squared", " cut", " erf", " tanh"][act as usize],
                    if gated == 0 { " not gated" } else { "" }
                ),
                overrides: overrides.map(|(name, value)| (name, f64::from(value))).into_iter().chain(factors).collect(),
                grid: [kb.div_ceil(8), t, 1],
                buffers: buffers.into_iter().chain(out_buffers(variant, (t * kb) as usize)).collect(),
                outputs: out_compare(variant),
            }
        })
        .collect()
}

pub fn clamp(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (T, N, zeros behind them, where they begin, which of the limits)
    [(1_u32, 32_u32, 0_u32, 0_u32, 0_u32), (3, 24, 8, 0, 2), (2, 300, 20, 7, 1), (5, 12, 0, 24, 2)]
        .into_iter()
        .map(|(t, n, zeros, column, at)| {
            let (stride, to) = (n + 3, column + n + zeros + 5);
            let overrides =
                [("N", n), ("XSTRIDE", stride), ("YSTRIDE", to), ("COLUMN", column), ("ROOM", n + zeros), ("AT", at)];
            Case {
                name: format!("T={t} N={n} from {column} on, with {zeros} zeros"),
                overrides: overrides.map(|(name, value)| (name, f64::from(value))).to_vec(),
                grid: [(n + zeros).div_ceil(256), t, 1],
                buffers: vec![
                    ("state", State { rows: t, ..State::default() }.words()),
                    ("x", words(&random.f32s((t * stride) as usize, 3.0))),
                    ("limits", words(&[-1.5, -0.25, 0.5, f32::MAX])),
                    ("y", words(&vec![-9.0; (t * to) as usize])),
                ],
                outputs: vec![("y", Compare::Exact)],
            }
        })
        .collect()
}
