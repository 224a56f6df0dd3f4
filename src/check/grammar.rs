//! Grammars at random: what a byte does follows no sense, so that every way through the kernels is taken.

use millrace_grammar::category::{CATEGORIES, state_categories};
use millrace_grammar::{CLASS_WORDS, MAX_STACK, SYMBOL_WORDS, entry};

use super::inputs::{Random, untouched};
use super::{Case, Compare};
use crate::base::numbers::FEW_ROWS;
use crate::cpu::sampling::ordered;
use crate::grammar::{Automaton, Grammar, Vocabulary, WALK_WORDS, Walk};
use crate::kernels::{State, Variant};
use crate::sample::{SLICES, Sampling};

/// How a case's text stands in its grammar.
#[derive(Debug, Clone, Copy, PartialEq)]
enum At {
    /// Anywhere.
    Somewhere,
    /// With nothing on the stack.
    Bottom,
    /// With no room on the stack.
    Top,
    /// Behind as much white space as there may be.
    Padded,
}

fn automaton(random: &mut Random, states: u32) -> Automaton {
    let (classes, symbols, outcomes) = (4 + random.below(20), 1 + random.below(6), 3);
    // Characters of a kind do the same, as in grammars of JSON: else nothing would ever loop.
    let mut class_of: Vec<u8> = (0..256).map(|_| random.below(classes) as u8).collect();
    for ranges in CATEGORIES {
        let class = random.below(classes) as u8;
        ranges.iter().for_each(|&(lo, hi)| class_of[usize::from(lo)..=usize::from(hi)].fill(class));
    }
    let wide = random.below(classes) as u8;
    class_of[0x80..].fill(wide);
    let mut info: Vec<u32> = class_of.chunks(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
    let returns = CLASS_WORDS + SYMBOL_WORDS * symbols as usize;
    for symbol in 0..symbols {
        let base = returns as u32 + symbol * outcomes;
        info.extend([base, random.below(4), [u32::MAX, 3, 40][random.below(3) as usize]]);
    }
    info.extend((0..symbols * outcomes).map(|_| random.below(states)));
    let mut table = vec![0; classes as usize];
    for state in 1..states {
        let counts = if random.below(2) == 0 { entry::COUNT } else { 0 };
        table.extend((0..classes).map(|_| {
            let to = random.below(states);
            match random.below(16) {
                0..=2 => 0,
                3..=7 => state | counts,
                8..=9 => to,
                10 => entry::COUNT | to,
                11..=12 => entry::SPACE << 30 | to,
                13 => entry::PUSH << 30 | random.below(symbols) << 16 | to,
                _ => entry::POP << 30 | random.below(outcomes),
            }
        }));
    }
    let info_of = |it: &Automaton, random: &mut Random| {
        (0..states).map(|s| state_categories(it, s) | random.below(2) << 17).collect()
    };
    let states_info = vec![0; states as usize];
    let mut it = Automaton::from_parts(table, info, states_info, classes, states, symbols, 1)
        .unwrap_or_else(|| panic!("a grammar that fits together"));
    it.states_info = info_of(&it, random);
    it
}

fn vocabulary(random: &mut Random, v: usize) -> Vocabulary {
    let character = |random: &mut Random| match random.below(10) {
        0 => char::from_u32(0x80 + random.below(0x700)),
        1 => char::from_u32(0x1_f300 + random.below(0x80)),
        _ => char::from_u32(0x20 + random.below(0x5f)),
    };
    let token = |random: &mut Random| -> Vec<u8> {
        let few = random.below(3);
        let length = [0, 1, 1, 2, 2, 3, 4, 5, 9, 17, 40][random.below(11) as usize];
        let repeated = character(random);
        let text: String = (0..length).filter_map(|_| if few == 0 { repeated } else { character(random) }).collect();
        let mut bytes = text.into_bytes();
        // Tokens end within characters.
        bytes.truncate(bytes.len().saturating_sub((random.below(8) == 0).into()));
        bytes
    };
    let tokens: Vec<Vec<u8>> = (0..v).map(|_| token(random)).collect();
    let stop = random.below(v as u32) as usize;
    Vocabulary::new(tokens.iter().map(Vec::as_slice), |id| id == stop)
}

/// Words of a walk: a buffer of [`WALK_WORDS`].
fn walk(random: &mut Random, it: &Automaton, at: At) -> Vec<u32> {
    let depth = match at {
        At::Bottom => 0,
        At::Top => MAX_STACK as u32,
        At::Somewhere | At::Padded => 1 + random.below(5),
    };
    let run = if at == At::Padded { 64 } else { random.below(60) };
    let mut words = vec![1 + random.below(it.states - 1), depth, random.below(5), run];
    words.extend((0..depth).flat_map(|_| [random.below(it.symbols), random.below(5)]));
    words.resize(WALK_WORDS, 0);
    words
}

/// The grammar of a row, and its text's state in it.
struct Walked {
    automaton: Automaton,
    walk: Vec<u32>,
}

impl Walked {
    fn new(random: &mut Random, states: u32, at: At) -> Self {
        let automaton = automaton(random, states);
        let walk = walk(random, &automaton, at);
        Self { automaton, walk }
    }

    fn walk(&self) -> Walk {
        Walk::from_words(&self.automaton, &self.walk).unwrap_or_else(|| panic!("a walk of this grammar"))
    }

    /// Whether the grammar forbids a token.
    fn forbids(&self, vocabulary: &Vocabulary) -> bool {
        let walk = self.walk();
        let allowed = |id: usize| match vocabulary.is_stop(id) {
            true => walk.accepting(&self.automaton),
            false => walk.allowed(&self.automaton, vocabulary.token(id)),
        };
        !(0..vocabulary.len()).all(allowed)
    }

    /// Whether a token leads to another state, stack or counter.
    fn moves(&self, vocabulary: &Vocabulary, id: u32) -> bool {
        let (before, mut walk) = (self.walk(), self.walk());
        !vocabulary.is_stop(id as usize)
            && walk.advance_token(&self.automaton, vocabulary.token(id as usize))
            && walk != before
    }

    /// The longest token that is allowed, which does the most; else the one that ends a text.
    fn choice(&self, vocabulary: &Vocabulary) -> u32 {
        let walk = self.walk();
        let longest = (0..vocabulary.len())
            .filter(|id| walk.allowed(&self.automaton, vocabulary.token(*id)))
            .max_by_key(|id| vocabulary.token(*id).len());
        let stop = (0..vocabulary.len()).find(|id| vocabulary.is_stop(*id));
        longest.or(stop).unwrap_or_default() as u32
    }
}

/// The bindings of all kernels that walk: of each row its grammar, if it has one.
fn bound(rows: &[Option<Walked>], vocabulary: Vocabulary) -> [(&'static str, Vec<u32>); 4] {
    let mut words = vec![0; FEW_ROWS as usize];
    let mut walks = vec![0; rows.len() * WALK_WORDS];
    for (row, walked) in rows.iter().enumerate() {
        let Some(Walked { automaton, walk }) = walked else { continue };
        words[row] = words.len() as u32;
        words.extend(Grammar { automaton: automaton.clone(), warnings: Vec::new(), ms: 0.0 }.words());
        walks[row * WALK_WORDS..][..WALK_WORDS].copy_from_slice(walk);
    }
    let Vocabulary { heads, mut bytes, .. } = vocabulary;
    bytes.push(0);
    [("automaton", words), ("walk", walks), ("vocabulary", heads), ("token_bytes", bytes)]
}

/// Four rows of several sequences: with a grammar, without, with another, and with one whose text has ended.
fn rows(random: &mut Random, states: u32, at: At) -> (State, Vec<Option<Walked>>) {
    let mut state = State { rows: 4, apart: 1, ..State::default() };
    state.each[..4].copy_from_slice(&[[41, 0, 5, 0], [3, 1, 9, 0], [77, 2, 1, 0], [20, 3, 0, 0]]);
    let walked = (0..4).map(|row| (row != 1).then(|| Walked::new(random, states + row, at)));
    (state, walked.collect())
}

/// The grammars of the rows that have not ended.
fn active<'a>(state: &State, rows: &'a [Option<Walked>]) -> impl Iterator<Item = &'a Walked> + use<'a> {
    let rests: Vec<bool> = (0..rows.len()).map(|row| state.rests(row)).collect();
    rows.iter().zip(rests).filter(|(_, rests)| !rests).filter_map(|(walked, _)| walked.as_ref())
}

/// What the names of cases begin with in which a kernel has nothing to write.
fn idle(writes_nothing: bool) -> &'static str {
    if writes_nothing { "idle: " } else { "" }
}

/// The candidates of rows, of which each is to choose one token.
fn candidates(random: &mut Random, choices: impl Iterator<Item = u32>) -> Vec<u32> {
    let of_row = |choice| {
        let mut cand = vec![[0, crate::sample::AFTER_END]; SLICES as usize];
        cand[random.below(SLICES) as usize] = [ordered(1.0), choice];
        cand.concat()
    };
    choices.flat_map(of_row).collect()
}

/// (states, tokens, where)
const SHAPES: [(u32, usize, At); 7] = [
    (12, 700, At::Somewhere),
    (3, 301, At::Bottom),
    (40, 4096, At::Somewhere),
    (12, 257, At::Top),
    (12, 512, At::Padded),
    (2, 1, At::Bottom),
    (700, 32_000, At::Somewhere),
];

/// Logits of no token behind those of each row.
const PADDING: usize = 3;

pub fn constrain(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    let make = |(states, v, at, apart): (u32, usize, At, bool)| {
        let (state, rows) = if apart {
            rows(random, states, at)
        } else {
            (State { pos: 41, rows: 1, ..State::default() }, vec![Some(Walked::new(random, states, at))])
        };
        let vocabulary = vocabulary(random, v);
        let forbids = active(&state, &rows).any(|walked| walked.forbids(&vocabulary));
        let logits = random.f32s(rows.len() * (v + if apart { PADDING } else { 0 }), 8.0);
        let more = [("BESIDE", 1.0), ("PADDING", PADDING as f64)];
        Case {
            name: format!("{}V={v} states={states} {at:?} T={}", idle(!forbids), rows.len()),
            overrides: [&[("V", v as f64)], &more[..if apart { 2 } else { 0 }]].concat(),
            grid: [(v as u32).div_ceil(256), rows.len() as u32, 1],
            buffers: [("state", state.words())]
                .into_iter()
                .chain(bound(&rows, vocabulary))
                .chain([("logits", logits.into_iter().map(f32::to_bits).collect())])
                .collect(),
            outputs: vec![("logits", Compare::Exact)],
        }
    };
    let apart = [(12, 701, At::Somewhere, true), (40, 256, At::Bottom, true)];
    SHAPES.into_iter().map(|(states, v, at)| (states, v, at, false)).chain(apart).map(make).collect()
}

/// The walking variant of `advance`: tokens that the grammar lets through, and the one that ends the text.
pub fn advance(random: &mut Random) -> Vec<Case> {
    let make = |(states, v, at): (u32, usize, At)| {
        let (walked, vocabulary) = (Walked::new(random, states, at), vocabulary(random, v));
        let chosen = walked.choice(&vocabulary);
        let cand = candidates(random, std::iter::once(chosen));
        Case {
            name: format!("V={v} states={states} {at:?} token of {} bytes", vocabulary.token(chosen as usize).len()),
            overrides: Vec::new(),
            grid: [1, 1, 1],
            buffers: [
                ("state", State { pos: 10, token: 3, rows: 1, step: 2, limit: 100, ..State::default() }.words()),
                ("params", Sampling::OFF.words()),
                ("cand", cand),
                ("ring", untouched(Sampling::OFF.ring_len as usize)),
            ]
            .into_iter()
            .chain(bound(&[Some(walked)], vocabulary))
            .collect(),
            outputs: vec![("state", Compare::Exact), ("ring", Compare::Exact), ("walk", Compare::Exact)],
        }
    };
    SHAPES.into_iter().map(make).collect()
}

/// Rows with a grammar take their tokens; those without, and those that have ended, stay as they are.
pub fn walk_rows(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    let make = |(states, v, at): (u32, usize, At)| {
        let ((state, rows), vocabulary) = (rows(random, states, at), vocabulary(random, v));
        let choices = rows.iter().map(|row| row.as_ref().map_or(0, |walked| walked.choice(&vocabulary)));
        let cand = candidates(random, choices);
        let moves = active(&state, &rows).any(|walked| walked.moves(&vocabulary, walked.choice(&vocabulary)));
        Case {
            name: format!("{}V={v} states={states} {at:?}", idle(!moves)),
            overrides: vec![("BESIDE", 1.0)],
            grid: [1, 4, 1],
            buffers: [("state", state.words()), ("cand", cand)].into_iter().chain(bound(&rows, vocabulary)).collect(),
            outputs: vec![("walk", Compare::Exact)],
        }
    };
    SHAPES.into_iter().map(make).collect()
}
