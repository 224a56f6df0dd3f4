use super::inputs::{Random, untouched};
use super::{Case, Compare};
use crate::base::numbers::FEW_ROWS;
use crate::cpu::sampling::ordered;
use crate::kernels::{State, Variant};
use crate::sample::{AFTER_END, NOT_A_NUMBER, SLICES, Sampling};

const ROWS: usize = FEW_ROWS as usize;

pub fn draft(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    let long: Vec<u32> = (0..900).map(|_| random.below(12)).collect();
    // (what, rows of a step, text, tokens sampled so far of 100)
    let shapes: [(&str, u32, Vec<u32>, u32); 9] = [
        ("four tokens before three", 8, vec![1, 2, 3, 4, 50, 60, 9, 2, 3, 4, 70, 80, 1, 2, 3, 4], 0),
        ("the latest place", 4, vec![7, 8, 1, 5, 7, 8, 2, 5, 7, 8, 3, 9, 7, 8], 0),
        ("two tokens at the beginning", 8, vec![7, 8, 1, 2, 3, 4, 5, 6, 0, 7, 8], 0),
        ("one token is none", 8, vec![7, 8, 1, 9, 8], 0),
        ("a period", 8, vec![3, 1, 2, 1, 2, 1, 2], 0),
        ("one and the same", 4, vec![5, 5, 5], 0),
        ("a text of one token", 4, vec![5], 0),
        ("the limit is near", 8, vec![7, 8, 1, 2, 7, 8], 97),
        ("many places", 8, long, 5),
    ];
    let make = |(what, rows, text, step): (&str, u32, Vec<u32>, u32)| {
        let state = State {
            pos: text.len() as u32 - 1,
            token: *text.last().unwrap_or(&0),
            rows: 1,
            step,
            limit: 100,
            ..State::default()
        };
        let mut held = text;
        // What comes behind is of earlier texts.
        held.extend([7, 8, 7, 8]);
        Case {
            name: what.to_owned(),
            overrides: vec![("T", f64::from(rows))],
            grid: [1, 1, 1],
            buffers: vec![("state", state.words()), ("text", held), ("tokens", untouched(ROWS))],
            outputs: vec![("state", Compare::Exact), ("tokens", Compare::Exact)],
        }
    };
    shapes.into_iter().map(make).collect()
}

pub fn drafter_begin(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    let state = State {
        pos: 70,
        token: 9,
        rows: 4,
        step: 30,
        limit: 100,
        slot: 3,
        turn: 8,
        taken: 5,
        kept: 4,
        ..State::default()
    };
    // The draft model is done with the text before, in a slot of its own.
    let drafter = State { pos: 12, token: 4, done: 1, rows: 1, step: 7, limit: u32::MAX, slot: 1, ..State::default() };
    let at = State { pos: random.below(4096), token: random.below(1000), ..state };
    let later = State { done: 0, turn: 1, side: 1, kept: 7, ..drafter };
    let make = |(what, state, drafter): (&str, State, State)| Case {
        name: what.to_owned(),
        overrides: Vec::new(),
        grid: [1, 1, 1],
        buffers: vec![("state", state.words()), ("drafter", drafter.words())],
        outputs: vec![("drafter", Compare::Exact)],
    };
    let cases = [
        ("a step of one row", State { rows: 1, ..state }, drafter),
        ("anywhere", at, drafter),
        ("later", state, later),
    ];
    cases.into_iter().map(make).collect()
}

pub fn drafter_end(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    let vocab = 1000;
    let good: [u32; 7] = std::array::from_fn(|_| random.below(vocab));
    let with = |at: usize, id| std::array::from_fn(|i| if i == at { id } else { good[i] });
    // (what, rows of a step, drafts, tokens sampled so far of 100)
    let shapes: [(&str, u32, [u32; 7], u32); 8] = [
        ("three drafts", 4, good, 0),
        ("five drafts", 6, good, 9),
        ("seven drafts", 8, good, 1),
        ("no number among the logits", 8, with(4, NOT_A_NUMBER), 1),
        ("the end of the draft model's text", 8, with(1, AFTER_END), 1),
        ("a first token that the model does not have", 4, with(0, vocab), 1),
        ("the limit is near", 8, good, 97),
        ("the limit is next", 8, good, 99),
    ];
    let make = |(what, rows, drafts, step): (&str, u32, [u32; 7], u32)| {
        let state = State { pos: 50, token: 77, rows: 1, step, limit: 100, turn: 3, ..State::default() };
        Case {
            name: what.to_owned(),
            overrides: vec![("T", f64::from(rows)), ("V", f64::from(vocab))],
            grid: [1, 1, 1],
            // Behind the drafts are those of the step before.
            buffers: vec![
                ("state", state.words()),
                ("ring", [&drafts[..], &[1, 2, 3]].concat()),
                ("tokens", untouched(ROWS)),
            ],
            outputs: vec![("state", Compare::Exact), ("tokens", Compare::Exact)],
        }
    };
    shapes.into_iter().map(make).collect()
}

/// The state with rows of several sequences; `left`: the tokens that each may still sample.
fn of_several(state: State, left: [u32; 4]) -> State {
    let mut each = state.each;
    for (t, left) in left.into_iter().enumerate() {
        each[t] = [10 * t as u32 + 3, 7 - t as u32, left, 0];
    }
    State { apart: 1, pos: 0, step: 0, each, ..state }
}

pub fn accept(_: &'static Variant, random: &mut Random) -> Vec<Case> {
    let stops = Sampling { n_stop: 1, stop: std::array::from_fn(|i| 900 + i as u32), ..Sampling::OFF };
    let state =
        State { pos: 10, token: 3, rows: 4, step: 2, limit: 100, turn: 5, kept: 3, side: 1, ..State::default() };
    let apart = |left| of_several(state, left);
    // (what, state, what the rows read, what is chosen after them)
    let shapes: [(&str, State, [u32; 4], [u32; 4]); 13] = [
        ("several sequences", apart([5, 2, 0, 9]), [3, 20, 21, 22], [20, 21, 22, 23]),
        ("a stop token of one's own", apart([5, 2, 3, 9]), [3, 20, 21, 22], [20, 900, 900, 23]),
        ("not a number of one of several", apart([5, 1, 3, 9]), [3, 20, 21, 22], [AFTER_END, 21, 22, 23]),
        ("the end of all of several", apart([1, 0, 1, 9]), [3, 20, 21, 22], [20, 21, 22, 900]),
        ("all", state, [3, 20, 21, 22], [20, 21, 22, 23]),
        ("two of three", state, [3, 20, 21, 22], [20, 21, 99, 22]),
        ("none", State { side: 0, ..state }, [3, 20, 21, 22], [19, 20, 21, 22]),
        ("right again after a wrong one", state, [3, 20, 21, 22], [19, 21, 22, 23]),
        ("a stop token among them", state, [3, 20, 900, 22], [20, 900, 22, 23]),
        ("the limit", State { step: 98, ..state }, [3, 20, 21, 22], [20, 21, 22, 23]),
        ("one row", State { rows: 1, turn: 15, ..state }, [3, 20, 21, 22], [20, 21, 22, 23]),
        ("not a number", state, [3, 20, 21, 22], [20, AFTER_END, 22, 23]),
        ("the end of the text", State { pos: 39, ..state }, [3, 20, 21, 22], [20, 21, 22, 23]),
    ];
    // The second row's texts do not stop.
    let params =
        [stops, Sampling::OFF, stops, stops].map(|params| params.words()[..Sampling::BYTES / 4].to_vec()).concat();
    let make = |(what, state, tokens, chosen): (&str, State, [u32; 4], [u32; 4])| {
        let mut cand: Vec<[u32; 2]> =
            (0..ROWS as u32 * SLICES).map(|_| [ordered(random.f32()), random.below(1000)]).collect();
        for (t, token) in chosen.into_iter().enumerate() {
            let of_row = &mut cand[t * SLICES as usize..][..SLICES as usize];
            match token {
                AFTER_END => of_row.fill([0, AFTER_END]),
                _ => of_row[random.below(SLICES) as usize] = [ordered(50.0), token],
            }
        }
        Case {
            name: what.to_owned(),
            overrides: Vec::new(),
            grid: [1, 1, 1],
            buffers: vec![
                ("state", state.words()),
                ("params", [&params[..], &vec![0; Sampling::ROOM / 4 - params.len()]].concat()),
                ("cand", cand.concat()),
                ("tokens", [&tokens[..], &[0; 4]].concat()),
                ("accepted", untouched(stops.ring_len as usize * (ROWS + 1))),
                ("text", untouched(41)),
            ],
            outputs: vec![
                ("state", Compare::Exact),
                ("accepted", Compare::Exact),
                ("tokens", Compare::Exact),
                ("text", Compare::Exact),
            ],
        }
    };
    shapes.into_iter().map(make).collect()
}
