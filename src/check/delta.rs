use super::Case;
use super::compare::F32;
use super::inputs::{Random, untouched, words};
use super::norm::{out_buffers, out_compare};
use crate::base::numbers::{CHUNK, FEW_ROWS};
use crate::kernels::{State, Variant};

type Overrides = Vec<(&'static str, f64)>;
type Buffers = Vec<(&'static str, Vec<u32>)>;

/// Sequences with a state in the buffers of every case.
const SLOTS: usize = 3;

/// (T, D, taps, pos, slot)
const CONVS: [(u32, u32, u32, u32, u32); 5] =
    [(1, 64, 3, 7, 1), (1, 80, 3, 1, 0), (2, 96, 4, 0, 2), (5, 100, 3, 2, 1), (70, 256, 7, 300, 0)];

fn state((t, _, _, pos, slot): (u32, u32, u32, u32, u32)) -> (&'static str, Vec<u32>) {
    ("state", State { rows: t, pos, slot, ..State::default() }.words())
}

/// What the rows of a step are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Those of a pass, or the only row.
    Pass,
    /// Each of another sequence.
    Several,
    /// A token and its drafts.
    Drafts,
}

impl Of {
    const fn name(self) -> &'static str {
        match self {
            Self::Pass => "",
            Self::Several => ", apart",
            Self::Drafts => ", drafts",
        }
    }

    /// The override of steps of several rows.
    fn apart(self) -> f64 {
        f64::from(u8::from(self != Self::Pass))
    }
}

/// Rows of a convolution's state.
const fn ring(taps: u32) -> u32 {
    taps + FEW_ROWS - 1
}

/// A state of rows of three sequences, each in a slot of its own, of which the second has ended. `pos`: of the last.
pub(super) fn apart(pos: u32) -> (&'static str, Vec<u32>) {
    let mut state = State { rows: 3, apart: 1, pos: 9999, slot: 9999, ..State::default() };
    for (t, each) in state.each.iter_mut().enumerate().take(SLOTS) {
        *each = [pos + 2 - t as u32, [2, 0, 1][t], u32::from(t != 1), 0];
    }
    ("state", state.words())
}

pub fn short_conv(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    let mut case = |conv: (u32, u32, u32, u32, u32), of: Of| {
        let (t, d, taps, pos, slot) = conv;
        let (kb, stride) = (d.div_ceil(32), 3 * d + 8);
        let overrides = [
            ("CHANNELS", d),
            ("TAPS", taps),
            ("RING", ring(taps)),
            ("STRIDE", stride),
            ("CONV_AT", 4),
            ("KB", kb),
            ("KEEP", u32::from(t == 1 || of != Of::Pass)),
            ("APART", u32::from(of != Of::Pass)),
        ];
        let buffers = [
            if of == Of::Several { apart(pos) } else { state(conv) },
            ("x", words(&random.f32s((t * stride) as usize, 2.0))),
            ("cw", words(&random.f32s((d * taps) as usize, 1.0))),
            ("conv", words(&random.f32s(SLOTS * (d * ring(taps)) as usize, 2.0))),
        ];
        Case {
            name: format!("T={t} D={d} TAPS={taps} pos={pos} slot {slot}{}", of.name()),
            overrides: overrides.map(|(name, value)| (name, f64::from(value))).to_vec(),
            grid: [kb.div_ceil(8), t, 1],
            buffers: buffers.into_iter().chain(out_buffers(variant, (t * kb) as usize)).collect(),
            outputs: out_compare(variant),
        }
    };
    let mut cases: Vec<Case> = CONVS.into_iter().map(|conv| case(conv, Of::Pass)).collect();
    cases.extend([(3, 80, 3, 4, 0), (3, 96, 4, 0, 0)].map(|conv| case(conv, Of::Several)));
    cases.extend([(8, 80, 3, 4, 1), (4, 96, 4, 1, 2)].map(|conv| case(conv, Of::Drafts)));
    cases
}

pub fn conv_keep(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    let case = |(i, conv): (usize, (u32, u32, u32, u32, u32))| {
        let (t, d, taps, pos, slot) = conv;
        let stride = 3 * d + 8;
        let times = if i % 2 == 0 { 2 * d } else { 0 };
        let sizes = [("CHANNELS", d), ("TAPS", taps), ("RING", ring(taps))];
        let overrides = sizes.into_iter().chain([("STRIDE", stride), ("CONV_AT", 4), ("TIMES", times)]);
        Case {
            name: format!("T={t} D={d} TAPS={taps} pos={pos} slot {slot}{}", if times == 0 { "" } else { " times" }),
            overrides: overrides.map(|(name, value)| (name, f64::from(value))).collect(),
            grid: [d.div_ceil(256), 1, 1],
            buffers: vec![
                state(conv),
                ("x", words(&random.f32s((t * stride) as usize, 2.0))),
                ("conv", words(&random.f32s(SLOTS * (d * ring(taps)) as usize, 2.0))),
            ],
            outputs: vec![],
        }
    };
    CONVS.into_iter().enumerate().map(case).collect()
}

/// Heads of linear attention: heads, heads of keys, neighbours that share one, key, value, the delta rule.
#[derive(Clone, Copy)]
struct Heads(u32, u32, u32, u32, u32, u32);

const HEADS: [Heads; 6] = [
    Heads(2, 2, 1, 128, 128, 1),
    Heads(4, 2, 2, 32, 32, 1),
    Heads(6, 2, 1, 64, 48, 1),
    Heads(3, 1, 3, 128, 64, 0),
    Heads(4, 2, 2, 16, 32, 0),
    Heads(2, 1, 2, 256, 64, 0),
];

/// Rows, position and slot of each.
const PASSES: [(u32, u32, u32); 6] = [(1, 5, 0), (33, 2, 1), (70, 0, 2), (32, 100, 0), (3, 1, 1), (65, 7, 2)];

impl Heads {
    fn channels(self) -> u32 {
        let Self(heads, key_heads, _, key, value, _) = self;
        2 * key_heads * key + heads * value
    }

    fn name(self, t: u32) -> String {
        let Self(heads, key_heads, each, key, value, delta) = self;
        let rule = if delta == 1 { "delta rule" } else { "Mamba-2" };
        format!("T={t} {rule}, {heads} heads of {value}, {key_heads} of {key}{}", if each > 1 { "" } else { ", tiled" })
    }

    /// Mamba has values, keys and queries in that order.
    fn overrides(self) -> Vec<(&'static str, f64)> {
        let Self(heads, key_heads, each, key, value, delta) = self;
        let (q, k, v) = match delta {
            1 => (0, key_heads * key, 2 * key_heads * key),
            _ => (heads * value + key_heads * key, heads * value, 0),
        };
        let all = [("HEADS", heads), ("KEY_HEADS", key_heads), ("KEYS_EACH", each), ("KEY", key), ("VALUE", value)];
        let at = [("Q_AT", q), ("K_AT", k), ("V_AT", v), ("DELTA", delta), ("CHANNELS", self.channels())];
        all.into_iter().chain(at).map(|(name, value)| (name, f64::from(value))).collect()
    }

    fn state(self, random: &mut Random) -> (&'static str, Vec<u32>) {
        ("s", words(&random.f32s(SLOTS * (self.0 * self.3 * self.4) as usize, 0.5)))
    }

    /// Decays, changes of columns and keys of rows of two steps.
    fn kept(self, random: &mut Random) -> (&'static str, Vec<u32>) {
        let Self(heads, _, _, key, value, _) = self;
        let mut of_row = || {
            let decay = random.f32().abs();
            [vec![decay], random.f32s(value as usize, 0.5), random.f32s(key as usize, 0.5)].concat()
        };
        ("kept", words(&(0..2 * FEW_ROWS * heads).flat_map(|_| of_row()).collect::<Vec<_>>()))
    }

    /// A, its logarithm on odd ones; bias; D.
    fn heads(self, random: &mut Random, log: bool) -> (&'static str, Vec<u32>) {
        let mut all = random.f32s(3 * self.0 as usize, 1.0);
        if !log {
            all[..self.0 as usize].iter_mut().for_each(|a| *a = -a.abs());
        }
        ("heads", words(&all))
    }
}

fn pass((t, pos, slot): (u32, u32, u32)) -> (&'static str, Vec<u32>) {
    ("state", State { rows: t, pos, slot, ..State::default() }.words())
}

/// What `delta_step` and `delta_conv` read.
fn projected(i: usize, heads: Heads, t: u32, random: &mut Random) -> (Overrides, Buffers) {
    let (c, taps) = (heads.channels(), 4);
    let (stride, gates, bias, log) = (c + 12, 2 * heads.0 + 3, i % 2 == 1, i.is_multiple_of(3));
    let mut overrides = heads.overrides();
    let more = [("TAPS", taps), ("RING", ring(taps)), ("STRIDE", stride), ("CONV_AT", 8), ("GATES", gates)];
    let of_gates = [("A_AT", 1), ("B_AT", heads.0 + 2), ("BIAS", u32::from(bias)), ("A_LOG", u32::from(log))];
    overrides.extend(more.into_iter().chain(of_gates).map(|(name, value)| (name, f64::from(value))));
    overrides.extend((i == 2).then_some(("STEPS", 0.6)));
    let buffers = vec![
        ("x", words(&random.f32s((t * stride) as usize, 2.0))),
        ("cw", words(&random.f32s((c * taps + if bias { c } else { 0 }) as usize, 1.0))),
        ("gates", words(&random.f32s((t * gates) as usize, 3.0))),
        heads.heads(random, log),
        ("conv", words(&random.f32s(SLOTS * (c * ring(taps)) as usize, 2.0))),
    ];
    (overrides, buffers)
}

pub fn step(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    (0..HEADS.len()).map(|i| step_of(variant, random, i, Of::Pass, (1, 0), None)).collect()
}

pub fn step_rows(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // Of the six kinds of heads each has another number of rows, and of those before.
    let drafts = [(4, 0), (1, 3), (3, 2), (8, 8), (8, 1), (2, 0)];
    let mut case = |i, of, rows, drafter| step_of(variant, random, i, of, rows, drafter);
    let mut cases: Vec<Case> = (0..HEADS.len()).map(|i| case(i, Of::Several, (3, 0), None)).collect();
    cases.extend((0..HEADS.len()).map(|i| case(i, Of::Drafts, drafts[i], None)));
    let of_drafter = [(0, 2, 0), (1, 3, 4), (3, 0, 7), (4, 0, 0)];
    cases.extend(of_drafter.map(|(i, counts, before)| case(i, Of::Drafts, (1, counts), Some(before))));
    cases
}

/// Heads, what the rows are, how many they are and how many of the step before count, and a draft model's steps before
/// this one.
fn step_of(
    variant: &'static Variant,
    random: &mut Random,
    i: usize,
    of: Of,
    (t, counts): (u32, u32),
    drafter: Option<u32>,
) -> Case {
    let (heads, (_, pos, slot)) = (HEADS[i], PASSES[i]);
    let (mut overrides, mut buffers) = projected(i, heads, t, random);
    overrides.extend([("SCALE", 0.3), ("APART", of.apart())]);
    overrides.extend(drafter.map(|_| ("DRAFTER", 1.0)));
    let state = match of {
        Of::Several => apart(pos),
        _ => drafting(State { rows: t, pos, slot, step: drafter.unwrap_or(0), ..State::default() }, counts),
    };
    buffers.extend([state, heads.state(random), ("y", untouched((t * heads.0 * heads.4) as usize + 4))]);
    let mut outputs = vec![("s", F32), ("y", F32)];
    if of != Of::Pass {
        buffers.push(heads.kept(random));
        outputs.push(("kept", F32));
    }
    let counting = if counts > 0 { format!(" after {counts}") } else { String::new() };
    let drafting = drafter.map_or(String::new(), |steps| format!(", a draft model's step {steps}"));
    Case {
        name: format!("{}{}{counting}{drafting}", heads.name(t), of.name()),
        overrides,
        // A step has a grid for the most rows that it may have.
        grid: [heads.0, heads.4 / variant.tile[0], if of == Of::Pass { 1 } else { FEW_ROWS }],
        buffers,
        outputs,
    }
}

/// A state in which so many rows of the step before count.
pub(super) fn drafting(state: State, counts: u32) -> (&'static str, Vec<u32>) {
    ("state", State { kept: counts, side: counts % 2, ..state }.words())
}

pub fn settle(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    let case = |(i, counts): (usize, u32)| {
        let heads = HEADS[i];
        let Heads(n, _, _, key, value, _) = heads;
        let sizes = [("HEADS", n), ("KEY", key), ("VALUE", value)];
        Case {
            name: format!("{}{} after {counts}", if counts == 0 { "idle: " } else { "" }, heads.name(1)),
            overrides: sizes.map(|(name, value)| (name, f64::from(value))).to_vec(),
            grid: [n, (key * value / 4).div_ceil(variant.workgroup[0]), 1],
            buffers: vec![
                drafting(State { rows: 1, slot: PASSES[i].2, ..State::default() }, counts),
                heads.state(random),
                heads.kept(random),
            ],
            outputs: vec![("s", F32)],
        }
    };
    [4, 0, 1, 8, 2, 3].into_iter().enumerate().map(case).collect()
}

pub fn conv(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    let case = |(i, heads): (usize, Heads)| {
        let (t, pos, slot) = PASSES[i];
        let (overrides, mut buffers) = projected(i, heads, t, random);
        let rows = |row: u32| untouched((t * row) as usize + 4);
        buffers.extend([pass((t, pos, slot)), ("y", rows(heads.channels())), ("strengths", rows(2 * heads.0))]);
        Case {
            name: heads.name(t),
            overrides,
            grid: [2 * heads.1 + heads.0, t, 1],
            buffers,
            outputs: vec![("y", F32), ("strengths", F32)],
        }
    };
    HEADS.into_iter().enumerate().map(case).collect()
}

/// What `delta_conv` leaves: rows with queries and keys of about length 1, and gates.
fn rows(heads: Heads, t: u32, random: &mut Random) -> [(&'static str, Vec<u32>); 2] {
    let Heads(n, key_heads, _, key, _, _) = heads;
    let small = (3.0 / key as f32).sqrt();
    let keys = (2 * key_heads * key) as usize;
    let values = heads.channels() as usize - keys;
    let first = if heads.5 == 1 { keys } else { values };
    let row = |random: &mut Random| {
        let (a, b) = if heads.5 == 1 { (small, 2.0) } else { (2.0, small) };
        [random.f32s(first, a), random.f32s(heads.channels() as usize - first, b)].concat()
    };
    let gates = (0..t * n).flat_map(|_| [-random.f32().abs() * 2.0, random.f32().abs()]).collect::<Vec<_>>();
    [("x", words(&(0..t).flat_map(|_| row(random)).collect::<Vec<_>>())), ("strengths", words(&gates))]
}

pub fn intra(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    let case = |(i, heads): (usize, Heads)| {
        let (t, pos, slot) = PASSES[i];
        let chunks = t.div_ceil(CHUNK);
        let mut buffers =
            vec![pass((t, pos, slot)), ("within", untouched((chunks * heads.0 * 2 * CHUNK * CHUNK) as usize + 4))];
        buffers.extend(rows(heads, t, random));
        let keys = heads.overrides().into_iter().filter(|(name, _)| !matches!(*name, "VALUE" | "V_AT"));
        let overrides = keys.chain([("SCALE", 0.3)]).collect();
        Case { name: heads.name(t), overrides, grid: [heads.0, chunks, 1], buffers, outputs: vec![("within", F32)] }
    };
    HEADS.into_iter().enumerate().map(case).collect()
}

pub fn scan(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    let fits = |heads: &Heads| (heads.3 > 128) == (variant.axis("width") == Some("e256"));
    let case = |(i, heads): (usize, Heads)| {
        let (t, pos, slot) = PASSES[i];
        let size = CHUNK as usize;
        // Lower triangles, of which the first is almost that of 1.
        let triangle = |random: &mut Random, diagonal: f32| {
            let mut all = random.f32s(size * size, 0.1);
            for (at, x) in all.iter_mut().enumerate() {
                let (i, j) = (at / size, at % size);
                *x = if j > i {
                    0.0
                } else if i == j {
                    diagonal
                } else {
                    *x
                };
            }
            all
        };
        let within: Vec<f32> = (0..t.div_ceil(CHUNK) * heads.0)
            .flat_map(|_| [triangle(random, 1.0), triangle(random, 0.2)].concat())
            .collect();
        let mut buffers = vec![
            pass((t, pos, slot)),
            ("within", words(&within)),
            heads.heads(random, false),
            heads.state(random),
            ("y", untouched((t * heads.0 * heads.4) as usize + 4)),
        ];
        buffers.extend(rows(heads, t, random));
        let overrides = heads.overrides().into_iter().chain([("SCALE", 0.3)]).collect();
        Case {
            name: heads.name(t),
            overrides,
            grid: [heads.0, heads.4 / variant.tile[0], 1],
            buffers,
            outputs: vec![("s", F32), ("y", F32)],
        }
    };
    HEADS.into_iter().enumerate().filter(|(_, heads)| fits(heads)).map(case).collect()
}
