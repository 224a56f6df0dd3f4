use std::ops::Range;

use super::compare::F32;
use super::inputs::{Random, UNTOUCHED, untouched, words};
use super::norm::{out_buffers, out_compare};
use super::{Case, Compare};
use crate::base::numbers::HEAD_ROOM;
use crate::kernels::splits::Rule;
use crate::kernels::{State, Variant};
use crate::plan::width_axis;

/// A NaN in f32 and in both halves: what a kernel must not read.
pub(super) const POISON: u32 = 0x7fff_7fff;
/// A cache of halves: rounded to the nearest or towards zero.
const HALVES: Compare = Compare::Halves(1e-3);

fn overrides(values: &[(&'static str, usize)], scale: Option<f64>) -> Vec<(&'static str, f64)> {
    let scale = scale.map(|s| ("SCALE", s));
    values.iter().map(|(name, value)| (*name, *value as f64)).chain(scale).collect()
}

/// (Sequences in the cache buffers of case `i`, the slot that the case works in).
const fn slots(i: usize) -> (usize, usize) {
    if i % 3 == 1 { (3, 1) } else { (1, 0) }
}

/// What comes after the rotation: weights of norms, and queries that grow.
fn after(late: bool, grows: bool) -> Vec<(&'static str, f64)> {
    let late = late.then_some(("LATE", 1.0));
    late.into_iter().chain(grows.then_some([("GROWTH", 0.1), ("GROWS_AT", 7.0)]).into_iter().flatten()).collect()
}

/// A state as words; `apart`: of as many sequences, the first row at the last position, all in the same slot, or with
/// `own_slots` each in its own; the second has ended.
fn state_of(apart: bool, own_slots: bool, state: State) -> Vec<u32> {
    if !apart {
        return state.words();
    }
    let mut of_rows = State { apart: 1, pos: 9999, slot: 9999, ..state };
    for (t, each) in of_rows.each.iter_mut().enumerate().take(state.rows as usize) {
        let slot = if own_slots { t as u32 } else { state.slot };
        *each = [state.pos + state.rows - 1 - t as u32, slot, u32::from(t != 1), state.lag];
    }
    of_rows.words()
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
        // Slots begin again.
        (2, 1, 64, 64, 0, 5, 30, 33),
        (1, 2, 40, 20, 1, 3, 201, 64),
        (3, 1, 512, 512, 0, 2, 5, 16),
        (2, 1, 320, 160, 0, 2, 3, 8),
        // Positions that have three axes, which pairs take in turn, or one after the other.
        (2, 1, 64, 44, 0, 3, 9, 16),
        (3, 1, 40, 40, 0, 3, 9, 16),
        // In halves.
        (2, 2, 12, 12, 0, 3, 9, 16),
        (1, 1, 72, 64, 0, 3, 9, 16),
        // One after the other, of pairs that are neighbours.
        (2, 1, 40, 40, 1, 3, 9, 16),
    ];
    let cases = shapes.into_iter().enumerate().map(|(i, (h, g, e, rot, interleaved, t, pos, cap))| {
        let (slots, slot) = slots(i);
        let stride = (h + 2 * g) * e + 4;
        let (late, grows) = (i % 4 == 1, i % 4 > 1);
        // Norms of queries and keys, and of values.
        let (normed, values) = (i % 2 == 1 || i == 10, i % 4 == 3 || i == 10);
        let angles =
            (0..(pos + t) * rot / 2).map(|_| random.f32() * 100.0).flat_map(|a| [a.cos(), a.sin()]).collect::<Vec<_>>();
        let rows = slots * g * cap;
        let axes = match i {
            12 => Some(1.0),
            13 | 16 => Some(2.0),
            14 | 15 => Some(3.0),
            _ => None,
        };
        let spans = if axes.is_some() {
            (0..t).flat_map(|t| [9, 9 + t as u32 % 2, 11 - t as u32, 0]).collect()
        } else {
            texts(pos, t)
        };
        let lag = if i % 5 == 1 { 0 } else { pos as u32 / 3 };
        Case {
            name: format!(
                "H={h} G={g} E={e} ROT={rot}{} T={t} pos={pos}",
                if interleaved == 1 { " interleaved" } else { "" }
            ),
            overrides: overrides(
                &[
                    ("H", h),
                    ("G", g),
                    ("E", e),
                    ("ROT", rot),
                    ("INTERLEAVED", interleaved),
                    ("QSTRIDE", stride),
                    ("SLOTS", slots),
                ],
                None,
            )
            .into_iter()
            .chain(after(late, grows))
            .chain([("QK_NORM", f64::from(u8::from(normed))), ("V_NORM", f64::from(u8::from(values))), ("EPS", 1e-6)])
            .chain((i % 5 == 1 && axes.is_none()).then_some(("SPANS", 1.0)))
            .chain((i % 5 == 4).then_some(("APART", 1.0)))
            .chain(axes.into_iter().flat_map(|order| [("AXES", order), ("ROW_PAIRS", 7.0), ("COLUMN_PAIRS", 6.0)]))
            .collect(),
            grid: [t as u32, (h + 2 * g) as u32, 1],
            buffers: vec![
                (
                    "state",
                    state_of(
                        i % 5 == 4,
                        false,
                        State { pos: pos as u32, rows: t as u32, slot: slot as u32, lag, ..State::default() },
                    ),
                ),
                ("spans", spans),
                ("qkv", words(&random.f32s(t * stride, 3.0))),
                // No rotated dimensions, no table: a buffer must not be empty all the same.
                ("rot", if rot == 0 { vec![POISON; 4] } else { words(&angles) }),
                ("nw", norm_weights(normed)),
            ]
            .into_iter()
            .chain(cache_buffers(variant, e, |words, _| untouched(rows * words)))
            .collect(),
            outputs: [("qkv", F32)].into_iter().chain(cache_compare(variant)).collect(),
        }
    });
    cases.collect()
}

/// Where the texts begin and end that `t` rows from `pos` on are of: the first began before them.
fn texts(pos: usize, t: usize) -> Vec<u32> {
    let mut bounds = vec![pos - pos.min(5)];
    bounds.extend([3, 4, 20, 57].map(|rows| pos + rows).into_iter().filter(|end| *end < pos + t));
    bounds.push(pos + t);
    let text =
        |at: usize| bounds.windows(2).find(|text| at < text[1]).map_or([0, 0], |text| [text[0] as u32, text[1] as u32]);
    (pos..pos + t).flat_map(text).collect()
}

/// Where the picture begins and ends that each row is of: one of 11 rows, and one of 25 with a row between them, as far
/// as there are rows; 0 outside of them.
fn pictures(pos: usize, t: usize) -> Vec<u32> {
    let all = [(3, 14), (15, 40)].map(|(first, end): (usize, usize)| (first, end.min(t)));
    let of = |row: usize| {
        all.iter()
            .find(|(first, end)| (*first..*end).contains(&row))
            .map_or([0, 0], |(first, end)| [pos + first, pos + end])
    };
    (0..t).flat_map(of).map(|at| at as u32).collect()
}

/// Weights of norms of queries and keys; poison where nothing is normed.
fn norm_weights(normed: bool) -> Vec<u32> {
    let room = 2 * HEAD_ROOM as usize;
    if normed { words(&Random::new("norm").f32s(room, 2.0)) } else { vec![POISON; room] }
}

/// The buffers of the cache of heads of `e`: (words of a row, whether they are scales) -> words.
fn cache_buffers(
    variant: &Variant,
    e: usize,
    mut make: impl FnMut(usize, bool) -> Vec<u32>,
) -> Vec<(&'static str, Vec<u32>)> {
    let blocks = e.div_ceil(32);
    match variant.axis("kv") {
        Some("q8") => vec![
            ("kc", make(blocks * 8, false)),
            ("vc", make(blocks * 8, false)),
            ("ks", make(blocks, true)),
            ("vs", make(blocks, true)),
        ],
        Some("f16") => vec![("kc", make(e.div_ceil(8) * 4, false)), ("vc", make(e.div_ceil(8) * 4, false))],
        _ => vec![("kc", make(e.div_ceil(8) * 8, false)), ("vc", make(e.div_ceil(8) * 8, false))],
    }
}

fn cache_compare(variant: &Variant) -> Vec<(&'static str, Compare)> {
    match variant.axis("kv") {
        Some("q8") => vec![("kc", Compare::Int8), ("vc", Compare::Int8), ("ks", F32), ("vs", F32)],
        Some("f16") => vec![("kc", HALVES), ("vc", HALVES)],
        _ => vec![("kc", F32), ("vc", F32)],
    }
}

/// A cache [SLOTS][G][CAP][EP] of so many slots, that holds the positions `live` of the sequences in the slots `own`, and
/// `rest` elsewhere; zeros beyond E, as in a new buffer.
fn cache(
    variant: &Variant,
    random: &mut Random,
    (slots, own): (usize, Range<usize>),
    (g, cap, e): (usize, usize, usize),
    live: Range<usize>,
    rest: u32,
) -> Vec<(&'static str, Vec<u32>)> {
    let kv = variant.axis("kv").unwrap_or("f32");
    let held: Vec<bool> = (0..cap).map(|slot| live.clone().rev().take(cap).any(|p| p % cap == slot)).collect();
    cache_buffers(variant, e, |row, scales| random.cache((kv, scales), (slots, own.clone()), (g, row, e), &held, rest))
}

/// What is particular about a layer's attention, and how many rows there are.
#[derive(Clone, Copy)]
struct Layer {
    window: usize,
    softcap: f64,
    rows: usize,
    step: Step,
    /// Rows are of several sequences.
    apart: bool,
}

/// What a dispatch over several rows does.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    /// Queries are rotated and keys appended already; all rows are cut as the last is.
    Pass,
    /// Rows of a step: each is cut as if it were alone; keys and values are appended. Where they are of several
    /// sequences, each is of its own.
    Rows,
    /// As they are, of a layer that reads the keys and values of another.
    Attends,
}

/// One row, nothing particular.
const PLAIN: Layer = Layer { window: ALL, softcap: 0.0, rows: 1, step: Step::Pass, apart: false };
const ALL: usize = u32::MAX as usize;

impl Layer {
    fn name(self) -> String {
        let window = if self.window == ALL { String::new() } else { format!(" WINDOW={}", self.window) };
        let softcap = if self.softcap == 0.0 { String::new() } else { format!(" SOFTCAP={}", self.softcap) };
        format!("{window}{softcap}{}", if self.apart { " apart" } else { "" })
    }
    /// Positions that rows from `pos` on see.
    fn live(self, pos: usize, rows: usize) -> Range<usize> {
        (pos + 1).saturating_sub(self.window)..pos + rows
    }
    fn overrides(self) -> [(&'static str, f64); 2] {
        [("WINDOW", self.window as f64), ("SOFTCAP", self.softcap)]
    }
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
        (8, 1, 512, 160, 140, 1.0),
        (5, 1, 320, 700, 690, 3.0),
        (12, 12, 260, 400, 300, 1.0),
    ];
    let layer = |window: usize, softcap: f64, rows: usize| Layer { window, softcap, rows, ..PLAIN };
    let step = |window: usize, rows: usize, step: Step| Layer { window, rows, step, ..PLAIN };
    // Windows shorter and longer than what there is, slots that begin again, scores that are capped, several rows.
    let special = [
        ((4, 2, 64, 192, 1000, 2.0), layer(130, 0.0, 1)),
        ((2, 1, 128, 96, 97, 1.0), layer(33, 3.0, 1)),
        ((2, 1, 256, 64, 700, 2.0), layer(64, 0.0, 1)),
        ((4, 1, 40, 256, 200, 9.0), layer(ALL, 2.0, 1)),
        ((4, 2, 64, 256, 61, 2.0), layer(ALL, 0.0, 4)),
        ((8, 2, 128, 1200, 1100, 1.0), layer(ALL, 0.0, 3)),
        ((2, 2, 64, 320, 700, 2.0), layer(300, 4.0, 8)),
        ((2, 1, 200, 160, 130, 2.0), layer(ALL, 0.0, 2)),
        ((4, 2, 64, 256, 62, 2.0), step(ALL, 4, Step::Attends)),
        ((8, 2, 128, 192, 1000, 1.0), step(100, 3, Step::Attends)),
        ((2, 1, 200, 160, 127, 2.0), step(ALL, 8, Step::Attends)),
        ((4, 2, 64, 256, 62, 2.0), step(ALL, 4, Step::Rows)),
        ((8, 2, 128, 192, 1000, 1.0), step(100, 3, Step::Rows)),
        ((2, 1, 200, 160, 127, 2.0), step(ALL, 8, Step::Rows)),
        ((2, 1, 512, 160, 130, 2.0), layer(90, 3.0, 3)),
    ];
    // Rows that see those before them: the first end a split, and what is behind them begins the next; heads whose
    // width is no multiple of a block, from position 0 on; larger splits; windows whose slots begin again, also with
    // normed values, and with the rows before in a split's second tile.
    let of_one_sequence = [
        ((4, 2, 64, 256, 60, 2.0), step(ALL, 8, Step::Rows)),
        ((4, 1, 80, 192, 0, 2.0), step(ALL, 8, Step::Rows)),
        ((40, 40, 16, 900, 890, 2.0), step(ALL, 4, Step::Rows)),
        ((4, 1, 128, 310, 1090, 1.0), step(300, 8, Step::Rows)),
        ((4, 2, 64, 112, 1000, 2.0), step(100, 8, Step::Rows)),
        ((40, 40, 64, 340, 1090, 2.0), step(330, 8, Step::Rows)),
    ];
    let class = variant.axis("width");
    let fused = class != Some("e512");
    let least = variant.tile[0];
    let one = |s: &(usize, usize, usize, usize, usize, f32)| {
        Rule::decode(least).keys_a_split(s.3 as u32, groups(s.0, s.1)) == least
    };
    let steps = special.into_iter().filter(|(_, layer)| layer.step != Step::Pass);
    let apart = steps.map(|(s, layer)| (s, Layer { apart: true, ..layer }));
    let all = shapes.into_iter().map(|s| (s, PLAIN)).chain(special).chain(apart).chain(of_one_sequence);
    let shapes = all.filter(|(s, layer)| {
        class == Some(width_axis(s.2))
            && (variant.axis("tiles") == Some("many") || ((layer.rows == 1 || layer.step != Step::Pass) && one(s)))
    });
    // A key or value may be rounded to one neighbour or the other.
    let close = match variant.axis("kv") {
        Some("f32") => F32,
        Some("f16") => Compare::F32(2e-3),
        _ => Compare::F32(1e-3),
    };
    let cases = shapes.enumerate().map(|(i, ((h, g, e, cap, pos, size), layer))| {
        let rows = layer.rows;
        let own_slots = layer.step == Step::Rows && layer.apart;
        let (slots, slot) = if own_slots { (rows, 0) } else { slots(i) };
        // The row's own key and value are appended; queries and keys are normed, too, where there is a window, and
        // values sometimes.
        let pass = !fused || (rows > 1 && layer.step == Step::Pass);
        let appends = match layer.step {
            _ if pass => 0,
            Step::Attends => 0,
            Step::Rows => 2,
            Step::Pass => 1,
        };
        let normed = !pass && layer.window != ALL;
        let rot = if pass {
            0
        } else if rows > 1 {
            e / 4 * 2
        } else {
            [e, e / 2, 0][if i < 3 { i } else { 0 }]
        };
        let angles = (0..(pos + rows) * rot / 2)
            .map(|_| random.f32() * 100.0)
            .flat_map(|a| [a.cos(), a.sin()])
            .collect::<Vec<_>>();
        let groups = groups(h, g);
        let together = rows > 1 && layer.step == Step::Pass;
        let rule = if together { Rule::rows(least) } else { Rule::decode(least) };
        let splits = rule.most_splits(cap as u32, if together { groups * rows as u32 } else { groups }) as usize;
        let stride = (h + 2 * g) * e + 4;
        let mut live = layer.live(pos, rows);
        if appends == 1 || (appends == 2 && !layer.apart) {
            live.end = pos;
        }
        let of_row = [
            ("ROT", rot),
            ("INTERLEAVED", i % 2),
            ("APPENDS", appends),
            ("QK_NORM", usize::from(normed)),
            ("V_NORM", usize::from(normed && e == 64)),
        ];
        let of_row = overrides(if fused { &of_row } else { &[] }, None).into_iter();
        let late = after(normed && i % 2 == 0, !pass && i % 4 > 1);
        let of_row = of_row.chain([("EPS", 1e-6)].into_iter().chain(late).filter(|_| fused));
        Case {
            name: format!(
                "H={h} G={g} E={e} CAP={cap} pos={pos} T={rows}{}{}",
                layer.name(),
                ["", " rows", " attends"][layer.step as usize]
            ),
            overrides: overrides(
                &[
                    ("H", h),
                    ("G", g),
                    ("E", e),
                    ("ROOM", if layer.step == Step::Pass { 0 } else { splits }),
                    ("LEAST", least as usize),
                    ("MOST", rule.most as usize),
                    ("FILL", rule.fill as usize),
                    ("QSTRIDE", stride),
                    ("SLOTS", slots),
                ],
                Some(1.0 / (e as f64).sqrt()),
            )
            .into_iter()
            .chain(layer.overrides())
            .chain(layer.apart.then_some(("APART", 1.0)))
            .chain(of_row)
            .collect(),
            grid: [groups, (rows * splits) as u32, 1],
            buffers: vec![
                (
                    "state",
                    state_of(
                        layer.apart,
                        own_slots,
                        State {
                            pos: pos as u32,
                            rows: rows as u32,
                            slot: slot as u32,
                            lag: pos as u32 / 3,
                            ..State::default()
                        },
                    ),
                ),
                ("qkv", words(&random.f32s(rows * stride, size))),
                ("po", untouched(rows * splits * h * e)),
                ("ml", untouched(rows * splits * h * 2)),
            ]
            .into_iter()
            .chain(fused.then(|| ("rot", if rot == 0 { vec![POISON; 4] } else { words(&angles) })))
            .chain(fused.then(|| ("qkn", norm_weights(normed))))
            .chain(cache(
                variant,
                random,
                (slots, slot..if own_slots { rows } else { slot + 1 }),
                (g, cap, e),
                live,
                UNTOUCHED,
            ))
            .collect(),
            outputs: [("po", close), ("ml", close)].into_iter().chain(cache_compare(variant)).collect(),
        }
    });
    cases.collect()
}

pub fn merge(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (H, E, workgroups a split, smallest split, pos, room for splits, T, window)
    let shapes = [
        (1, 32, 1, 64, 0, 1, 1, ALL),
        (4, 64, 1, 64, 63, 4, 1, ALL),
        (4, 64, 1, 64, 64, 4, 1, ALL),
        (3, 80, 3, 32, 450, 20, 1, ALL),
        (32, 64, 8, 64, 1500, 20, 1, ALL),
        (5, 12, 2, 64, 130, 4, 1, ALL),
        (2, 256, 1, 128, 127, 1, 1, ALL),
        (2, 64, 1, 32, 4000, 130, 1, ALL),
        (4, 64, 2, 32, 5000, 9, 1, 200),
        (3, 20, 1, 64, 61, 3, 5, ALL),
        (8, 64, 2, 64, 700, 6, 4, 300),
        // A step's rows, each cut as if it were alone.
        (4, 64, 2, 64, 126, 3, 4, ALL),
        (4, 64, 2, 64, 126, 3, 4, ALL),
    ];
    let alone_from = shapes.len() - 2;
    let cases = shapes.into_iter().enumerate().map(|(i, (h, e, groups, least, pos, room, rows, window))| {
        let (alone, apart) = (i >= alone_from, i > alone_from);
        let (gate, stride) = if i % 2 == 1 { (h * e + 8, 2 * h * e + 12) } else { (0, 0) };
        let kb = usize::div_ceil(h * e, 32);
        let rule = if rows > 1 && !alone { Rule::rows(least as u32) } else { Rule::decode(least as u32) };
        let seen = |t: usize| (pos + t + 1).min(window) as u32;
        let split = |t: usize| {
            if alone {
                rule.keys_a_split(seen(t), groups as u32)
            } else {
                rule.keys_a_split(seen(rows - 1), (groups * rows) as u32)
            }
        };
        let count = if alone { room } else { seen(rows - 1).div_ceil(split(0)) as usize };
        let (mut po, mut ml) = (Vec::new(), Vec::new());
        for t in 0..rows {
            let at = if apart { rows - 1 - t } else { t };
            let splits = seen(at).div_ceil(split(at)) as usize;
            po.extend(random.f32s(splits * h * e, 10.0));
            po.resize((t + 1) * count * h * e, f32::from_bits(POISON));
            ml.extend((0..splits * h).flat_map(|_| [random.f32() * 5.0, random.f32().abs() * 20.0 + 1.0]));
            ml.resize((t + 1) * count * h * 2, f32::from_bits(POISON));
        }
        po.resize(rows * count.max(room) * h * e, f32::from_bits(POISON));
        ml.resize(rows * count.max(room) * h * 2, f32::from_bits(POISON));
        let state = State { pos: pos as u32, rows: rows as u32, ..State::default() };
        Case {
            name: format!(
                "H={h} E={e} GROUPS={groups} pos={pos} T={rows} WINDOW={window}{}",
                if apart { " apart" } else { "" }
            ),
            overrides: overrides(
                &[
                    ("H", h),
                    ("E", e),
                    ("GROUPS", groups),
                    ("LEAST", least),
                    ("MOST", rule.most as usize),
                    ("FILL", rule.fill as usize),
                    ("KB", kb),
                    ("WINDOW", window),
                    ("GATE", gate),
                    ("QSTRIDE", stride),
                    ("ROOM", if alone { room } else { 0 }),
                ],
                None,
            )
            .into_iter()
            .chain((gate == 0).then_some(("FACTOR", 0.7)))
            .chain((i % 3 == 2).then_some(("SINKS", 1.0)))
            .chain(apart.then_some(("APART", 1.0)))
            .collect(),
            grid: [kb as u32, rows as u32, 1],
            buffers: [
                ("state", state_of(apart, false, state)),
                ("po", words(&po)),
                ("ml", words(&ml)),
                ("gate", if gate == 0 { vec![POISON; 4] } else { words(&random.f32s(rows * stride, 3.0)) }),
                ("sinks", words(&Random::new("sinks").f32s(h, 6.0))),
            ]
            .into_iter()
            .chain(out_buffers(variant, rows * kb))
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
        (1, 1, 288, 70, 1, 40, 1.0),
    ];
    let layer = |window: usize, softcap: f64| Layer { window, softcap, rows: 1, step: Step::Pass, apart: false };
    // Windows smaller and larger than a pass, slots that begin again, scores that are capped.
    let special = [
        ((2, 1, 64, 128, 50, 70, 2.0), layer(20, 0.0)),
        ((4, 2, 64, 192, 777, 40, 3.0), layer(150, 0.0)),
        ((2, 1, 32, 64, 0, 64, 9.0), layer(1, 4.0)),
        ((2, 2, 128, 128, 100, 45, 2.0), layer(64, 0.0)),
        ((1, 1, 96, 96, 0, 50, 9.0), layer(ALL, 2.0)),
        ((2, 1, 256, 160, 333, 70, 2.0), layer(90, 0.0)),
        ((2, 1, 256, 128, 3, 33, 9.0), layer(512, 3.0)),
        ((2, 1, 512, 128, 203, 40, 2.0), layer(70, 0.0)),
    ];
    // Rows of several texts, which see what is before them or all of their text, the nearest keys of it where there is
    // a window.
    let of_texts = [
        ((2, 1, 64, 128, 0, 70, 2.0), layer(ALL, 0.0), 1.0),
        ((4, 2, 32, 128, 7, 90, 3.0), layer(ALL, 0.0), 2.0),
        ((3, 1, 96, 192, 33, 65, 2.0), layer(9, 0.0), 2.0),
        ((2, 2, 128, 96, 0, 40, 2.0), layer(ALL, 0.0), 1.0),
        ((3, 1, 256, 160, 0, 90, 2.0), layer(17, 0.0), 2.0),
        ((1, 1, 320, 70, 1, 40, 1.0), layer(ALL, 0.0), 2.0),
    ];
    // Rows of pictures, which see those behind them, and as far back as others do.
    let of_pictures = [
        ((2, 1, 64, 128, 50, 70, 2.0), layer(ALL, 0.0), 3.0),
        ((4, 2, 80, 128, 90, 45, 3.0), layer(9, 0.0), 3.0),
        ((4, 2, 80, 128, 90, 45, 3.0), layer(9, 0.0), 4.0),
        ((2, 1, 64, 128, 33, 60, 3.0), layer(5, 0.0), 4.0),
        ((3, 1, 256, 160, 7, 37, 2.0), layer(20, 0.0), 3.0),
        ((2, 1, 256, 128, 0, 50, 2.0), layer(ALL, 3.0), 3.0),
        ((1, 1, 512, 96, 30, 33, 1.0), layer(ALL, 0.0), 3.0),
    ];
    let class = variant.axis("width");
    let all = shapes.into_iter().map(|s| (s, PLAIN)).chain(special).map(|(s, layer)| (s, layer, 0.0));
    let all = all.chain(of_texts).chain(of_pictures).filter(|(s, ..)| class == Some(width_axis(s.2)));
    // Eight bits become halves on their way, rounded to the nearest or towards zero.
    let close = if variant.axis("kv") == Some("q8") { Compare::F32(2e-3) } else { F32 };
    let cases = all.enumerate().map(|(i, ((h, g, e, cap, pos, t, size), layer, spans))| {
        let (slots, slot) = slots(i);
        let kb = usize::div_ceil(h * e, 32);
        let gate = if i % 2 == 1 { (h + 2 * g) * e + 4 } else { 0 };
        let stride = (2 * h + 2 * g) * e + 8;
        let numbers = [("H", h), ("G", g), ("E", e), ("QSTRIDE", stride), ("KB", kb), ("SLOTS", slots), ("GATE", gate)];
        Case {
            name: format!(
                "H={h} G={g} E={e} CAP={cap} pos={pos} T={t}{}{} SPANS={spans}",
                layer.name(),
                if gate == 0 { "" } else { " gated" }
            ),
            overrides: overrides(&numbers, Some(1.0 / (e as f64).sqrt()))
                .into_iter()
                .chain(layer.overrides())
                .chain([("FACTOR", 0.7), ("SINKS", f64::from(u8::from(i % 3 == 2))), ("SPANS", spans)])
                .collect(),
            grid: [h as u32, (t as u32).div_ceil(variant.tile[1]), 1],
            buffers: vec![
                ("state", State { pos: pos as u32, rows: t as u32, slot: slot as u32, ..State::default() }.words()),
                ("qkv", words(&random.f32s(t * stride, size))),
                ("y", untouched((t + 1) * kb * 32)),
                ("spans", if spans >= 3.0 { pictures(pos, t) } else { texts(pos, t) }),
                ("sinks", words(&Random::new("sinks").f32s(h, 6.0))),
            ]
            .into_iter()
            .chain(cache(variant, random, (slots, slot..slot + 1), (g, cap, e), layer.live(pos, t), POISON))
            .collect(),
            outputs: vec![("y", close)],
        }
    });
    cases.collect()
}
