//! What a sequence has read, and how each token was read: enough to make the same state on another device. A pass of
//! many rows and a decode step compute the same and round differently, so that a text goes on the same only from a
//! state that was made the same way.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::input::Input;
use crate::plan::Pass;

/// How tokens were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum How {
    /// In one prefill pass.
    Pass(Pass),
    /// In decode steps, one token each.
    Steps,
}

/// A number of tokens that were read alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stretch {
    how: How,
    tokens: u32,
}

/// Tokens from position 0 on.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct History {
    input: Input,
    stretches: Vec<Stretch>,
}

impl History {
    /// From what was kept of it. Tokens that no stretch covers were read in an unknown way: in passes of up to `rows`,
    /// as good as any that hold pictures whole.
    pub(crate) fn new(input: Input, mut stretches: Vec<Stretch>, rows: u32) -> Self {
        let covered = stretches.iter().try_fold(0_u32, |sum, s| sum.checked_add(s.tokens).filter(|_| s.tokens > 0));
        if covered != Some(input.len() as u32) {
            stretches = passes(&input, rows);
        }
        Self { input, stretches }
    }

    /// The same tokens as if read in passes of up to `rows`.
    pub(crate) fn by_passes(&self, rows: u32) -> Self {
        Self { input: self.input.clone(), stretches: passes(&self.input, rows) }
    }

    /// A pass read these.
    pub(crate) fn pass(&mut self, read: &Input, pass: Pass) {
        if !read.is_empty() {
            self.stretches.push(Stretch { how: How::Pass(pass), tokens: read.len() as u32 });
            self.input.push_input(read);
        }
    }

    /// Steps read these.
    pub(crate) fn steps(&mut self, tokens: &[u32]) {
        match self.stretches.last_mut() {
            Some(Stretch { how: How::Steps, tokens: n }) => *n += tokens.len() as u32,
            _ if tokens.is_empty() => return,
            _ => self.stretches.push(Stretch { how: How::Steps, tokens: tokens.len() as u32 }),
        }
        self.input.push_tokens(tokens);
    }

    /// Forgets what comes after the first `n`.
    pub(crate) fn truncate(&mut self, n: usize) {
        self.input.truncate(n);
        let mut over = self.stretches.iter().map(|s| s.tokens).sum::<u32>() - self.len() as u32;
        while let Some(last) = self.stretches.last_mut().filter(|_| over > 0) {
            let cut = over.min(last.tokens);
            over -= cut;
            last.tokens -= cut;
            if last.tokens == 0 {
                self.stretches.pop();
            }
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.truncate(0);
    }

    /// In the order in which they were read.
    pub(crate) fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// Each stretch as a range of positions, and how it was read.
    pub(crate) fn ranges(&self) -> Vec<(Range<usize>, How)> {
        let mut end = 0;
        let mut range = |n: u32| {
            let start = end;
            end += n as usize;
            start..end
        };
        self.stretches.iter().map(|s| (range(s.tokens), s.how)).collect()
    }

    /// Tokens before those that steps have read last: where the last prompt ended.
    pub(crate) fn prompt_len(&self) -> usize {
        let answer = self.stretches.last().filter(|s| s.how == How::Steps).map_or(0, |s| s.tokens);
        self.len() - answer as usize
    }

    /// What was read.
    pub(crate) fn input(&self) -> &Input {
        &self.input
    }

    /// Positions.
    pub(crate) fn len(&self) -> usize {
        self.input.len()
    }

    /// Whether nothing was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.input.is_empty()
    }

    /// How many were read by steps.
    pub(crate) fn stepped(&self) -> u32 {
        self.stretches.iter().filter(|s| s.how == How::Steps).map(|s| s.tokens).sum()
    }
}

fn passes(input: &Input, rows: u32) -> Vec<Stretch> {
    let mut passes = Vec::new();
    let mut from = 0;
    while from < input.len() {
        let end = input.pass_end(from, rows.max(1) as usize);
        passes.push(Stretch { how: How::Pass(Pass::Prefill), tokens: (end - from) as u32 });
        from = end;
    }
    passes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Embedded;

    #[test]
    fn stretches_follow_the_tokens() {
        let mut history = History::default();
        history.pass(&Input::from(vec![1, 2, 3]), Pass::Prefill);
        history.pass(&Input::default(), Pass::Prefill);
        history.pass(&Input::from(vec![4]), Pass::Few);
        history.steps(&[5]);
        history.steps(&[6, 7]);
        assert_eq!(history.input().ids(), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(
            history.ranges(),
            [(0..3, How::Pass(Pass::Prefill)), (3..4, How::Pass(Pass::Few)), (4..7, How::Steps)]
        );
        assert_eq!(history.stepped(), 3);
        let kept = History::new(history.input().clone(), history.stretches().to_vec(), 4);
        assert_eq!(kept, history);
        history.truncate(9);
        assert_eq!(kept, history);
        history.truncate(5);
        assert_eq!(
            history.ranges(),
            [(0..3, How::Pass(Pass::Prefill)), (3..4, How::Pass(Pass::Few)), (4..5, How::Steps)]
        );
        history.truncate(2);
        assert_eq!((history.input().ids(), history.ranges()), (&[1, 2][..], vec![(0..2, How::Pass(Pass::Prefill))]));
        history.clear();
        assert_eq!(history, History::default());
    }

    #[test]
    fn stretches_that_do_not_fit_are_not_believed() {
        let whole = [(0..2, How::Pass(Pass::Prefill)), (2..3, How::Pass(Pass::Prefill))];
        let stretch = |tokens| Stretch { how: How::Steps, tokens };
        for stretches in [
            vec![],
            vec![stretch(2)],
            vec![stretch(4)],
            vec![stretch(3), stretch(0)],
            vec![stretch(u32::MAX), stretch(4)],
        ] {
            assert_eq!(History::new(vec![1, 2, 3].into(), stretches, 2).ranges(), whole);
        }
        assert_eq!(History::new(vec![1, 2, 3].into(), vec![stretch(3)], 2).by_passes(2).ranges(), whole);
    }

    #[test]
    fn passes_hold_pictures_whole_where_they_can() {
        let mut input = Input::from(vec![1, 2, 3]);
        input.push_rows(Embedded::new("a".into(), 9, 3).unwrap());
        input.push_rows(Embedded::new("b".into(), 9, 6).unwrap());
        input.push_tokens(&[4]);
        let ends = |rows: u32| {
            History::new(input.clone(), Vec::new(), rows)
                .ranges()
                .into_iter()
                .map(|(range, _)| range.end)
                .collect::<Vec<_>>()
        };
        assert_eq!(ends(6), [6, 12, 13]);
        assert_eq!(ends(7), [6, 13]);
        // The second is larger than any pass.
        assert_eq!(ends(4), [3, 6, 10, 13]);
    }
}
