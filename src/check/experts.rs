use super::compare::F32;
use super::norm::{out_buffers, out_compare};
use super::product::fitting;
use super::random::{Random, activations, untouched, words};
use super::{Case, Compare};
use crate::kernels::{State, Variant};

pub fn route(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (T, experts, used, weights sum to 1, alike)
    let shapes: [(u32, u32, u32, u32, bool); 6] =
        [(1, 8, 2, 1, false), (5, 40, 8, 0, false), (3, 128, 8, 1, false), (2, 256, 256, 0, true), (4, 32, 4, 1, false), (2, 500, 10, 0, false)];
    let cases = shapes.into_iter().enumerate().map(|(i, (t, experts, used, normed, alike))| {
        let sigmoid = i >= 4;
        let stride = experts + 3;
        let mut logits = random.f32s((t * stride) as usize, 4.0);
        if alike {
            // Of equals the first.
            logits.iter_mut().for_each(|l| *l = l.round());
        }
        let overrides = [("EXPERTS", experts), ("USED", used), ("STRIDE", stride), ("NORMED", normed)];
        Case {
            name: format!("T={t} {used} of {experts}{}{}", if normed == 1 { " normed" } else { "" }, if sigmoid { " by sigmoids" } else { "" }),
            overrides: overrides
                .into_iter()
                .map(|(name, value)| (name, f64::from(value)))
                .chain(sigmoid.then_some([("SIGMOID", 1.0), ("ADDED", 0.25), ("FACTOR", 2.5)]).into_iter().flatten())
                .collect(),
            grid: [t, 1, 1],
            buffers: vec![
                ("state", State { rows: t, ..State::default() }.words()),
                ("logits", words(&logits)),
                ("bias", words(&random.f32s(experts as usize, 0.5))),
                ("chosen", untouched((t * used * 2 + 4) as usize)),
            ],
            outputs: vec![("chosen", Compare::Chosen)],
        }
    });
    cases.collect()
}

/// What rows have chosen of `experts` experts: (expert, bits of its weight).
fn chosen(random: &mut Random, slots: u32, experts: u32) -> Vec<u32> {
    (0..slots).flat_map(|_| [random.below(experts), random.f32().abs().to_bits()]).collect()
}

/// (T, experts, first of this part, of this part, used, D, F)
const SHAPES: [[u32; 7]; 2] = [[3, 8, 2, 5, 3, 96, 64], [2, 4, 0, 4, 4, 288, 40]];

pub fn gated(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    let cases = SHAPES.into_iter().enumerate().map(|(i, [t, experts, first, count, used, d, f])| {
        let k = fitting(variant, d);
        let kb = k.div_ceil(32);
        // The second with squared ReLU, without gates.
        let gated = u32::from(i == 0);
        let mut buffers = random.weights(variant.axis("weight").unwrap_or_default(), (count * (1 + gated) * f * kb) as usize, false);
        buffers.extend(activations(variant.axis("act").unwrap_or_default(), &random.padded(t as usize, k as usize, kb as usize * 32)));
        buffers.extend([("state", State { rows: t, ..State::default() }.words()), ("chosen", chosen(random, t * used, experts))]);
        buffers.extend(out_buffers(variant, (t * used * f.div_ceil(32)) as usize));
        let overrides = [("KB", kb), ("F", f), ("USED", used), ("FIRST", first), ("COUNT", count), ("GATED", gated), ("ACT", 2 * (1 - gated))];
        Case {
            name: format!("T={t} {used} of {first}..{} of {experts} D={k} F={f}", first + count),
            overrides: overrides.map(|(name, value)| (name, f64::from(value))).to_vec(),
            grid: [f.div_ceil(32), t * used, 1],
            buffers,
            outputs: out_compare(variant),
        }
    });
    cases.collect()
}

pub fn down(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    let cases = SHAPES.into_iter().enumerate().map(|(i, [t, experts, first, count, used, n, k])| {
        let k = fitting(variant, k);
        let kb = k.div_ceil(32);
        let split = [4, 1][i];
        let stride = n + 5;
        let mut buffers = random.weights(variant.axis("weight").unwrap_or_default(), (count * n * kb) as usize, false);
        buffers.extend(activations(variant.axis("act").unwrap_or_default(), &random.padded((t * used) as usize, k as usize, kb as usize * 32)));
        let y = words(&random.f32s((t * stride) as usize, 1.0));
        buffers.extend([("state", State { rows: t, ..State::default() }.words()), ("chosen", chosen(random, t * used, experts)), ("y", y)]);
        let overrides = [("KB", kb), ("N", n), ("USED", used), ("FIRST", first), ("COUNT", count), ("SPLIT", split), ("NSTRIDE", stride)];
        Case {
            name: format!("T={t} {used} of {first}..{} of {experts} N={n} K={k}", first + count),
            overrides: overrides.map(|(name, value)| (name, f64::from(value))).to_vec(),
            grid: [n.div_ceil(variant.tile[0] / split), t, 1],
            buffers,
            outputs: vec![("y", F32)],
        }
    });
    cases.collect()
}
