//! Rebuilds a state that was lost with its device from its tokens, by the same passes and steps, so that it is the same
//! to the last bit.

use super::prefill::Next;
use super::session::Session;
use crate::base::Cancel;
use crate::error::{Error, Result};
use crate::kernels::Variant;
use crate::plan::{Lane, Pass, Stage};
use crate::state::{History, How, SequenceId};

/// The most time that repeated decode steps may take, ms. Where it would be longer, the tokens are read by passes: many
/// times as fast, but rounded otherwise, so that a text may continue differently.
const REPEAT_MS: f64 = 30_000.0;
/// Most steps in flight.
const STEPS: usize = 32;
/// The last stage of a step that only fills the cache.
const LAST: Stage = Stage::Layer(usize::MAX);

/// What determines a session's kernels, apart from the device and the options.
pub struct Decided {
    /// The lane in use.
    pub lane: Lane,
    /// Variants that computed wrongly.
    pub avoided: Vec<&'static Variant>,
    /// Whether short passes and those of few rows were compiled.
    pub few: bool,
}

impl Session {
    /// The choices that let another session run the same kernels on the same device.
    pub fn decided(&self) -> Decided {
        Decided { lane: self.lane(), avoided: self.select.avoided().to_vec(), few: self.has(Pass::Few) }
    }

    /// Takes over the conversations of a session whose device was lost. Each one's state is rebuilt when it is next
    /// used.
    pub fn take_over(&mut self, lost: Self) -> Result<()> {
        self.set_picture_attention(lost.model().config().picture_attention);
        self.states.inherit(lost.states);
        self.ms_a_token = lost.ms_a_token;
        self.step_times = lost.step_times;
        self.rotate_long(lost.long)
    }

    /// Recovers from an answer for which the GPU had no memory. Where the refusal was reported late, any copy of a
    /// state made meanwhile may be missing: all states are rebuilt from their tokens.
    pub(crate) async fn go_on_without(&mut self) {
        // After the wait, errors that follow from a missing buffer have been reported too.
        let _ = self.gpu.idle().await;
        if self.gpu.forgive() {
            self.states.lose_all();
        }
    }

    /// Rebuilds the first `n` tokens of a lost state; the others are forgotten.
    pub(super) async fn rebuild(&mut self, sequence: SequenceId, n: usize, cancel: &Cancel) -> Result<()> {
        if !self.states.is_lost(sequence)? {
            return Ok(());
        }
        self.ensure(n as u32).await?;
        let held = self.states.history(sequence)?.input();
        if held.filled() < n {
            return Err(Error::bad_option(
                "the conversation was restored with pictures of which no more than the hash is there: give them again",
            ));
        }
        if held.has_rows() {
            self.prepare_rows().await?;
        }
        let slot = self.enter(sequence).await?;
        let mut tokens = self.states.history(sequence)?.clone();
        let lost = tokens.clone();
        tokens.truncate(n);
        if f64::from(tokens.stepped()) * self.ms_a_token.unwrap_or(0.0) > REPEAT_MS {
            tokens = tokens.by_passes(self.sizes().rows);
        }
        self.states.begin_again(sequence)?;
        if let Err(e) = self.read_again(sequence, slot, &tokens, cancel).await {
            // The state is lost as before.
            self.states.lose(sequence, lost, self.states.is_long(sequence)?)?;
            return Err(e);
        }
        Ok(())
    }

    /// Reads tokens by the passes and steps that read them before.
    async fn read_again(&mut self, sequence: SequenceId, slot: u32, tokens: &History, cancel: &Cancel) -> Result<()> {
        let mut running = None;
        let mut passes = 0;
        for (range, how) in tokens.ranges() {
            cancel.check()?;
            let (at, rows) = (range.start as u32, tokens.input().slice(range));
            let lag = self.states.lag(sequence)?;
            let next = |read: u32| Next { slot, at: at + read, lag };
            match how {
                How::Pass(pass) => {
                    let fence = self.record_pass(next(0), &rows, pass, false, passes)?;
                    passes += 1;
                    self.states.read_pass(sequence, &rows, pass)?;
                    if let Some(earlier) = running.replace(fence) {
                        self.passed(earlier).await?;
                    }
                }
                How::Steps => {
                    for (i, token) in rows.ids().iter().enumerate() {
                        self.step_over(next(i as u32), *token, LAST)?;
                        if i % STEPS == STEPS - 1 {
                            cancel.check()?;
                            self.gpu.idle().await?;
                        }
                    }
                    self.states.read_steps(sequence, rows.ids())?;
                }
            }
        }
        if let Some(last) = running {
            self.passed(last).await?;
        }
        self.gpu.idle().await
    }
}
