use half::f16;

use super::compare::F32;
use super::norm::{out_buffers, out_compare};
use super::random::{Random, UNTOUCHED, untouched, words};
use super::{Case, Compare};
use crate::kernels::splits::{keys_a_split, most_splits};
use crate::kernels::{State, Variant};
use crate::plan::width_axis;

/// A NaN in f32 and in both halves: what a kernel must not read.
const POISON: u32 = 0x7fff_7fff;
/// A cache of halves: rounded to the nearest or towards zero.
const HALVES: Compare = Compare::Halves(1e-3);

fn overrides(values: &[(&'static str, usize)], scale: Option<f64>) -> Vec<(&'static str, f64)> {
    let scale = scale.map(|s| ("SCALE", s));
    values.iter().map(|(name, value)| (*name, *value as f64)).chain(scale).collect()
}

pub fn rope(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (H, G, E, ROT, interleaved, T, pos, CAP)
    let shapes = [
        (2, 1, 32, 32, 0, 1, 0, 4),
        (4, 2, 64, 64, 1, 3, 5, 64),
        (3, 3, 80, 32, 0, 7, 60, 67),
        (8, 1, 96, 40, 1, 2, 1, 16),
        (2, 2, 128, 128, 0, 5, 0, 5),
        (1, 1, 256, 0, 0, 2, 3, 9),
        (1, 1, 256, 256, 1, 1, 8, 9),
        (3, 2, 100, 100, 0, 2, 3, 9),
    ];
    let cases = shapes.into_iter().map(|(h, g, e, rot, interleaved, t, pos, cap)| {
        let stride = (h + 2 * g) * e + 4;
        let angles = (0..cap * rot / 2).map(|_| random.f32() * 100.0).flat_map(|a| [a.cos(), a.sin()]).collect::<Vec<_>>();
        let cache = g * cap * usize::next_multiple_of(e, 8) / if variant.axis("kv") == Some("f16") { 2 } else { 1 };
        Case {
            name: format!("H={h} G={g} E={e} ROT={rot}{} T={t} pos={pos}", if interleaved == 1 { " interleaved" } else { "" }),
            overrides: overrides(&[("H", h), ("G", g), ("E", e), ("ROT", rot), ("INTERLEAVED", interleaved), ("QSTRIDE", stride), ("CAP", cap)], None),
            grid: [t as u32, (h + 2 * g) as u32, 1],
            buffers: vec![
                ("state", State { pos: pos as u32, rows: t as u32, ..State::default() }.words()),
                ("qkv", words(&random.f32s(t * stride, 3.0))),
                // No rotated dimensions, no table: a buffer must not be empty all the same.
                ("rot", if rot == 0 { vec![POISON; 4] } else { words(&angles) }),
                ("kc", untouched(cache + 2)),
                ("vc", untouched(cache + 2)),
            ],
            outputs: if variant.axis("kv") == Some("f16") {
                vec![("qkv", F32), ("kc", HALVES), ("vc", HALVES)]
            } else {
                vec![("qkv", F32), ("kc", F32), ("vc", Compare::Exact)]
            },
        }
    });
    cases.collect()
}

/// A cache [G][CAP][EP] that is `rest` from position `used` on; zeros beyond E in rows that are used, as in a new buffer.
fn cache(variant: &Variant, random: &mut Random, (g, cap, e): (usize, usize, usize), used: usize, rest: u32) -> Vec<u32> {
    let per_word = if variant.axis("kv") == Some("f16") { 2 } else { 1 };
    let stride = e.next_multiple_of(8);
    let mut make = |i: usize| {
        if i * per_word / stride % cap >= used {
            return rest;
        }
        if i * per_word % stride >= e {
            return 0;
        }
        if per_word == 1 { random.f32().to_bits() } else { (0..2).fold(0, |w, k| w | u32::from(f16::from_f32(random.f32()).to_bits()) << (16 * k)) }
    };
    (0..g * cap * stride / per_word).map(&mut make).collect()
}

/// Workgroups a split: one for each four heads that share keys.
fn groups(h: usize, g: usize) -> u32 {
    (g * usize::div_ceil(h / g, 4)) as u32
}

pub fn decode(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (H, G, E, CAP, pos, size of the queries: large ones make a peaked softmax)
    let shapes = [
        // ROT is E, but of the second shape half of it, and of the third none.
        (1, 1, 32, 64, 0, 1.0),
        (4, 2, 64, 256, 62, 1.0),
        (4, 2, 64, 256, 63, 4.0),
        (4, 1, 80, 192, 64, 2.0),
        (8, 1, 128, 512, 300, 2.0),
        (6, 1, 96, 130, 129, 1.0),
        (16, 2, 64, 70, 69, 20.0),
        (2, 1, 256, 160, 140, 1.0),
        (7, 7, 32, 230, 229, 1.0),
        (12, 1, 16, 64, 33, 1.0),
        (3, 1, 8, 64, 40, 5.0),
        (5, 1, 100, 90, 77, 1.0),
        (3, 3, 12, 70, 65, 2.0),
        (6, 2, 200, 80, 71, 2.0),
        (32, 8, 64, 1300, 1200, 2.0),
        (4, 1, 128, 1100, 1090, 1.0),
        (3, 1, 160, 200, 190, 1.0),
        // Many groups: larger splits.
        (40, 40, 16, 900, 890, 2.0),
        (40, 40, 72, 300, 290, 2.0),
        (40, 40, 136, 160, 150, 2.0),
    ];
    let class = variant.axis("width");
    let least = variant.tile[0];
    let one = |s: &(usize, usize, usize, usize, usize, f32)| keys_a_split(s.3 as u32, groups(s.0, s.1), least) == least;
    let shapes = shapes.into_iter().filter(|s| class == Some(width_axis(s.2)) && (variant.axis("tiles") == Some("many") || one(s)));
    let halves = variant.axis("kv") == Some("f16");
    let stored = if halves { HALVES } else { F32 };
    // A key or value of halves may be rounded to the nearest or towards zero.
    let close = if halves { Compare::F32(2e-3) } else { F32 };
    let cases = shapes.enumerate().map(|(i, (h, g, e, cap, pos, size))| {
        let rot = [e, e / 2, 0][if i < 3 { i } else { 0 }];
        let angles = (0..cap * rot / 2).map(|_| random.f32() * 100.0).flat_map(|a| [a.cos(), a.sin()]).collect::<Vec<_>>();
        let groups = groups(h, g);
        let splits = most_splits(cap as u32, groups, least) as usize;
        Case {
            name: format!("H={h} G={g} E={e} CAP={cap} pos={pos}"),
            overrides: overrides(
                &[("H", h), ("G", g), ("E", e), ("CAP", cap), ("LEAST", least as usize), ("ROT", rot), ("INTERLEAVED", i % 2)],
                Some(1.0 / (e as f64).sqrt()),
            ),
            grid: [groups, splits as u32, 1],
            buffers: vec![
                ("state", State { pos: pos as u32, rows: 1, ..State::default() }.words()),
                ("qkv", words(&random.f32s((h + 2 * g) * e, size))),
                ("rot", if rot == 0 { vec![POISON; 4] } else { words(&angles) }),
                ("kc", cache(variant, random, (g, cap, e), pos, UNTOUCHED)),
                ("vc", cache(variant, random, (g, cap, e), pos, UNTOUCHED)),
                ("po", untouched(splits * h * e)),
                ("ml", untouched(splits * h * 2)),
            ],
            outputs: vec![("po", close), ("ml", close), ("kc", stored), ("vc", stored)],
        }
    });
    cases.collect()
}

pub fn merge(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (H, E, workgroups a split, smallest split, pos, room for splits)
    let shapes = [
        (1, 32, 1, 64, 0, 1),
        (4, 64, 1, 64, 63, 4),
        (4, 64, 1, 64, 64, 4),
        (3, 80, 3, 32, 450, 20),
        (32, 64, 8, 64, 1500, 20),
        (5, 12, 2, 64, 130, 4),
        (2, 256, 1, 128, 127, 1),
        (2, 64, 1, 32, 4000, 130),
    ];
    let cases = shapes.into_iter().map(|(h, e, groups, least, pos, room)| {
        let keys = pos as u32 + 1;
        let splits = keys.div_ceil(keys_a_split(keys, groups as u32, least as u32)) as usize;
        let kb = usize::div_ceil(h * e, 32);
        let mut po = random.f32s(splits * h * e, 10.0);
        po.resize(room * h * e, f32::from_bits(POISON));
        let mut ml: Vec<f32> = (0..splits * h).flat_map(|_| [random.f32() * 5.0, random.f32().abs() * 20.0 + 1.0]).collect();
        ml.resize(room * h * 2, f32::from_bits(POISON));
        Case {
            name: format!("H={h} E={e} GROUPS={groups} pos={pos}"),
            overrides: overrides(&[("H", h), ("E", e), ("GROUPS", groups), ("LEAST", least), ("KB", kb)], None),
            grid: [kb as u32, 1, 1],
            buffers: [("state", State { pos: pos as u32, rows: 1, ..State::default() }.words()), ("po", words(&po)), ("ml", words(&ml))]
                .into_iter()
                .chain(out_buffers(variant, kb))
                .collect(),
            outputs: out_compare(variant),
        }
    });
    cases.collect()
}

pub fn prefill(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (H, G, E, CAP, pos, T, size of the queries)
    let shapes = [
        (1, 1, 32, 64, 0, 1, 1.0),
        (4, 2, 64, 128, 0, 37, 2.0),
        (3, 1, 80, 256, 100, 17, 1.0),
        (3, 1, 96, 64, 0, 64, 20.0),
        (8, 2, 128, 96, 33, 16, 1.0),
        (2, 2, 256, 80, 5, 33, 1.0),
        (5, 1, 12, 200, 160, 40, 1.0),
        (2, 1, 100, 64, 20, 20, 1.0),
        (2, 1, 64, 200, 65, 95, 30.0),
        (3, 3, 200, 70, 1, 40, 1.0),
        (2, 1, 128, 160, 31, 129, 3.0),
    ];
    let class = variant.axis("width");
    let cases = shapes.into_iter().filter(|s| class == Some(width_axis(s.2))).map(|(h, g, e, cap, pos, t, size)| {
        let kb = usize::div_ceil(h * e, 32);
        let stride = (h + 2 * g) * e + 8;
        Case {
            name: format!("H={h} G={g} E={e} CAP={cap} pos={pos} T={t}"),
            overrides: overrides(&[("H", h), ("G", g), ("E", e), ("CAP", cap), ("QSTRIDE", stride), ("KB", kb)], Some(1.0 / (e as f64).sqrt())),
            grid: [h as u32, (t as u32).div_ceil(variant.tile[1]), 1],
            buffers: vec![
                ("state", State { pos: pos as u32, rows: t as u32, ..State::default() }.words()),
                ("qkv", words(&random.f32s(t * stride, size))),
                ("kc", cache(variant, random, (g, cap, e), pos + t, POISON)),
                ("vc", cache(variant, random, (g, cap, e), pos + t, POISON)),
                ("y", untouched((t + 1) * kb * 32)),
            ],
            outputs: vec![("y", F32)],
        }
    });
    cases.collect()
}
