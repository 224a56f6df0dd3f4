use super::compare::F32;
use super::inputs::{Random, untouched, words};
use super::{Case, Compare};
use crate::kernels::{State, Variant};

pub fn cases(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (T, D, STRIDE, LAST, size of h)
    // The second and the third also as LayerNorm.
    let shapes: [(u32, u32, u32, u32, f32); 8] = [
        (1, 32, 32, 0, 1.0),
        (3, 80, 96, 0, 5.0),
        (2, 1000, 1000, 0, 0.01),
        (5, 2304, 2304, 1, 1.0),
        (4, 256, 300, 0, 100.0),
        (1, 64, 64, 1, 0.0),
        (3, 80, 96, 0, 5.0),
        (2, 1000, 1000, 0, 0.01),
    ];
    shapes
        .into_iter()
        .enumerate()
        .map(|(i, (t, d, stride, last, size))| {
            // Zeros add nothing.
            let size = if size == 0.0 && variant.axis("out") == Some("add") { 1.0 } else { size };
            let center = u32::from(i >= 6);
            let kb = d.div_ceil(32);
            let out = if last == 1 { 1 } else { t };
            let overrides = [("D", d), ("KB", kb), ("STRIDE", stride), ("LAST", last), ("CENTER", center)];
            let scaled = (variant.axis("out") == Some("add") && i % 2 == 1).then_some(("SCALED", 1.0));
            let mut h = random.f32s((t * stride) as usize, size);
            if center == 1 {
                h.iter_mut().for_each(|h| *h += size);
            }
            Case {
                name: format!(
                    "T={t} D={d}{}{}{}",
                    if center == 1 { " LayerNorm" } else { "" },
                    if last == 1 { " last" } else { "" },
                    if size == 0.0 { " zeros" } else { "" }
                ),
                overrides: overrides
                    .into_iter()
                    .map(|(name, value)| (name, f64::from(value)))
                    .chain([("EPS", 1e-5)])
                    .chain(scaled)
                    .collect(),
                grid: [out, 1, 1],
                buffers: [
                    ("state", State { rows: t, ..State::default() }.words()),
                    ("h", words(&h)),
                    ("nw", words(&random.f32s(d as usize + 4, 2.0))),
                    ("nb", if center == 1 { words(&random.f32s(d as usize, 1.0)) } else { untouched(4) }),
                ]
                .into_iter()
                .chain(out_buffers(variant, (out * kb) as usize))
                .collect(),
                outputs: out_compare(variant),
            }
        })
        .collect()
}

pub fn qk(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (T, spans of queries, their width, spans of keys, their width, where the keys' weights are)
    let shapes: [(u32, u32, u32, u32, u32, u32); 5] = [
        (1, 4, 64, 2, 64, 256),
        (3, 2, 80, 1, 80, 256),
        (2, 3, 256, 3, 256, 256),
        (5, 1, 384, 1, 96, 384),
        (2, 1, 100, 1, 100, 100),
    ];
    let cases = shapes.into_iter().map(|(t, q, q_width, k, k_width, at)| {
        let stride = q * q_width + 2 * k * k_width + 4;
        let overrides =
            [("QSPANS", q), ("QWIDTH", q_width), ("KSPANS", k), ("KWIDTH", k_width), ("KAT", at), ("QSTRIDE", stride)];
        Case {
            name: format!("T={t} {q} spans of {q_width}, {k} of {k_width}"),
            overrides: overrides
                .into_iter()
                .map(|(name, value)| (name, f64::from(value)))
                .chain([("EPS", 1e-6)])
                .collect(),
            grid: [q + k, t, 1],
            buffers: vec![
                ("state", State { rows: t, ..State::default() }.words()),
                ("qkv", words(&random.f32s((t * stride) as usize, 3.0))),
                ("nw", words(&random.f32s((at + k_width) as usize, 2.0))),
            ],
            outputs: vec![("qkv", F32)],
        }
    });
    cases.collect()
}

pub fn gated(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (T, groups, elements of a group, weights of its own, the gate first); the last is not normed
    let shapes: [(u32, u32, u32, u32, u32); 6] =
        [(1, 4, 128, 0, 0), (3, 2, 32, 0, 0), (2, 1, 768, 1, 1), (5, 3, 96, 1, 1), (1, 2, 320, 1, 0), (3, 4, 64, 0, 0)];
    let case = |(i, (t, groups, group, own, first)): (usize, (u32, u32, u32, u32, u32))| {
        let factors = if i == 5 {
            [("NORMED", 0.0), ("INNER", 0.7), ("OUTER", 1.3)]
        } else {
            [("NORMED", 1.0), ("INNER", 1.0), ("OUTER", 1.0)]
        };
        let width = groups * group;
        let stride = width + 20;
        let overrides =
            [("WIDTH", width), ("GROUP", group), ("STRIDE", stride), ("Z_AT", 8), ("OWN", own), ("FIRST", first)];
        let buffers = [
            ("state", State { rows: t, ..State::default() }.words()),
            ("x", words(&random.f32s((t * width) as usize, 3.0))),
            ("z", words(&random.f32s((t * stride) as usize, 3.0))),
            ("nw", words(&random.f32s(if own == 1 { width } else { group } as usize, 2.0))),
        ];
        Case {
            name: format!(
                "T={t} {groups} groups of {group}{}{}",
                if own == 1 { " with weights" } else { "" },
                if first == 1 { ", gate first" } else { "" }
            ),
            overrides: overrides
                .into_iter()
                .map(|(name, value)| (name, f64::from(value)))
                .chain([("EPS", 1e-6)])
                .chain(factors)
                .collect(),
            grid: [groups, t, 1],
            buffers: buffers.into_iter().chain(out_buffers(variant, (t * width / 32) as usize)).collect(),
            outputs: out_compare(variant),
        }
    };
    shapes.into_iter().enumerate().map(case).collect()
}

/// The outputs of a kernel with an `out` axis, for this many blocks of 32 and some room behind them.
pub fn out_buffers(variant: &Variant, blocks: usize) -> Vec<(&'static str, Vec<u32>)> {
    match variant.axis("out") {
        Some("f32") => return vec![("y", untouched(blocks * 32 + 32))],
        Some("add") => return vec![("y", words(&Random::new("residual").f32s(blocks * 32 + 32, 3.0)))],
        Some("f16") => return vec![("y", untouched(blocks * 16 + 16))],
        _ => {}
    }
    vec![("yq", untouched(blocks * 8 + 8)), ("ys", untouched(blocks * 2 + 2))]
}

/// How to compare them.
pub fn out_compare(variant: &Variant) -> Vec<(&'static str, Compare)> {
    match variant.axis("out") {
        Some("f32" | "add") => vec![("y", F32)],
        Some("f16") => vec![("y", Compare::Halves(1e-3))],
        _ => vec![("yq", Compare::Int8), ("ys", Compare::Scales)],
    }
}
