//! A turn's prompt: the part that the sequence holds already, and the reading of the others.

use super::in_flight::AHEAD;
use super::prefill::Fence;
use super::session::Session;
use super::turn::{Extras, Progress, Turn};
use crate::error::{Error, ErrorKind, Result};
use crate::layout::Scratch;
use crate::sample::IN_PROMPT;
use crate::state::{History, Input, SequenceId};

/// The tokens of a sequence before a generation, and whether they were rotated as long.
#[derive(Default)]
pub(super) struct Held {
    history: History,
    long: bool,
}

/// A prompt whose last pass may still run.
pub(super) struct Begun {
    pub slot: u32,
    /// Tokens that the cache held already.
    pub known: usize,
    /// The prompt's other tokens.
    pub unknown: Input,
    /// Whether the only unknown token is read by a decode step: generation continues as if it had never been
    /// interrupted.
    pub resumed: bool,
    pub held: Held,
    /// `None` where no pass is needed.
    pub last_pass: Option<Fence>,
}

impl Session {
    /// Gives the sequence its slot, and submits the prompt's unknown tokens, without a wait for the last pass. After an
    /// error the sequence's contents are unknown, or as before.
    pub(super) async fn begin_prompt(&mut self, turn: &mut Turn<'_>) -> Result<Begun> {
        let (sequence, prompt) = (turn.sequence, turn.prompt);
        // Before the state changes: without room for the prompt, the sequence stays as it is.
        self.ensure(prompt.len() as u32).await?;
        let slot = self.enter(sequence).await?;
        let held = Held { history: self.states.history(sequence)?.clone(), long: self.states.is_long(sequence)? };
        let known = if turn.afresh && !turn.resumed { 0 } else { self.known_prefix(sequence, prompt)? };
        let resumed = turn.resumed && known + 1 == prompt.len();
        // A prompt that cannot be read leaves the sequence as it is.
        let unknown = prompt.slice(known..prompt.len());
        self.check_input(&unknown)?;
        let mut begun = Begun { slot, known, unknown, resumed, held, last_pass: None };
        match self.read_unknown(turn, &mut begun).await {
            Ok(()) => Ok(begun),
            Err(e) if e.kind() == ErrorKind::Aborted => Err(e),
            Err(e) => {
                self.forget_after(&e, sequence, begun.held)?;
                Err(e)
            }
        }
    }

    /// Rebuilds the known tokens of the prompt where they were lost, and submits the unknown ones, without a wait for
    /// the last pass.
    async fn read_unknown(&mut self, turn: &mut Turn<'_>, begun: &mut Begun) -> Result<()> {
        let Turn { sequence, cancel, ref mut on_progress, .. } = *turn;
        self.rebuild(sequence, begun.known, cancel).await?;
        let (from, unknown, total) = (begun.known as u32, &begun.unknown, begun.unknown.len());
        if begun.resumed {
            self.states.cut(sequence, from)?;
        } else if unknown.is_empty() {
            self.put_back_logits(sequence, from)?;
        } else {
            let mut on_read = |read| _ = on_progress(Progress::Read { read, total });
            let last_pass = self.begin_prefill(sequence, unknown, from, cancel, &mut on_read).await?;
            begun.last_pass = Some(last_pass);
        }
        // No buffer is created within the loop.
        self.states.begin(sequence, AHEAD)
    }

    /// After an error that leaves the sequence's state unknown: after a device loss the tokens that were known before
    /// are kept, to be read again.
    pub(super) fn forget_after(&mut self, e: &Error, sequence: SequenceId, Held { history, long }: Held) -> Result<()> {
        match e.kind() {
            ErrorKind::DeviceLost => self.states.lose(sequence, history, long),
            _ => self.states.forget(sequence),
        }
    }

    /// Restores the snapshot at the end of a prompt of `n` tokens, which is known whole, and its logits.
    fn put_back_logits(&mut self, sequence: SequenceId, n: u32) -> Result<()> {
        self.states.cut(sequence, n)?;
        self.states.put_back_logits(sequence, self.buffer(Scratch::Logits)?)
    }

    /// How many of the prompt's tokens the sequence holds. The last token is always read, for its logits, unless a
    /// snapshot of a recurrent state was taken behind it, with its logits. 0 where the prompt's length has other
    /// rotations than the sequence.
    pub(crate) fn known_prefix(&self, sequence: SequenceId, prompt: &Input) -> Result<usize> {
        if self.is_long(prompt.len() as u32) != self.states.is_long(sequence)? {
            return Ok(0);
        }
        let common = self.states.history(sequence)?.input().common(prompt);
        let n = prompt.len() as u32;
        if common == prompt.len() && self.states.has_logits(sequence, n)? && self.states.trim(sequence, n)? == n {
            return Ok(common);
        }
        let mut known = self.states.trim(sequence, common.min(prompt.len().saturating_sub(1)) as u32)? as usize;
        // Rows that attend to each other are read in one pass.
        while self.pictures_are_whole() && prompt.whole_until(known) < known {
            known = self.states.trim(sequence, prompt.whole_until(known) as u32)? as usize;
        }
        Ok(known)
    }

    /// For each token whether it is in the prompt and how often in the answer, and its bias. Ids beyond the vocabulary
    /// have no logit.
    pub(super) fn tallies(&self, prompt: &[u32], Extras { bias, answered, .. }: Extras<'_>) -> Vec<[u32; 2]> {
        let mut tallies = vec![[0; 2]; self.model().config().vocab];
        let (asked, answer) = prompt.split_at(prompt.len() - answered.min(prompt.len()));
        for id in asked {
            tallies.get_mut(*id as usize).into_iter().for_each(|tally| tally[0] |= IN_PROMPT);
        }
        for id in answer {
            tallies.get_mut(*id as usize).into_iter().for_each(|tally| tally[0] += 1);
        }
        for (id, bias) in bias {
            tallies.get_mut(*id as usize).into_iter().for_each(|tally| tally[1] = bias.to_bits());
        }
        tallies
    }
}
