use super::inputs::{Random, untouched, words};
use super::{Case, Compare};
use crate::base::numbers::{BINS, FEW_ROWS};
use crate::cpu::sampling::ordered;
use crate::cpu::threshold::Search;
use crate::kernels::{State, Variant};
use crate::sample::{AFTER_END, IN_PROMPT, MAX_TOP_LOGPROBS as TOP, SLICES, Sampling};

const OFF: Sampling = Sampling::OFF;

/// What the logits look like.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Few distinct values, so many ties; most of the mass is on few tokens.
    Steps,
    /// With NaN and infinities among them.
    Odd,
    /// NaN only.
    Nan,
    /// All equal.
    Flat,
}

fn logits(random: &mut Random, v: usize, kind: Kind) -> Vec<f32> {
    let odd = [f32::NAN, f32::NEG_INFINITY, -f32::NAN, -0.0, 0.0, f32::MIN];
    let make = |i: usize| {
        // The sum of four is bell-shaped.
        let bell = (0..4).map(|_| random.f32()).sum::<f32>();
        match kind {
            Kind::Odd if i.is_multiple_of(3) => odd[random.below(odd.len() as u32) as usize],
            Kind::Steps | Kind::Odd => (bell * 64.0).round() / 8.0,
            Kind::Nan => f32::NAN,
            Kind::Flat => -3.25,
        }
    };
    (0..v).map(make).collect()
}

/// (V, parameters, logits)
fn shapes() -> Vec<(usize, Sampling, Kind)> {
    vec![
        (301, Sampling { top_k: 5, ..OFF }, Kind::Steps),
        (1, Sampling { top_k: 1, top_p: 0.5, min_p: 1.0, ..OFF }, Kind::Steps),
        (255, Sampling { top_p: 0.5, ..OFF }, Kind::Steps),
        (301, Sampling { temperature: 0.7, top_k: 40, top_p: 0.9, min_p: 0.05, ..OFF }, Kind::Steps),
        (4096, Sampling { temperature: 1.5, top_p: 0.95, ..OFF }, Kind::Steps),
        (4096, Sampling { min_p: 0.1, ..OFF }, Kind::Odd),
        (4096, Sampling { top_k: 300, top_p: 0.999, ..OFF }, Kind::Odd),
        (301, Sampling { temperature: 1e-30, top_p: 0.9, ..OFF }, Kind::Steps),
        (301, Sampling { top_k: 301, min_p: 1.0, ..OFF }, Kind::Odd),
        (700, Sampling { top_k: 3, top_p: 0.5, min_p: 0.5, ..OFF }, Kind::Flat),
        (300, Sampling { top_k: 3, top_p: 0.5, ..OFF }, Kind::Nan),
        (128_256, OFF, Kind::Steps),
        (128_256, Sampling { temperature: 0.8, top_k: 1000, top_p: 0.9, ..OFF }, Kind::Steps),
        (128_256, Sampling { top_p: 0.99, ..OFF }, Kind::Odd),
        (301, Sampling { temperature: 0.0, top_k: 5, top_p: 0.5, min_p: 0.5, ..OFF }, Kind::Odd),
        (128_256, Sampling { temperature: 0.0, ..OFF }, Kind::Steps),
    ]
}

fn name(v: usize, p: &Sampling, kind: Kind) -> String {
    if p.temperature == 0.0 {
        return format!("greedy V={v} {kind:?}");
    }
    format!("V={v} T={} top_k={} top_p={} min_p={} {kind:?}", p.temperature, p.top_k, p.top_p, p.min_p)
}

/// The logits as a buffer: a whole number of vec4, as GPU buffers are. What is behind the last must not count.
fn padded(values: &[f32]) -> Vec<u32> {
    padded_words(words(values))
}

fn padded_words(mut words: Vec<u32>) -> Vec<u32> {
    words.resize(words.len().next_multiple_of(4), f32::INFINITY.to_bits());
    words
}

/// The cases of one of the three kernels that look at all logits.
fn over_logits(
    shapes: Vec<(usize, Sampling, Kind)>,
    random: &mut Random,
    groups: u32,
    mut more: impl FnMut(&Sampling, &[f32], &mut Random) -> (Vec<(&'static str, Vec<u32>)>, Vec<(&'static str, Compare)>),
) -> Vec<Case> {
    let make = |(v, params, kind): (usize, Sampling, Kind)| {
        let values = logits(random, v, kind);
        let (buffers, outputs) = more(&params, &values, random);
        Case {
            name: name(v, &params, kind),
            overrides: vec![("V", v as f64)],
            grid: [groups, 1, 1],
            buffers: [
                ("state", State { pos: 41, rows: 1, ..State::default() }.words()),
                ("params", params.words()),
                ("logits", padded(&values)),
            ]
            .into_iter()
            .chain(buffers)
            .collect(),
            outputs,
        }
    };
    shapes.into_iter().map(make).collect()
}

/// Logits of no token behind those of each row.
const PADDING: usize = 3;

/// Behind a kernel's cases steps of three rows: a case three times, one row behind the other.
fn beside(cases: Vec<Case>) -> Vec<Case> {
    beside_with(cases, &[("logits", 1)])
}

/// What penalties and log probabilities have for each logit: the buffers, and the words of an entry.
const OF_LOGITS: [(&str, usize); 3] = [("logits", 1), ("raw", 1), ("tallies", 2)];

/// [`beside`], where `of_logits` lists the buffers with an entry for each logit, and the words of an entry.
fn beside_with(mut cases: Vec<Case>, of_logits: &[(&str, usize)]) -> Vec<Case> {
    let Some(one) = cases.first() else { return cases };
    let v = one.overrides.iter().find(|(name, _)| *name == "V").map_or(0, |(_, v)| *v as usize);
    let rows = 3;
    let state = |words: &[u32]| {
        let state = State::from_words(words).unwrap_or_default();
        State { rows: rows as u32, turn: state.step, ..state }
    };
    let entry = |name: &str| of_logits.iter().find(|it| it.0 == name).map(|it| it.1);
    let buffers = one.buffers.iter().map(|(name, words)| match (*name, entry(name)) {
        ("state", _) => (*name, state(words).words()),
        ("params", _) => (*name, words.clone()),
        // What rounds up the last row's buffer is not between rows; logits of no token are.
        (_, Some(n)) => {
            let row = [&words[..n * v], &vec![f32::MAX.to_bits(); n * PADDING][..]].concat();
            (*name, padded_words(row.repeat(rows)))
        }
        ("ids" | "logprobs", _) => (*name, words.repeat(FEW_ROWS as usize)),
        _ => (*name, words.repeat(rows)),
    });
    let together = Case {
        name: format!("{} T={rows}", one.name),
        overrides: [
            &one.overrides[..],
            &[("BESIDE", 1.0)],
            &[("PADDING", PADDING as f64)][..usize::from(one.buffers.iter().any(|(name, _)| entry(name).is_some()))],
        ]
        .concat(),
        grid: [one.grid[0], rows as u32, 1],
        buffers: buffers.collect(),
        outputs: one.outputs.clone(),
    };
    // The rows as several sequences of a batch: each has its own position, end and parameters.
    let buffers = together.buffers.iter().map(|(name, words)| match *name {
        "state" => {
            let mut state = State { apart: 1, pos: 0, ..State::from_words(words).unwrap_or_default() };
            state.each[..rows].copy_from_slice(&[[41, 0, 5, 0], [41, 1, 0, 0], [77, 2, 1, 0]]);
            (*name, state.words())
        }
        "params" => {
            let own = Sampling::of_row(words, 0).unwrap_or(OFF);
            let all = [own, own, Sampling { temperature: 2.0 * own.temperature, seed_lo: 8, ..own }]
                .map(|params| params.words()[..Sampling::BYTES / 4].to_vec());
            (*name, [all.concat(), vec![0; (Sampling::ROOM - rows * Sampling::BYTES) / 4]].concat())
        }
        _ => (*name, words.clone()),
    });
    let apart = Case {
        name: format!("{} apart", together.name),
        overrides: together.overrides.clone(),
        grid: together.grid,
        buffers: buffers.collect(),
        outputs: together.outputs.clone(),
    };
    cases.extend([together, apart]);
    cases
}

pub fn logit_stats(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    beside(over_logits(shapes(), random, SLICES, |_, _, _| {
        (vec![("part", untouched(SLICES as usize))], vec![("part", Compare::Exact)])
    }))
}

fn largest(values: &[f32]) -> f32 {
    values.iter().copied().filter(|x| !x.is_nan()).fold(f32::MIN, f32::max)
}

/// The maxima of the slices: the largest logit in one of them.
fn maxima(values: &[f32], random: &mut Random) -> Vec<u32> {
    let mut part = vec![f32::MIN; SLICES as usize];
    part[random.below(SLICES) as usize] = largest(values);
    words(&part)
}

pub fn tally(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    let searched = shapes().into_iter().filter(|(v, params, _)| params.filter_rounds(*v as u32) > 0).collect();
    beside(over_logits(searched, random, SLICES, |params, values, random| {
        // The prefix of some token's key, the floor some other's.
        let mut key = || values.get(random.below(values.len() as u32) as usize).map_or(0, |x| ordered(*x));
        let (prefix, floor_key) = (key(), key());
        let rounds = params.filter_rounds(values.len() as u32);
        let round = random.below(rounds);
        let floor_key = if round < 4 { 0 } else { floor_key };
        let search = Search {
            round,
            prefix: prefix.checked_shr(32 - 8 * (round % 4)).unwrap_or(0),
            floor_key,
            ..Search::default()
        };
        let part = maxima(values, random);
        let buffers =
            vec![("part", part), ("searches", words_of(search)), ("tallies", untouched((2 * BINS * SLICES) as usize))];
        (
            buffers,
            vec![(
                "tallies",
                if params.searches_top_k(values.len() as u32) && round < 4 { Compare::Exact } else { Compare::Sums },
            )],
        )
    }))
}

fn words_of(search: Search) -> Vec<u32> {
    bytemuck::cast_slice(&[search]).to_vec()
}

pub fn narrow(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    let both = Sampling { top_k: 40, top_p: 0.9, ..OFF };
    let top_p = Sampling { top_p: 0.25, ..OFF };
    // (what, parameters, round, largest weight of a bin, bins with any)
    let shapes = [
        ("top-k begins", both, 0, 9, 256),
        ("top-k ends", both, 3, 9, 256),
        ("top-p after top-k", both, 4, u32::MAX, 256),
        ("top-p begins", top_p, 0, u32::MAX, 256),
        ("top-p goes on", top_p, 2, u32::MAX, 3),
        ("few tokens", both, 0, 1, 1),
        ("nothing", top_p, 0, 0, 1),
        ("a tiny share", Sampling { top_p: 1e-9, ..OFF }, 0, 1, 2),
        ("idle: all rounds are over", both, 8, 9, 256),
        ("idle: off", OFF, 0, 9, 256),
        ("idle: greedy", Sampling { temperature: 0.0, ..both }, 0, 9, 256),
    ];
    let make = |(what, params, round, most, bins): (&str, Sampling, u32, u32, u32)| {
        let weight = |random: &mut Random, bin: u32| {
            if most > 0 && bin < bins {
                [random.below(most).max(u32::from(most == 1)), random.below(most.min(7))]
            } else {
                [0, 0]
            }
        };
        let mut tallies: Vec<u32> = (0..BINS * SLICES).flat_map(|i| weight(random, i % BINS)).collect();
        if most < u32::MAX {
            tallies.iter_mut().skip(1).step_by(2).for_each(|high| *high = 0);
        }
        let sums: u64 = tallies.chunks_exact(2).map(|p| u64::from(p[0]) | u64::from(p[1]) << 32).sum();
        let missing = sums / 3 + 1;
        let search = Search {
            round,
            prefix: 0xabcd,
            floor_key: 0x8000_0000,
            missing: [missing as u32, (missing >> 32) as u32],
            ..Search::default()
        };
        Case {
            name: what.to_owned(),
            overrides: vec![("V", 4096.0)],
            grid: [1, 1, 1],
            buffers: vec![
                ("state", State { pos: 41, rows: 1, ..State::default() }.words()),
                ("params", params.words()),
                ("tallies", tallies),
                ("searches", words_of(search)),
            ],
            outputs: vec![("searches", Compare::Exact)],
        }
    };
    beside(shapes.into_iter().map(make).collect())
}

pub fn threshold(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    let mut cases = over_logits(shapes(), random, 1, |_, values, random| {
        let floor_key = values.get(random.below(values.len() as u32) as usize).map_or(0, |x| ordered(*x));
        let search = Search { round: 8, floor_key, prefix: floor_key, ..Search::default() };
        let part = maxima(values, random);
        (
            vec![("part", part), ("searches", words_of(search)), ("thr", untouched(4))],
            vec![("thr", Compare::Keys), ("searches", Compare::Exact)],
        )
    });
    // This kernel reads the maxima only.
    cases.iter_mut().for_each(|case| case.buffers.retain(|(name, _)| *name != "logits"));
    beside(cases)
}

pub fn pick(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    beside(over_logits(shapes(), random, SLICES, |params, values, random| {
        let top = ordered(largest(values));
        // Some token's logit: the tokens below it are out.
        let least = values.get(random.below(values.len() as u32) as usize).map_or(0, |x| ordered(*x));
        let thr = if params.temperature == 0.0 { vec![0; 4] } else { vec![least, top, 0, 0] };
        let how = if params.temperature == 0.0 { Compare::Exact } else { Compare::Candidates };
        (vec![("thr", thr), ("cand", untouched(2 * SLICES as usize))], vec![("cand", how)])
    }))
}

pub fn advance(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    if variant.axis("grammar") == Some("walk") {
        return super::grammar::advance(random);
    }
    let mut stop = OFF.stop;
    stop[..3].copy_from_slice(&[900, 901, 5]);
    let stops = Sampling { n_stop: 3, stop, ..OFF };
    let all = Sampling { n_stop: 16, stop: std::array::from_fn(|i| 100 + i as u32), ..OFF };
    let state = State { pos: 10, token: 3, rows: 1, step: 2, limit: 100, ..State::default() };
    let (nan, best) = ([0, AFTER_END], |id: u32| [ordered(50.0), id]);
    // (what, state, parameters, candidates that replace random ones)
    let shapes = [
        ("middle", state, stops, vec![(17, best(77))]),
        ("stop token", state, stops, vec![(63, best(5))]),
        ("no stop token", state, Sampling { n_stop: 2, ..stops }, vec![(63, best(5))]),
        ("last of 16 stop tokens", state, all, vec![(0, best(115))]),
        ("limit", State { step: 99, ..state }, OFF, vec![(1, best(6))]),
        ("beyond the limit", State { step: 100, ..state }, OFF, vec![(1, best(6))]),
        ("ring turns over", State { step: 23, ..state }, OFF, vec![(1, best(6))]),
        ("ties go to the lowest id", state, OFF, vec![(3, best(70)), (9, best(20)), (60, best(30))]),
        ("after a prompt", State { rows: 30, step: 0, pos: 0, ..state }, OFF, vec![(3, best(0))]),
        ("nothing but NaN", state, stops, (0..SLICES as usize).map(|i| (i, nan)).collect()),
        (
            "one candidate",
            state,
            stops,
            (0..SLICES as usize).map(|i| (i, if i == 0 { best(0) } else { nan })).collect(),
        ),
    ];
    shapes
        .into_iter()
        .map(|(what, state, params, replaced)| {
            let mut cand: Vec<[u32; 2]> = (0..SLICES).map(|_| [ordered(random.f32()), random.below(1000)]).collect();
            for (i, candidate) in replaced {
                cand[i] = candidate;
            }
            Case {
                name: what.to_owned(),
                overrides: Vec::new(),
                grid: [1, 1, 1],
                buffers: vec![
                    ("state", state.words()),
                    ("params", params.words()),
                    ("cand", cand.concat()),
                    ("ring", untouched(params.ring_len as usize)),
                ],
                outputs: vec![("state", Compare::Exact), ("ring", Compare::Exact)],
            }
        })
        .collect()
}

/// (V, parameters, logits, tokens sampled so far)
fn penalties() -> Vec<(usize, Sampling, Kind, u32)> {
    let all = Sampling { presence: 0.5, frequency: 0.25, repetition: 1.3, ..OFF };
    vec![
        (301, OFF, Kind::Odd, 0),
        (1, all, Kind::Flat, 1),
        (255, Sampling { presence: -2.0, ..OFF }, Kind::Steps, 3),
        (301, Sampling { frequency: 2.0, ..OFF }, Kind::Steps, 3),
        (4096, Sampling { repetition: 0.7, temperature: 0.0, ..OFF }, Kind::Odd, 9),
        (128_256, all, Kind::Steps, 100),
    ]
}

pub fn penalize(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    let make = |(v, params, kind, step): (usize, Sampling, Kind, u32)| {
        let tally = |random: &mut Random| {
            let seen = [0, 0, 1, 2, 700, IN_PROMPT, IN_PROMPT | 1, IN_PROMPT | 3][random.below(8) as usize];
            let bias = [0.0, 0.0, -100.0, 7.5][random.below(4) as usize];
            [seen, f32::to_bits(bias)]
        };
        let tallies = (0..v).flat_map(|_| tally(random)).collect();
        // The last token sampled.
        let token = random.below(v as u32);
        Case {
            name: format!(
                "V={v} presence={} frequency={} repetition={} step={step} {kind:?}",
                params.presence, params.frequency, params.repetition
            ),
            overrides: vec![("V", v as f64)],
            grid: [SLICES, 1, 1],
            buffers: vec![
                ("state", State { pos: 41, rows: 1, step, token, ..State::default() }.words()),
                ("params", params.words()),
                ("logits", padded(&logits(random, v, kind))),
                ("tallies", tallies),
                ("raw", untouched(v)),
                // Of rows of several sequences: the first and the last have sampled the same token.
                ("tokens", [token, 0, token, 0].repeat(2)),
            ],
            outputs: vec![("logits", super::compare::F32), ("tallies", Compare::Exact), ("raw", Compare::Exact)],
        }
    };
    let mut cases: Vec<Case> = penalties().into_iter().map(make).collect();
    // The rows are the first case: one with tokens sampled before.
    cases.rotate_left(3);
    beside_with(cases, &OF_LOGITS)
}

/// (V, how many of the likeliest, logits)
fn likeliest() -> Vec<(usize, u32, Kind)> {
    vec![
        (301, 5, Kind::Steps),
        (1, 3, Kind::Steps),
        (4096, 0, Kind::Steps),
        (4096, 20, Kind::Odd),
        (700, 20, Kind::Flat),
        (300, 2, Kind::Nan),
        (128_256, 20, Kind::Steps),
        (16_385, 1, Kind::Odd),
    ]
}

pub fn logprobs(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    let make = |(v, top_logprobs, kind): (usize, u32, Kind)| Case {
        name: format!("V={v} top={top_logprobs} {kind:?}"),
        overrides: vec![("V", v as f64)],
        grid: [SLICES, 1, 1],
        buffers: vec![
            ("state", State { pos: 41, rows: 1, ..State::default() }.words()),
            ("params", Sampling { top_logprobs, ..OFF }.words()),
            ("raw", padded(&logits(random, v, kind))),
            ("sums", untouched(2 * SLICES as usize)),
            ("tops", untouched(2 * TOP * SLICES as usize)),
        ],
        outputs: vec![("sums", Compare::Chosen), ("tops", Compare::Exact)],
    };
    beside_with(likeliest().into_iter().map(make).collect(), &OF_LOGITS)
}

pub fn logprobs_append(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (how many of the likeliest, slices that have tokens, step)
    let shapes = [(0, 64, 0), (5, 64, 3), (20, 64, 7), (20, 1, 9), (3, 2, 100), (2, 0, 1)];
    let make = |(wanted, slices, step): (usize, usize, u32)| {
        let raw: Vec<f32> = (0..SLICES as usize * TOP).map(|_| random.f32() * 8.0).collect();
        // Slice w has the tokens 20 w to 20 w + 19; those beyond `slices` have none.
        let of = |w: usize| {
            let mut best: Vec<[u32; 2]> = (w * TOP..(w + 1) * TOP).map(|id| [ordered(raw[id]), id as u32]).collect();
            best.sort_unstable_by_key(|&[key, id]| (std::cmp::Reverse(key), id));
            if w < slices { best } else { vec![[0, AFTER_END]; TOP] }
        };
        let tops: Vec<[u32; 2]> = (0..SLICES as usize).flat_map(of).collect();
        let sums: Vec<u32> = (0..SLICES as usize)
            .flat_map(|w| [tops[w * TOP][0], if w < slices { (1.0 + w as f32).to_bits() } else { 0 }])
            .collect();
        let mut cand = vec![[0, AFTER_END]; SLICES as usize];
        if slices > 0 {
            cand[slices - 1] = [ordered(1.0), ((slices - 1) * TOP) as u32 + 3];
        }
        let ring = OFF.ring_len as usize;
        Case {
            name: format!("top={wanted} slices={slices} step={step}"),
            overrides: vec![("V", raw.len() as f64)],
            grid: [1, 1, 1],
            buffers: vec![
                ("state", State { pos: 41, rows: 1, step, ..State::default() }.words()),
                ("params", Sampling { top_logprobs: wanted as u32, ..OFF }.words()),
                ("cand", cand.concat()),
                ("raw", words(&raw)),
                ("sums", sums),
                ("tops", tops.concat()),
                ("ids", untouched(ring * TOP)),
                ("logprobs", untouched(ring * (TOP + 1))),
            ],
            outputs: vec![("ids", Compare::Exact), ("logprobs", super::compare::F32)],
        }
    };
    let mut cases: Vec<Case> = shapes.into_iter().map(make).collect();
    // The rows are the first case: one with likeliest tokens, and not the first step.
    cases.rotate_left(1);
    beside_with(cases, &OF_LOGITS)
}
