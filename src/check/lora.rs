use super::compare::F32;
use super::inputs::{Random, activations, untouched, words};
use super::{Case, Compare};
use crate::kernels::{State, Variant};
use half::f16;

/// Two adapters and none: rows of one sequence have all the first of these, rows of several each its own.
fn voices() -> Vec<u32> {
    (0..8_u32).flat_map(|row| [[2, 0, 1][row as usize % 3], (0.5 + row as f32).to_bits(), 0, 0]).collect()
}

fn state(t: u32, apart: bool) -> (&'static str, Vec<u32>) {
    ("state", State { rows: t, apart: u32::from(apart), ..State::default() }.words())
}

pub fn a(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    let act = variant.axis("act").unwrap_or_default();
    // (T, K, ranks, of several sequences, normed)
    let shapes = [
        (1, 256, 16, false, false),
        (3, 80, 12, true, false),
        (5, 2080, 4, false, false),
        (8, 96, 132, true, false),
        (2, 100, 8, false, true),
    ];
    let shapes = shapes.into_iter().filter(|shape| !shape.4 || act == "f32");
    let case = |(t, k, ranks, apart, normed): (u32, u32, u32, bool, bool)| {
        let kb = k.div_ceil(32);
        let mut buffers = random.weights(variant.axis("weight").unwrap_or_default(), (2 * ranks * kb) as usize, false);
        buffers.extend(activations(act, &random.padded(t as usize, k as usize, kb as usize * 32)));
        buffers.extend([state(t, apart), ("voices", voices()), ("t", untouched((t * ranks) as usize))]);
        let mut overrides =
            vec![("KB", f64::from(kb)), ("RANKS", f64::from(ranks)), ("APART", f64::from(u8::from(apart)))];
        if act == "f32" {
            buffers.push(("nw", words(&random.f32s(k as usize, 2.0))));
            overrides.extend([("NORMED", f64::from(u8::from(normed))), ("D", f64::from(k)), ("EPS", 1e-5)]);
        }
        Case {
            name: format!(
                "T={t} K={k} {ranks} ranks{}{}",
                if apart { " apart" } else { "" },
                if normed { " normed" } else { "" }
            ),
            overrides,
            grid: [ranks / 4, t, 1],
            buffers,
            outputs: vec![("t", if act == "f16" { Compare::F32(2e-3) } else { F32 })],
        }
    };
    shapes.map(case).collect()
}

pub fn b(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (T, N, columns, tensors, of several sequences)
    let shapes: [(u32, u32, u32, u32, bool); 3] = [(1, 64, 16, 1, false), (3, 150, 4, 3, true), (11, 65, 64, 2, false)];
    let case = |(t, n, columns, tensors, apart): (u32, u32, u32, u32, bool)| {
        let (ranks, stride) = (columns * tensors, n + 3);
        let values = random.f32s((2 * n * columns) as usize, 0.3);
        let b = match variant.axis("weight") {
            Some("f16") => values
                .as_chunks::<2>()
                .0
                .iter()
                .map(|pair| pair.map(|v| u32::from(f16::from_f32(v).to_bits())))
                .map(|[a, b]| a | b << 16)
                .collect(),
            _ => words(&values),
        };
        // Some rows have nothing added.
        let at = (0..2 * n)
            .flat_map(|row| [row % tensors * columns / 4, if row % 7 == 3 { 0 } else { (0.1 + row as f32).to_bits() }])
            .collect();
        Case {
            name: format!("T={t} N={n} {columns} columns of {ranks}{}", if apart { " apart" } else { "" }),
            overrides: [
                ("N", n),
                ("COLUMNS", columns),
                ("RANKS", ranks),
                ("NSTRIDE", stride),
                ("APART", u32::from(apart)),
            ]
            .map(|(name, n)| (name, f64::from(n)))
            .into(),
            grid: [n.div_ceil(variant.workgroup[0]), t, 1],
            buffers: vec![
                state(t, apart),
                ("b", b),
                ("at", at),
                ("t", words(&random.f32s((t * ranks) as usize, 1.0))),
                ("voices", voices()),
                ("y", words(&random.f32s((t * stride) as usize, 1.0))),
            ],
            outputs: vec![("y", F32)],
        }
    };
    shapes.into_iter().map(case).collect()
}
