use super::random::{Random, untouched, words};
use super::{Case, Compare};
use crate::cpu::sampling::ordered;
use crate::kernels::{State, Variant};
use crate::sample::{AFTER_END, IN_PROMPT, MAX_STOP, MAX_TOP_LOGPROBS as TOP, SLICES, Sampling};

const OFF: Sampling = Sampling {
    temperature: 1.0,
    top_p: 1.0,
    min_p: 0.0,
    top_k: 0,
    seed_lo: 7,
    seed_hi: 9,
    n_stop: 0,
    ring_len: 8,
    presence: 0.0,
    frequency: 0.0,
    repetition: 1.0,
    top_logprobs: 0,
    stop: [0; MAX_STOP],
};

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
    let mut words = words(values);
    words.resize(values.len().next_multiple_of(4), f32::INFINITY.to_bits());
    words
}

/// The cases of one of the three kernels that look at all logits.
fn over_logits(
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
            buffers: [("state", State { pos: 41, rows: 1, ..State::default() }.words()), ("params", params.words()), ("logits", padded(&values))]
                .into_iter()
                .chain(buffers)
                .collect(),
            outputs,
        }
    };
    shapes().into_iter().map(make).collect()
}

pub fn logit_stats(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    over_logits(random, SLICES, |_, _, _| (vec![("part", untouched(SLICES as usize))], vec![("part", Compare::Exact)]))
}

fn largest(values: &[f32]) -> f32 {
    values.iter().copied().filter(|x| !x.is_nan()).fold(f32::MIN, f32::max)
}

pub fn threshold(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    over_logits(random, 1, |_, values, random| {
        let mut part = vec![f32::MIN; SLICES as usize];
        part[random.below(SLICES) as usize] = largest(values);
        (vec![("part", words(&part)), ("thr", untouched(4))], vec![("thr", Compare::Keys)])
    })
}

pub fn pick(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    over_logits(random, SLICES, |params, values, random| {
        let top = ordered(largest(values));
        // Some token's logit: the tokens below it are out.
        let least = values.get(random.below(values.len() as u32) as usize).map_or(0, |x| ordered(*x));
        let thr = if params.temperature == 0.0 { vec![0; 4] } else { vec![least, top, 0, 0] };
        let how = if params.temperature == 0.0 { Compare::Exact } else { Compare::Candidates };
        (vec![("thr", thr), ("cand", untouched(2 * SLICES as usize))], vec![("cand", how)])
    })
}

pub fn advance(_: &'static Variant, random: &mut Random) -> Vec<Case> {
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
        ("nothing but NaN", state, stops, (0..64).map(|i| (i, nan)).collect()),
        ("one candidate", state, stops, (0..64).map(|i| (i, if i == 0 { best(0) } else { nan })).collect()),
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
                buffers: vec![("state", state.words()), ("params", params.words()), ("cand", cand.concat()), ("ring", untouched(params.ring_len as usize))],
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
            name: format!("V={v} presence={} frequency={} repetition={} step={step} {kind:?}", params.presence, params.frequency, params.repetition),
            overrides: vec![("V", v as f64)],
            grid: [SLICES, 1, 1],
            buffers: vec![
                ("state", State { pos: 41, rows: 1, step, token, ..State::default() }.words()),
                ("params", params.words()),
                ("logits", padded(&logits(random, v, kind))),
                ("tallies", tallies),
                ("raw", untouched(v)),
            ],
            outputs: vec![("logits", super::compare::F32), ("tallies", Compare::Exact), ("raw", Compare::Exact)],
        }
    };
    penalties().into_iter().map(make).collect()
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
    likeliest().into_iter().map(make).collect()
}

pub fn logprobs_append(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (how many of the likeliest, slices that have tokens, step)
    let shapes = [(0, 64, 0), (5, 64, 3), (20, 64, 7), (20, 1, 9), (3, 2, 100), (2, 0, 1)];
    let make = |(wanted, slices, step): (usize, usize, u32)| {
        let raw: Vec<f32> = (0..64 * TOP).map(|_| random.f32() * 8.0).collect();
        // Slice w has the tokens 20 w to 20 w + 19; those beyond `slices` have none.
        let of = |w: usize| {
            let mut best: Vec<[u32; 2]> = (w * TOP..(w + 1) * TOP).map(|id| [ordered(raw[id]), id as u32]).collect();
            best.sort_unstable_by_key(|&[key, id]| (std::cmp::Reverse(key), id));
            if w < slices { best } else { vec![[0, AFTER_END]; TOP] }
        };
        let tops: Vec<[u32; 2]> = (0..64).flat_map(of).collect();
        let sums: Vec<u32> = (0..64).flat_map(|w| [tops[w * TOP][0], if w < slices { (1.0 + w as f32).to_bits() } else { 0 }]).collect();
        let mut cand = vec![[0, AFTER_END]; 64];
        if slices > 0 {
            cand[slices - 1] = [ordered(1.0), ((slices - 1) * TOP) as u32 + 3];
        }
        let ring = OFF.ring_len as usize;
        Case {
            name: format!("top={wanted} slices={slices} step={step}"),
            overrides: Vec::new(),
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
    shapes.into_iter().map(make).collect()
}
