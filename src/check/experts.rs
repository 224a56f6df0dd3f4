use super::compare::F32;
use super::inputs::{Random, activations, untouched, words};
use super::norm::{out_buffers, out_compare};
use super::product::fitting;
use super::{Case, Compare};
use crate::kernels::{State, Variant};

pub fn route(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (T, experts, used, weights sum to 1, alike)
    let shapes: [(u32, u32, u32, u32, bool); 6] = [
        (1, 8, 2, 1, false),
        (5, 40, 8, 0, false),
        (3, 128, 8, 1, false),
        (2, 256, 256, 0, true),
        (4, 32, 4, 1, false),
        (2, 500, 10, 0, false),
    ];
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
            name: format!(
                "T={t} {used} of {experts}{}{}",
                if normed == 1 { " normed" } else { "" },
                if sigmoid { " by sigmoids" } else { "" }
            ),
            overrides: overrides
                .into_iter()
                .map(|(name, value)| (name, f64::from(value)))
                .chain(sigmoid.then_some([("SIGMOID", 1.0), ("ADDED", 0.25), ("FACTOR", 2.5)]).into_iter().flatten())
                .chain((i == 2).then_some(("SCALED", 1.0)))
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
const SHAPES: [[u32; 7]; 4] =
    [[3, 8, 2, 5, 3, 96, 64], [2, 4, 0, 4, 4, 288, 40], [2, 6, 1, 4, 3, 64, 40], [1, 4, 0, 4, 4, 96, 64]];

pub fn gated(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    let cases = SHAPES.into_iter().enumerate().map(|(i, [t, experts, first, count, used, d, f])| {
        let k = fitting(variant, d);
        let kb = k.div_ceil(32);
        // The second with squared ReLU, without gates; the last two with biases, and of the last gates and up rows are
        // neighbours.
        let gated = u32::from(i != 1);
        let act = [0, 2, 3, 3][i];
        let (biased, interleaved) = (u32::from(i > 1), u32::from(i > 2));
        let mut buffers =
            random.weights(variant.axis("weight").unwrap_or_default(), (count * (1 + gated) * f * kb) as usize, false);
        buffers.extend(activations(
            variant.axis("act").unwrap_or_default(),
            &random.padded(t as usize, k as usize, kb as usize * 32),
        ));
        buffers.extend([
            ("state", State { rows: t, ..State::default() }.words()),
            ("chosen", chosen(random, t * used, experts)),
        ]);
        buffers.extend(out_buffers(variant, (t * used * f.div_ceil(32)) as usize));
        let overrides =
            [("KB", kb), ("F", f), ("USED", used), ("FIRST", first), ("COUNT", count), ("GATED", gated), ("ACT", act)];
        let biases = [("BIAS", biased), ("INTERLEAVED", interleaved), ("UP_AT", experts * f)];
        buffers.push(("bias", words(&Random::new("bias").f32s((experts * 2 * f) as usize, 2.0))));
        Case {
            name: format!("T={t} {used} of {first}..{} of {experts} D={k} F={f}", first + count),
            overrides: overrides.into_iter().chain(biases).map(|(name, value)| (name, f64::from(value))).collect(),
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
        let split = [4, 1, 2, 1][i];
        let stride = n + 5;
        let mut buffers = random.weights(variant.axis("weight").unwrap_or_default(), (count * n * kb) as usize, false);
        buffers.extend(activations(
            variant.axis("act").unwrap_or_default(),
            &random.padded((t * used) as usize, k as usize, kb as usize * 32),
        ));
        let y = words(&random.f32s((t * stride) as usize, 1.0));
        buffers.extend([
            ("state", State { rows: t, ..State::default() }.words()),
            ("chosen", chosen(random, t * used, experts)),
            ("y", y),
        ]);
        let overrides = [
            ("KB", kb),
            ("N", n),
            ("USED", used),
            ("FIRST", first),
            ("COUNT", count),
            ("SPLIT", split),
            ("NSTRIDE", stride),
            ("ADD", i as u32 % 2),
            ("BIAS", i as u32 / 2),
        ];
        buffers.push(("bias", words(&Random::new("bias").f32s((experts * n) as usize, 2.0))));
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

/// The tiles of `tile` that there can be.
fn most_tiles(slots: u32, tile: u32, experts: u32) -> u32 {
    slots / tile + experts.min(slots)
}

pub fn group(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (T, experts, used, tile)
    let shapes: [[u32; 4]; 5] = [[1, 8, 2, 16], [70, 2, 2, 64], [33, 500, 10, 16], [512, 4, 1, 32], [300, 128, 8, 32]];
    let cases = shapes.into_iter().map(|[t, experts, used, tile]| {
        let tiles = most_tiles(t * used, tile, experts);
        Case {
            name: format!("T={t} {used} of {experts} in tiles of {tile}"),
            overrides: [("EXPERTS", experts), ("USED", used), ("TILE", tile)]
                .map(|(name, value)| (name, f64::from(value)))
                .to_vec(),
            grid: [experts, 1, 1],
            buffers: vec![
                ("state", State { rows: t, ..State::default() }.words()),
                ("chosen", chosen(random, t * used, experts)),
                ("order", untouched((t * used + 4) as usize)),
                // Larger than it need be: what no tile is in is cleared.
                ("tiles", untouched((tiles * 4 + 8) as usize)),
            ],
            outputs: vec![("order", Compare::Exact), ("tiles", Compare::Exact)],
        }
    });
    cases.collect()
}

pub fn matmul(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (T, experts, first of this part, of this part, used, K, N, of slots, biased: 1 in order, 2 gates first, 3
    // interleaved)
    let shapes: [[u32; 9]; 4] = [
        [5, 8, 2, 5, 3, 96, 70, 0, 0],
        [40, 3, 0, 3, 2, 288, 36, 0, 2],
        [70, 1, 0, 1, 1, 64, 140, 1, 1],
        [9, 4, 1, 3, 4, 32, 66, 0, 3],
    ];
    let cases = shapes.into_iter().map(|[t, experts, first, count, used, k, n, of_slots, biased]| {
        let k = fitting(variant, k);
        let kb = k.div_ceil(32);
        let (slots, tile) = (t * used, variant.tile[1]);
        let stride = n + 5;
        let chosen: Vec<u32> = (0..slots).map(|_| random.below(experts)).collect();
        let (mut order, mut tiles) = (Vec::new(), Vec::new());
        for e in 0..experts {
            let own: Vec<u32> = (0..slots).filter(|slot| chosen[*slot as usize] == e).collect();
            for some in own.chunks(tile as usize) {
                tiles.extend([e, order.len() as u32, some.len() as u32, 0]);
                order.extend(some);
            }
        }
        let most = most_tiles(slots, tile, experts);
        tiles.resize(most as usize * 4, 0);
        let mut buffers = random.weights(variant.axis("weight").unwrap_or_default(), (count * n * kb) as usize, false);
        let rows = if of_slots == 1 { slots } else { t };
        buffers.extend(activations(
            variant.axis("act").unwrap_or_default(),
            &random.padded(rows as usize, k as usize, kb as usize * 32),
        ));
        buffers.extend([("state", State { rows: t, ..State::default() }.words()), ("order", order), ("tiles", tiles)]);
        buffers.extend([
            ("bias", words(&Random::new("bias").f32s((experts * n) as usize, 2.0))),
            ("y", untouched((slots * stride) as usize)),
        ]);
        let overrides = [
            ("KB", kb),
            ("N", n),
            ("NSTRIDE", stride),
            ("USED", used),
            ("FIRST", first),
            ("COUNT", count),
            ("OF_SLOTS", of_slots),
            ("BIAS", biased.min(1)),
            ("INTERLEAVED", u32::from(biased == 3)),
            ("SPAN_AT", if biased == 2 { n / 2 } else { 0 }),
            ("UP_AT", experts * (n / 2)),
        ];
        Case {
            name: format!("T={t} {used} of {first}..{} of {experts} K={k} N={n}", first + count),
            overrides: overrides.map(|(name, value)| (name, f64::from(value))).to_vec(),
            grid: [n.div_ceil(variant.tile[0]), most, 1],
            buffers,
            outputs: vec![("y", F32)],
        }
    });
    cases.collect()
}

pub fn sum(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (T, used, N, added to)
    let shapes: [[u32; 4]; 3] = [[3, 2, 70, 1], [1, 8, 300, 0], [2, 10, 256, 1]];
    let cases = shapes.into_iter().map(|[t, used, n, add]| {
        let stride = n + 6;
        Case {
            name: format!("T={t} {used} N={n}{}", if add == 1 { " add" } else { "" }),
            overrides: [("N", n), ("USED", used), ("NSTRIDE", stride), ("ADD", add)]
                .map(|(name, value)| (name, f64::from(value)))
                .to_vec(),
            grid: [n.div_ceil(256), t, 1],
            buffers: vec![
                ("state", State { rows: t, ..State::default() }.words()),
                ("chosen", chosen(random, t * used, 4)),
                ("made", words(&random.f32s((t * used * stride) as usize, 1.0))),
                (
                    "y",
                    if add == 1 {
                        words(&random.f32s((t * stride) as usize, 1.0))
                    } else {
                        untouched((t * stride) as usize)
                    },
                ),
            ],
            outputs: vec![("y", F32)],
        }
    });
    cases.collect()
}
