//! Speculative decoding by prompt lookup: steps read drafts after the next token, copied from an earlier occurrence of
//! the text's end. The GPU drafts, verifies and accepts ([`crate::plan::Pass::Four`]); the host decides how many rows
//! the next chunk's steps have. It simulates drafts on the text that it has read, which costs the GPU nothing while
//! none are used.

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
    /// Assumed cost of a step in steps of one row, until it is measured.
    cost: f64,
    /// Milliseconds of a step, once measured.
    ms: Option<f64>,
}

impl Steps {
    /// Simulates steps over the text from the end of the last step on.
    fn follow(&mut self, text: &[u32]) {
        while self.at + self.rows <= text.len() {
            let known = &text[..=self.at];
            let right = place(known).map_or(0, |place| {
                let draft = |i: usize| text[place + 1 + i % (self.at - place)];
                (0..self.rows - 1).take_while(|i| draft(*i) == text[self.at + 1 + i]).count()
            });
            self.tokens = FORGETS * self.tokens + (1.0 - FORGETS) * (right + 1) as f64;
            self.at += right + 1;
        }
    }
}

/// Decay of earlier steps' weight in the average, per step.
const FORGETS: f64 = 0.9;
/// Drafts are used where they are faster than none by this factor.
const WORTH: f64 = 1.05;

/// The speculation of one generation.
pub(super) struct Speculation {
    always: bool,
    text: Vec<u32>,
    steps: [Steps; 2],
    /// Milliseconds of a step of one row, once measured.
    ms: Option<f64>,
}

impl Speculation {
    /// The speculation of a generation that continues `text`.
    pub fn new(text: &[u32], always: bool) -> Self {
        let steps = |pass: Pass, rows, cost| Steps {
            pass,
            rows,
            at: text.len().saturating_sub(1),
            tokens: 1.0,
            cost,
            ms: None,
        };
        Self { always, text: text.to_vec(), steps: [steps(Pass::Four, 4, 1.4), steps(Pass::Eight, 8, 2.0)], ms: None }
    }

    /// Appends new tokens.
    pub fn push(&mut self, tokens: &[u32]) {
        self.text.extend_from_slice(tokens);
        self.steps.iter_mut().for_each(|steps| steps.follow(&self.text));
    }

    /// Learns that `steps` steps of a pass took `ms` while the next chunk was in flight.
    pub fn measured(&mut self, pass: Pass, steps: u32, ms: f64) {
        let of = self.steps.iter_mut().find(|steps| steps.pass == pass).map_or(&mut self.ms, |steps| &mut steps.ms);
        let ms = ms / f64::from(steps.max(1));
        *of = Some(of.map_or(ms, |before| 0.5 * before + 0.5 * ms));
    }

    /// The pass of the next chunk's steps, and how many tokens a step is likely to take.
    pub fn next(&self) -> (Pass, f64) {
        if self.always {
            return (Pass::Eight, self.steps[1].tokens);
        }
        let worth =
            |steps: &Steps| steps.tokens / self.ms.zip(steps.ms).map_or(steps.cost, |(one, ms)| ms / one.max(1e-3));
        let best = self.steps.iter().max_by(|a, b| worth(a).total_cmp(&worth(b))).filter(|best| worth(best) > WORTH);
        best.map_or((Pass::Decode, 1.0), |best| (best.pass, best.tokens))
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
}

impl Taken {
    /// The tokens of steps that take one each, from their ids.
    pub fn of_ids(ids: &[u32]) -> Self {
        let tokens: Vec<u32> = ids.iter().copied().take_while(|id| *id != AFTER_END).collect();
        Self { ended: tokens.len() < ids.len(), tokens, drafted: 0, accepted: 0 }
    }

    /// The tokens of one sequence's row of steps that take one token for each of several sequences.
    pub fn of_row(words: &[u32], row: usize) -> Self {
        Self::of_ids(&words.chunks_exact(FEW_ROWS as usize + 1).map(|step| step[row]).collect::<Vec<_>>())
    }

    /// The tokens of steps that may take several, from each step's row of tokens and number of drafts.
    pub fn of_rows(words: &[u32]) -> Self {
        let mut all = Self { tokens: Vec::new(), ended: false, drafted: 0, accepted: 0 };
        for row in words.chunks_exact(FEW_ROWS as usize + 1) {
            let (tokens, drafted) = (&row[..FEW_ROWS as usize], row[FEW_ROWS as usize]);
            let before = all.tokens.len();
            all.tokens.extend(tokens.iter().copied().take_while(|id| *id != AFTER_END));
            let took = all.tokens.len() - before;
            all.ended |= took == 0;
            all.drafted += u64::from(drafted);
            all.accepted += took.saturating_sub(1) as u64;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_repeats_itself_gets_rows_and_another_none() {
        let mut copies = Speculation::new(&(0..200).collect::<Vec<_>>(), false);
        copies.push(&(20..140).collect::<Vec<_>>());
        assert_eq!(copies.next().0, Pass::Eight);
        assert!(copies.next().1 > 4.0, "{}", copies.next().1);
        copies.push(&(1000..1100).collect::<Vec<_>>());
        assert_eq!(copies.next(), (Pass::Decode, 1.0));
        copies.push(&(1000..1100).collect::<Vec<_>>());
        assert_eq!(copies.next().0, Pass::Eight);
        // Steps of eight rows that cost as much as eight steps do not pay.
        copies.measured(Pass::Decode, 10, 10.0);
        copies.measured(Pass::Eight, 10, 80.0);
        assert_eq!(copies.next().0, Pass::Four);
        copies.measured(Pass::Four, 10, 40.0);
        assert_eq!(copies.next().0, Pass::Decode);
    }
}
