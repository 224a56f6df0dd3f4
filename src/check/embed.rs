use super::attention::POISON;
use super::inputs::{Random, untouched, words};
use super::product::fitting;
use super::{Case, Compare};
use crate::base::numbers::FEW_ROWS;
use crate::kernels::{State, Variant};

pub fn cases(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    let weight = variant.axis("weight").unwrap_or_default();
    // (T, D, STRIDE, ROW0, ROWS, small weights)
    // The third scaled, the sixth one of learned positions, the last one with rows that are interleaved.
    let shapes: [(u32, u32, u32, u32, u32, bool); 7] = [
        (1, 32, 32, 0, 7, false),
        (5, 80, 96, 0, 33, false),
        (3, 256, 256, 0, 9, true),
        (9, 70, 70, 11, 13, false),
        (300, 32, 40, 3, 5, false),
        (7, 80, 96, 2, 40, false),
        (12, 72, 80, 1, 30, false),
    ];
    shapes
        .into_iter()
        .enumerate()
        .map(|(i, (t, d, stride, row0, rows, small))| {
            let positions = u32::from(i == 5);
            // In that case all but one row are of sequences that have ended.
            let apart = u32::from(i == 5);
            let mut each = [[rows - 1, 0, 0, 0]; FEW_ROWS as usize];
            each[3] = [row0 + 2, 0, 9, 0];
            let (d, stride) = (fitting(variant, d), stride.max(fitting(variant, d)));
            let kb = d.div_ceil(32);
            // Some tokens belong to other parts, before and after this one.
            let tokens = (0..t + 2).map(|_| random.below(row0 + rows + 4 * row0.min(1))).collect();
            let mut buffers = random.weights(weight, (rows * kb) as usize, small);
            let h = if positions == 1 {
                words(&random.f32s((t * stride + 7) as usize, 1.0))
            } else {
                untouched((t * stride + 7) as usize)
            };
            buffers.extend([
                ("state", State { rows: t, pos: 33, apart, each, ..State::default() }.words()),
                ("tokens", tokens),
                ("h", h),
            ]);
            let overrides = [
                ("D", d),
                ("KB", kb),
                ("STRIDE", stride),
                ("ROW0", row0),
                ("ROWS", rows),
                ("TOKEN_AT", 2),
                ("ADD", positions),
                ("POSITIONS", positions),
                ("APART", apart),
                ("EACH", if i == 6 { 4 } else { 1 }),
            ];
            let scale = ("SCALE", if i == 2 { 33.25 } else { 1.0 });
            Case {
                name: format!(
                    "T={t} D={d} rows {row0}..{}{}{}",
                    row0 + rows,
                    if small { " small" } else { "" },
                    if positions == 1 { " positions" } else { "" }
                ),
                overrides: overrides.into_iter().map(|(name, value)| (name, f64::from(value))).chain([scale]).collect(),
                grid: [t, 1, 1],
                buffers,
                outputs: vec![("h", Compare::F32(1e-6))],
            }
        })
        .collect()
}

pub fn pool(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (texts, D, rows of each, whether means are standardised)
    let case = |(t, d, rows, standardised): (u32, u32, u32, bool)| {
        let stride = d.next_multiple_of(32);
        let of_channels =
            |random: &mut Random| if standardised { words(&random.f32s(d as usize, 2.0)) } else { vec![POISON; 4] };
        let taken: Vec<u32> = (0..t).flat_map(|i| [i * rows, i * rows + 1 + i % rows]).collect();
        Case {
            name: format!("T={t} D={d} of {rows} rows{}", if standardised { ", standardised" } else { "" }),
            overrides: vec![
                ("D", f64::from(d)),
                ("STRIDE", f64::from(stride)),
                ("STANDARDISED", f64::from(u8::from(standardised))),
            ],
            grid: [t, (stride / 4).div_ceil(64), 1],
            buffers: vec![
                ("state", State { rows: t, ..State::default() }.words()),
                ("h", words(&random.f32s((t * rows * stride) as usize, 2.0))),
                ("taken", taken),
                ("bias", of_channels(random)),
                ("factor", of_channels(random)),
                ("y", untouched((t * stride + 5) as usize)),
            ],
            outputs: vec![("y", Compare::F32(1e-6))],
        }
    };
    [(1, 32, 1, false), (3, 80, 5, false), (2, 1000, 3, true), (9, 384, 70, false), (4, 72, 9, true)].map(case).into()
}

pub fn pixels(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (columns and rows of patches, their side, frames, whether channel by channel, patches that the pass has, at what
    // byte the first one begins)
    [
        (1_u32, 1_u32, 1_u32, 1_u32, true, 1_u32, 0_u32),
        (3, 2, 14, 1, true, 6, 0),
        (2, 3, 16, 2, true, 6, 2),
        (5, 3, 7, 1, false, 13, 5),
        (2, 2, 16, 1, false, 4, 0),
    ]
    .into_iter()
    .map(|(wide, high, side, frames, by_channel, rows, begin)| {
        let (row, k) = (wide * side * 3, 3 * side * side * frames);
        let stride = k.next_multiple_of(32);
        // Not in the order in which they lie.
        let starts = (0..wide * high).map(|i| (i + 1) % (wide * high));
        let starts = starts.map(|i| begin + i / wide * side * row + i % wide * side * 3);
        Case {
            name: format!(
                "{wide} x {high} patches of {side} x {side}, {frames} frames, {}",
                if by_channel { "by channel" } else { "by pixel" }
            ),
            overrides: [("SIDE", side), ("FRAMES", frames), ("BY_CHANNEL", u32::from(by_channel)), ("STRIDE", stride)]
                .map(|(name, value)| (name, f64::from(value)))
                .to_vec(),
            grid: [wide * high, stride.div_ceil(256), 1],
            buffers: vec![
                ("state", State { rows, ..State::default() }.words()),
                ("pixels", (0..(begin + high * side * row).div_ceil(4)).map(|_| random.u32()).collect()),
                ("starts", [row].into_iter().chain(starts).collect()),
                ("numbers", words(&random.f32s(3 * 256, 2.0))),
                ("y", untouched((wide * high * stride + 5) as usize)),
            ],
            outputs: vec![("y", Compare::Exact)],
        }
    })
    .collect()
}
