//! Speculative decoding: steps read drafts after the next token, copied from an earlier occurrence of the text's end
//! (prompt lookup) or made by a draft model. The GPU drafts, verifies and accepts ([`crate::plan::Pass::Four`]); the
//! host decides how many drafts the next chunk's steps have, and whose. It simulates lookups on the text that it has
//! read, which costs the GPU nothing while none are used. A draft model is tried, and rests where it does not pay.

use super::drafter::DRAFTS;
use crate::base::numbers::FEW_ROWS;
use crate::cpu::place;
use crate::error::{Error, Result};
use crate::plan::Pass;
use crate::sample::AFTER_END;

/// Whether steps read drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Speculate {
    /// Never.
    #[default]
    Off,
    /// Where drafts pay.
    Auto,
    /// In each step, for measurements and tests.
    Always,
}

impl Speculate {
    /// The option's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Always => "always",
        }
    }

    /// The option of that name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            "always" => Ok(Self::Always),
            _ => Err(Error::bad_option(format!("speculate {name} is not known; use auto, off or always"))),
        }
    }
}

/// Simulated steps of `rows` rows.
struct Steps {
    pass: Pass,
    rows: usize,
    /// The index in the text that the next step would read.
    at: usize,
    /// Tokens that a step takes, on average.
    tokens: f64,
    /// The share of steps that have drafts.
    drafted: f64,
    /// Of how many steps these are the averages.
    known: f64,
    /// Assumed costs of a step without drafts and of one with, in steps of one row, until they are measured.
    costs: [f64; 2],
    /// Milliseconds of a step, once measured.
    ms: Option<f64>,
}

impl Steps {
    /// Simulates steps over the text from the end of the last step on.
    fn follow(&mut self, text: &[u32]) {
        while self.at + self.rows <= text.len() {
            let known = &text[..=self.at];
            let place = place(known);
            let right = place.map_or(0, |place| {
                let draft = |i: usize| text[place + 1 + i % (self.at - place)];
                (0..self.rows - 1).take_while(|i| draft(*i) == text[self.at + 1 + i]).count()
            });
            self.known = (self.known + 1.0).min(LAST);
            let learn = |average: &mut f64, now: f64| *average += (now - *average) / self.known;
            learn(&mut self.tokens, (right + 1) as f64);
            learn(&mut self.drafted, f64::from(u8::from(place.is_some())));
            self.at += right + 1;
        }
    }

    /// The cost of a step in steps of one row, which take `one` ms.
    fn cost(&self, one: Option<f64>) -> f64 {
        let [bare, full] = self.costs;
        one.zip(self.ms).map_or(bare + (full - bare) * self.drafted, |(one, ms)| ms / one.max(1e-3))
    }
}

/// As how many steps that took one token an answer begins, until its own are known.
const DOUBT: f64 = 2.0;
/// Steps that averages are of, at most: they forget a tenth with each.
const LAST: f64 = 10.0;
/// Drafts are used where they are faster than none by this factor.
const WORTH: f64 = 1.05;

/// Assumed costs of steps of four rows and of eight, in steps of one row, until they are measured: of steps that have no
/// drafts, and of those that have as many as they read.
const COSTS: [[f64; 2]; 2] = [[1.25, 1.4], [1.4, 2.0]];

#[cfg(feature = "lab")]
thread_local!(static GAPS: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) });

/// Has every `n`-th token or so of this thread's answers that always draft begin a chunk without drafts: for tests.
#[cfg(feature = "lab")]
pub fn draft_with_gaps(n: Option<usize>) {
    GAPS.set(n);
}

/// Whether a test wants a chunk without drafts behind a text of that length.
fn is_gap(_length: usize) -> bool {
    #[cfg(feature = "lab")]
    return GAPS.get().is_some_and(|n| _length % n < n / 2);
    #[cfg(not(feature = "lab"))]
    false
}

/// The least tokens of a chunk that `auto` keeps short, to know sooner whether the text repeats itself.
const SHORT: u32 = 8;

/// The share of right drafts that a draft model begins with, and as how many drafts it counts.
const HOPED: (f64, f64) = (0.8, 8.0);
/// Decay of earlier drafts' weight in the share of right ones, per draft.
const DRAFTS_FORGET: f64 = 0.98;
/// Tokens after which a draft model that did not pay is tried again.
const REST: usize = 1024;

/// Measured times of steps, which a session keeps for later generations.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StepTimes {
    /// Milliseconds of a step of one row, and of how many steps that is known.
    one: Option<f64>,
    steps: u32,
    /// Milliseconds of a step with each number of [`DRAFTS`] of the draft model.
    drafted: [Option<f64>; DRAFTS.len()],
}

impl StepTimes {
    /// Forgets what was measured with a draft model.
    pub fn forget_drafter(&mut self) {
        self.drafted = Default::default();
    }
}

/// Steps without drafts that are measured before a draft model is tried: what it has to be faster than.
const FIRST: u32 = 16;

/// How drafts of a draft model have paid so far.
#[derive(Clone)]
struct Modelled {
    /// The cost of a step of the draft model in steps of one row, until steps with drafts are measured.
    cost: f64,
    /// The number of drafts of steps that always have some.
    always: u32,
    /// Drafts that were right, and drafts that were compared: those up to a step's first wrong one.
    right: f64,
    compared: f64,
    /// Tokens since it rests; `None` while it is used.
    rests: Option<usize>,
}

impl Modelled {
    fn new(cost: f64, always: u32) -> Self {
        let (share, weight) = HOPED;
        Self { cost, always, right: share * weight, compared: weight, rests: None }
    }

    /// Learns from steps.
    fn took(&mut self, taken: &Taken) {
        let compared = (taken.accepted + taken.missed) as f64;
        let kept = DRAFTS_FORGET.powf(compared);
        self.right = kept * self.right + taken.accepted as f64;
        self.compared = kept * self.compared + compared;
    }

    /// Tokens that a step with so many drafts takes, on average.
    fn tokens(&self, drafts: u32) -> f64 {
        let share = (self.right / self.compared.max(1.0)).min(1.0);
        (0..=drafts).map(|n| share.powi(n as i32)).sum()
    }

    /// The cost of a step with drafts in steps of one row.
    fn cost(&self, which: usize, times: &StepTimes) -> f64 {
        let [_, full] = COSTS[usize::from(DRAFTS[which] > 3)];
        let assumed = full + f64::from(DRAFTS[which] + 1) * self.cost;
        times.one.zip(times.drafted[which]).map_or(assumed, |(one, ms)| ms / one.max(1e-3))
    }

    /// The number of drafts that pays most, one of [`DRAFTS`], and how many times as fast as none it is.
    fn best(&self, times: &StepTimes) -> (u32, f64) {
        let all = DRAFTS.iter().enumerate().map(|(i, drafts)| (*drafts, self.tokens(*drafts) / self.cost(i, times)));
        all.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default()
    }
}

/// What the steps of the next chunk are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NextSteps {
    pub pass: Pass,
    /// Drafts of each step that the draft model makes.
    pub drafts: u32,
    /// Tokens that a step is likely to take.
    pub tokens: f64,
}

/// Steps without drafts.
const NONE: NextSteps = NextSteps { pass: Pass::Decode, drafts: 0, tokens: 1.0 };

/// The speculation of one generation.
pub(super) struct Speculation {
    always: bool,
    text: Vec<u32>,
    /// Where the answer begins in the text.
    began: usize,
    steps: [Steps; 2],
    times: StepTimes,
    /// Drafts of a draft model, where there is one.
    modelled: Option<Modelled>,
}

impl Speculation {
    /// The speculation of a generation that continues `text`. `times`: what earlier generations have measured;
    /// `drafter`: of a draft model, where there is one, the cost of a step in steps of one row, and the number of drafts
    /// of steps that always have some.
    pub fn new(text: &[u32], always: bool, times: StepTimes, drafter: Option<(f64, u32)>) -> Self {
        let steps = |pass: Pass, rows, costs| Steps {
            pass,
            rows,
            at: text.len().saturating_sub(1),
            tokens: 1.0,
            drafted: 0.0,
            known: DOUBT,
            costs,
            ms: None,
        };
        let [four, eight] = COSTS;
        Self {
            always,
            text: text.to_vec(),
            began: text.len(),
            steps: [steps(Pass::Four, 4, four), steps(Pass::Eight, 8, eight)],
            times,
            modelled: drafter.map(|(cost, always)| Modelled::new(cost, always)),
        }
    }

    /// Measured times of steps.
    pub fn times(&self) -> StepTimes {
        self.times
    }

    /// The tokens that are known so far.
    pub fn text(&self) -> &[u32] {
        &self.text
    }

    /// Most tokens of the next chunk. What decides about a chunk is what was read two chunks before it: an answer that
    /// copies would wait for drafts as long as two whole chunks take.
    pub fn most_tokens(&self) -> u32 {
        if self.always { u32::MAX } else { ((self.text.len() - self.began) as u32).max(SHORT) }
    }

    /// Learns from a chunk's tokens. `drafts`: how many of each step's drafts the draft model made.
    pub fn took(&mut self, taken: &Taken, drafts: u32) {
        self.text.extend_from_slice(&taken.tokens);
        self.steps.iter_mut().for_each(|steps| steps.follow(&self.text));
        let Some(modelled) = &mut self.modelled else { return };
        match &mut modelled.rests {
            _ if drafts > 0 => modelled.took(taken),
            Some(rests) => *rests += taken.tokens.len(),
            None => {}
        }
        if modelled.rests.is_some_and(|rests| rests >= REST) {
            *modelled = Modelled::new(modelled.cost, modelled.always);
        }
    }

    /// Learns that `steps` steps of a pass, with so many drafts of the draft model, took `ms` while the next chunk was
    /// in flight.
    pub fn measured(&mut self, pass: Pass, drafts: u32, steps: u32, ms: f64) {
        let of = match DRAFTS.iter().position(|n| *n == drafts) {
            Some(which) => &mut self.times.drafted[which],
            None => match self.steps.iter_mut().find(|of| of.pass == pass) {
                Some(of) => &mut of.ms,
                None => {
                    self.times.steps += steps;
                    &mut self.times.one
                }
            },
        };
        let ms = ms / f64::from(steps.max(1));
        *of = Some(of.map_or(ms, |before| 0.5 * before + 0.5 * ms));
    }

    /// The draft model makes no more drafts of this text.
    pub fn drop_drafter(&mut self) {
        self.modelled = None;
    }

    /// The next chunk's steps. A draft model that does not pay, or less than lookups, rests from then on.
    pub fn next(&mut self) -> NextSteps {
        let lookups = self.lookups();
        let times = self.times;
        if self.always && self.modelled.is_some() && is_gap(self.text.len()) {
            return NONE;
        }
        let ready = self.always || times.steps >= FIRST;
        let Some(modelled) = self.modelled.as_mut().filter(|modelled| ready && modelled.rests.is_none()) else {
            return lookups.0;
        };
        let mut drafts = modelled.always;
        if !self.always {
            let (best, worth) = modelled.best(&times);
            if worth < lookups.1.max(WORTH) {
                modelled.rests = Some(0);
                return lookups.0;
            }
            drafts = best;
        }
        let pass = if drafts > 3 { Pass::Eight } else { Pass::Four };
        NextSteps { pass, drafts, tokens: modelled.tokens(drafts) }
    }

    /// Steps with the lookups that pay most, or with none, and how many times as fast as none they are.
    fn lookups(&self) -> (NextSteps, f64) {
        let of = |steps: &Steps| NextSteps { pass: steps.pass, drafts: 0, tokens: steps.tokens };
        if self.always {
            return (of(&self.steps[1]), f64::INFINITY);
        }
        let worth = |steps: &Steps| steps.tokens / steps.cost(self.times.one);
        let best = self.steps.iter().max_by(|a, b| worth(a).total_cmp(&worth(b))).filter(|best| worth(best) > WORTH);
        best.map_or((NONE, 1.0), |best| (of(best), worth(best)))
    }
}

/// Bytes of the result of a step that may take several tokens: the tokens, and the number of drafts that it has read.
pub(super) const ACCEPTED_ROW: u64 = (FEW_ROWS as u64 + 1) * 4;

/// The tokens that a chunk's steps have taken.
pub(super) struct Taken {
    pub tokens: Vec<u32>,
    /// Whether the generation ended before the last step.
    pub ended: bool,
    pub drafted: u64,
    pub accepted: u64,
    /// Steps with a draft that was not accepted.
    pub missed: u64,
}

impl Taken {
    /// The tokens of steps that take one each, from their ids.
    pub fn of_ids(ids: &[u32]) -> Self {
        let tokens: Vec<u32> = ids.iter().copied().take_while(|id| *id != AFTER_END).collect();
        Self { ended: tokens.len() < ids.len(), tokens, drafted: 0, accepted: 0, missed: 0 }
    }

    /// The tokens of one sequence's row of steps that take one token for each of several sequences.
    pub fn of_row(words: &[u32], row: usize) -> Self {
        Self::of_ids(&words.chunks_exact(FEW_ROWS as usize + 1).map(|step| step[row]).collect::<Vec<_>>())
    }

    /// How many tokens steps that may take several have taken.
    pub fn count(words: &[u32]) -> u32 {
        let rows = words.chunks_exact(FEW_ROWS as usize + 1).flat_map(|row| &row[..FEW_ROWS as usize]);
        rows.filter(|id| **id != AFTER_END).count() as u32
    }

    /// The tokens of steps that may take several, from each step's row of tokens and number of drafts.
    pub fn of_rows(words: &[u32]) -> Self {
        let mut all = Self { tokens: Vec::new(), ended: false, drafted: 0, accepted: 0, missed: 0 };
        for row in words.chunks_exact(FEW_ROWS as usize + 1) {
            let (tokens, drafted) = (&row[..FEW_ROWS as usize], row[FEW_ROWS as usize]);
            let before = all.tokens.len();
            all.tokens.extend(tokens.iter().copied().take_while(|id| *id != AFTER_END));
            let took = all.tokens.len() - before;
            all.ended |= took == 0;
            all.drafted += u64::from(drafted);
            all.accepted += took.saturating_sub(1) as u64;
            all.missed += u64::from(took > 0 && took <= drafted as usize);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens that were taken without drafts.
    fn tokens(tokens: impl Iterator<Item = u32>) -> Taken {
        Taken::of_ids(&tokens.collect::<Vec<_>>())
    }

    /// Chunks of an answer that copies, with two in flight.
    #[test]
    fn an_answer_that_copies_has_drafts_after_a_few_tokens() {
        let mut copies = Speculation::new(&(0..2000).collect::<Vec<_>>(), false, StepTimes::default(), None);
        let (mut written, mut flying) = (20, std::collections::VecDeque::new());
        let mut chunks = Vec::new();
        for first in [true].into_iter().chain([false; 20]) {
            let length = if first { 1 } else { copies.most_tokens().min(32) };
            chunks.push((copies.next().pass, length));
            flying.push_back(written..written + length);
            written += length;
            if flying.len() == 2 {
                copies.took(&tokens(flying.pop_front().unwrap()), 0);
            }
        }
        let without = chunks.iter().take_while(|(pass, _)| *pass == Pass::Decode);
        assert!((9..=24).contains(&without.map(|(_, length)| length).sum::<u32>()), "{chunks:?}");
        assert_eq!(chunks.last(), Some(&(Pass::Eight, 32)));
        let always = Speculation::new(&[1; 9], true, StepTimes::default(), None);
        assert!(always.most_tokens() > 32, "nothing is to be known");
    }

    /// Most steps of eight rows have no drafts in such a text, and cost less for that: they pay more than four rows.
    #[test]
    fn an_answer_of_short_copies_gets_eight_rows() {
        let mut fields = Speculation::new(&(0..1000).collect::<Vec<_>>(), false, StepTimes::default(), None);
        let field = |at: u32| (5000 + 3 * at..5003 + 3 * at).chain(80 * at..80 * at + 14);
        fields.took(&tokens((0..12).rev().flat_map(field)), 0);
        let NextSteps { pass, tokens, .. } = fields.next();
        assert!((2.0..4.0).contains(&tokens), "{tokens}");
        assert_eq!(pass, Pass::Eight);
    }

    #[test]
    fn a_text_that_repeats_itself_gets_rows_and_another_none() {
        let mut copies = Speculation::new(&(0..200).collect::<Vec<_>>(), false, StepTimes::default(), None);
        copies.took(&tokens(20..140), 0);
        assert_eq!(copies.next().pass, Pass::Eight);
        assert!(copies.next().tokens > 4.0, "{:?}", copies.next());
        copies.took(&tokens(1000..1100), 0);
        assert_eq!(copies.next(), NONE);
        copies.took(&tokens(1000..1100), 0);
        assert_eq!(copies.next().pass, Pass::Eight);
        // Steps of eight rows that cost as much as eight steps do not pay.
        copies.measured(Pass::Decode, 0, 10, 10.0);
        copies.measured(Pass::Eight, 0, 10, 80.0);
        assert_eq!(copies.next().pass, Pass::Four);
        copies.measured(Pass::Four, 0, 10, 40.0);
        assert_eq!(copies.next(), NONE);
    }

    /// Steps with so many drafts of which so many are right, of a text that does not repeat itself.
    fn steps(text: &mut std::ops::RangeFrom<u32>, n: usize, drafts: u32, right: u32) -> Taken {
        let row = |_| {
            let mut row = [AFTER_END; FEW_ROWS as usize + 1];
            row[..=right as usize].iter_mut().zip(&mut *text).for_each(|(place, id)| *place = id);
            row[FEW_ROWS as usize] = drafts;
            row
        };
        Taken::of_rows(&(0..n).flat_map(row).collect::<Vec<_>>())
    }

    #[test]
    fn a_draft_model_is_used_while_it_pays() {
        let mut text = 0..;
        let mut good = Speculation::new(&[], false, StepTimes::default(), Some((0.05, 7)));
        assert_eq!(good.next().drafts, 0, "steps without are measured first");
        good.measured(Pass::Decode, 0, FIRST, 10.0 * f64::from(FIRST));
        assert!(good.next().drafts > 0, "it is tried: {:?}", good.next());
        for _ in 0..10 {
            good.took(&steps(&mut text, 4, 7, 7), 7);
        }
        assert_eq!((good.next().pass, good.next().drafts), (Pass::Eight, 7), "all are right");
        assert!(good.next().tokens > 7.0, "{:?}", good.next());
        for _ in 0..40 {
            good.took(&steps(&mut text, 4, 7, 1), 7);
        }
        assert_eq!((good.next().pass, good.next().drafts), (Pass::Four, 3), "one in two is right: {:?}", good.next());
        // Steps that take three times as long as one without, or longer, do not pay with two tokens.
        for drafts in DRAFTS {
            good.measured(Pass::Four, drafts, 10, 75.0 * f64::from(drafts + 1));
        }
        assert_eq!((good.next().pass, good.next().drafts), (Pass::Decode, 0));
        // The next text's speculation knows it from the beginning, until there is another draft model.
        let mut times = good.times();
        assert_eq!(Speculation::new(&[], false, times, Some((0.05, 7))).next().drafts, 0);
        times.forget_drafter();
        assert!(Speculation::new(&[], false, times, Some((0.05, 7))).next().drafts > 0);
    }

    #[test]
    fn a_draft_model_that_is_wrong_rests_and_is_tried_again() {
        let mut text = 0..;
        let mut wrong = Speculation::new(&[], false, StepTimes::default(), Some((0.2, 7)));
        wrong.measured(Pass::Decode, 0, FIRST, f64::from(FIRST));
        let mut tried = 0;
        loop {
            let drafts = wrong.next().drafts;
            if drafts == 0 {
                break;
            }
            wrong.took(&steps(&mut text, 1, drafts, 0), drafts);
            tried += 1;
        }
        assert!((2..=16).contains(&tried), "{tried} steps were tried");
        wrong.took(&tokens(text.by_ref().take(REST - 1)), 0);
        assert_eq!(wrong.next().drafts, 0);
        wrong.took(&tokens(text.by_ref().take(1)), 0);
        assert!(wrong.next().drafts > 0);
        // Where lookups pay more, they are taken.
        wrong.took(&tokens(0..300), 0);
        assert_eq!((wrong.next().pass, wrong.next().drafts), (Pass::Eight, 0));
        wrong.drop_drafter();
        wrong.took(&tokens(5000..5000 + 2 * REST as u32), 0);
        assert_eq!(wrong.next().drafts, 0);
    }
}
