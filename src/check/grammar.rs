//! Grammars at random: what a byte does follows no sense, so that every way through the kernels is taken.

use millrace_grammar::category::{CATEGORIES, state_categories};
use millrace_grammar::{CLASS_WORDS, MAX_STACK, SYMBOL_WORDS, entry};

use super::random::{Random, untouched};
use super::{Case, Compare};
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

/// A grammar, a vocabulary and a text's state in the grammar: the bindings of both kernels.
struct Bound {
    automaton: Automaton,
    vocabulary: Vocabulary,
    walk: Vec<u32>,
}

impl Bound {
    fn new(random: &mut Random, states: u32, v: usize, at: At) -> Self {
        let automaton = automaton(random, states);
        let walk = walk(random, &automaton, at);
        Self { vocabulary: vocabulary(random, v), automaton, walk }
    }

    fn buffers(self) -> [(&'static str, Vec<u32>); 4] {
        let words = Grammar { automaton: self.automaton, warnings: Vec::new(), ms: 0.0 }.words();
        let Vocabulary { heads, mut bytes, .. } = self.vocabulary;
        bytes.push(0);
        [("automaton", words), ("walk", self.walk), ("vocabulary", heads), ("token_bytes", bytes)]
    }
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

pub fn constrain(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    let make = |(states, v, at): (u32, usize, At)| {
        let bound = Bound::new(random, states, v, at);
        Case {
            name: format!("V={v} states={states} {at:?}"),
            overrides: vec![("V", v as f64)],
            grid: [(v as u32).div_ceil(256), 1, 1],
            buffers: [("state", State { pos: 41, rows: 1, ..State::default() }.words())]
                .into_iter()
                .chain(bound.buffers())
                .chain([("logits", random.f32s(v, 8.0).into_iter().map(f32::to_bits).collect())])
                .collect(),
            outputs: vec![("logits", Compare::Exact)],
        }
    };
    SHAPES.into_iter().map(make).collect()
}

/// The walking variant of `advance`: tokens that the grammar lets through, and the one that ends the text.
pub fn advance(random: &mut Random) -> Vec<Case> {
    let make = |(states, v, at): (u32, usize, At)| {
        let bound = Bound::new(random, states, v, at);
        let walk = Walk::from_words(&bound.automaton, &bound.walk).unwrap_or_else(|| panic!("a walk of this grammar"));
        // The longest that is allowed: it does the most.
        let longest = (0..v)
            .filter(|id| walk.allowed(&bound.automaton, bound.vocabulary.token(*id)))
            .max_by_key(|id| bound.vocabulary.token(*id).len());
        let stop = (0..v).find(|id| bound.vocabulary.is_stop(*id));
        let chosen = longest.or(stop).unwrap_or_default() as u32;
        let mut cand = vec![[0, crate::sample::AFTER_END]; SLICES as usize];
        cand[random.below(SLICES) as usize] = [ordered(1.0), chosen];
        Case {
            name: format!(
                "V={v} states={states} {at:?} token of {} bytes",
                bound.vocabulary.token(chosen as usize).len()
            ),
            overrides: Vec::new(),
            grid: [1, 1, 1],
            buffers: [
                ("state", State { pos: 10, token: 3, rows: 1, step: 2, limit: 100, ..State::default() }.words()),
                ("params", Sampling::OFF.words()),
                ("cand", cand.concat()),
                ("ring", untouched(Sampling::OFF.ring_len as usize)),
            ]
            .into_iter()
            .chain(bound.buffers())
            .collect(),
            outputs: vec![("state", Compare::Exact), ("ring", Compare::Exact), ("walk", Compare::Exact)],
        }
    };
    SHAPES.into_iter().map(make).collect()
}
