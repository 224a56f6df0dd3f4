//! Prefill: reads given tokens in passes of many rows, or one token by a decode step.

use std::borrow::Cow;

use bytemuck::{bytes_of, cast_slice};

use super::program::Encoded;
use super::session::{Session, context_full};
use super::tiles::padded;
use crate::base::Cancel;
use crate::error::{Error, Result};
use crate::gpu::{Encoder, Pending};
use crate::kernels::State;
use crate::layout::{Control, Scratch, stride};
use crate::model::PictureAttention;
use crate::plan::{FEW, Pass, SHORT, Stage};
use crate::state::{Input, SequenceId};

/// Stands for no row: the position has its token's embedding.
const NO_ROW: u32 = u32::MAX;

/// A pass of prefill in flight.
pub(super) struct Fence(usize, Pending);

/// The place of the tokens that are read next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Next {
    /// The sequence's slot.
    pub slot: u32,
    /// The next index in the slot's cache.
    pub at: u32,
    /// By how much rotary positions lag behind `at` ([`Input::lag`]).
    pub lag: u32,
}

impl Next {
    /// The state of a pass or a step of `rows` rows that begins there.
    pub(super) fn state(self, rows: u32) -> State {
        State { pos: self.at, lag: self.lag, slot: self.slot, rows, ..State::default() }
    }
}

impl Session {
    /// Reads `input` into a sequence from position `from` on, which is at most [`crate::state::States::trim`], in
    /// passes of up to the session's rows, and leaves the last position's logits on the GPU.
    pub async fn prefill(&mut self, sequence: SequenceId, input: &Input, from: u32, cancel: &Cancel) -> Result<()> {
        let last = self.begin_prefill(sequence, input, from, cancel, &mut |_| ()).await?;
        self.passed(last).await
    }

    /// [`Session::prefill`] without a wait for the last pass. `on_read` is called with the number of tokens that the
    /// passes before it have read.
    pub(super) async fn begin_prefill(
        &mut self,
        sequence: SequenceId,
        input: &Input,
        from: u32,
        cancel: &Cancel,
        on_read: &mut dyn FnMut(usize),
    ) -> Result<Fence> {
        let end = from as usize + input.len();
        let end = u32::try_from(end).map_err(|_| context_full(u32::MAX, self.context()))?;
        if input.is_empty() {
            return Err(Error::bad_option("the prompt is empty; give at least one token"));
        }
        if end > self.context() {
            return Err(context_full(end, self.context()));
        }
        self.ensure(end).await?;
        self.check_input(input)?;
        if input.has_rows() {
            self.prepare_rows().await?;
        }
        cancel.check()?;
        let slot = self.enter(sequence).await?;
        // Callers that continue a known prefix have made sure that its rotations are those of the whole text.
        if from == 0 {
            self.states.set_long(sequence, self.is_long(end))?;
            self.rotate_long(self.is_long(end))?;
        }
        self.states.cut(sequence, from)?;
        if self.states.is_lost(sequence)? {
            return Err(Error::internal("reading on from a state that was lost"));
        }
        let mut read = 0;
        // One pass runs while the next is recorded: a long prompt does not flood the queue, and ends at most two passes
        // after its cancellation.
        let mut running: Option<Fence> = None;
        for i in 0.. {
            let part = input.slice(read..self.pass_end(input, read));
            let last = read + part.len() == input.len();
            let pass = self.pass_of(&part);
            let next = Next { slot, at: from + read as u32, lag: self.states.lag(sequence)? };
            let fence = self.record_pass(next, &part, pass, last, i)?;
            // The state's contents for later submissions.
            self.states.read_pass(sequence, &part, pass)?;
            // A recurrent state cannot be cut back: a snapshot at the prompt's end lets a later prompt continue from
            // there.
            if last && self.states.recurrent() {
                let logits = self.buffer(Scratch::Logits)?.clone();
                // Of the one row: the buffer may have room for those of a step.
                let bytes = self.model().config().vocab as u64 * 4;
                self.states.checkpoint(sequence, &logits, bytes)?;
            }
            if let Some(earlier) = running.replace(fence) {
                self.passed(earlier).await?;
                on_read(read);
            }
            read += part.len();
            if last || cancel.is_cancelled() {
                break;
            }
        }
        let last = running.ok_or_else(|| Error::internal("a prompt without a pass"))?;
        if let Err(cancelled) = cancel.check() {
            self.passed(last).await?;
            return Err(cancelled);
        }
        Ok(last)
    }

    /// An error where ids or rows are not this model's, or rows have no values.
    pub(super) fn check_input(&self, input: &Input) -> Result<()> {
        let vocab = self.model().config().vocab as u32;
        if let Some(bad) = input.ids().iter().find(|id| **id >= vocab) {
            return Err(Error::bad_option(format!("token id {bad} is outside the vocabulary of {vocab}")));
        }
        let config = self.model().config();
        let most = input.most_rows();
        if self.pictures_are_whole() && most > self.sizes().rows as usize {
            return Err(Error::bad_option(format!(
                "a picture of {most} rows, which see each other and are read in one pass, but passes have {} rows: load with prefillRows of {most} or more",
                self.sizes().rows
            )));
        }
        input.values(config.width * (1 + config.deepstack)).map(drop)
    }

    /// Whether rows of a picture attend to later rows, so that one pass has to read them all.
    pub(super) fn pictures_are_whole(&self) -> bool {
        self.model().config().picture_attention != PictureAttention::Causal
    }

    /// The end of the pass that begins at position `from` of an input.
    fn pass_end(&self, input: &Input, from: usize) -> usize {
        let rows = self.sizes().rows as usize;
        if self.pictures_are_whole() { input.pass_end(from, rows) } else { (from + rows).min(input.len()) }
    }

    /// Whether a prompt takes more than one pass, and can be read pass by pass in several turns with the same result.
    pub(crate) fn reads_in_passes(&self, sequence: SequenceId, prompt: &Input, afresh: bool) -> bool {
        let known = if afresh { Ok(0) } else { self.known_prefix(sequence, prompt) };
        let whole = !self.states.recurrent() && !self.is_long(prompt.len() as u32);
        whole && known.is_ok_and(|known| prompt.len() - known > self.sizes().rows as usize)
    }

    /// Reads the first pass of a prompt's unknown tokens. Returns how many tokens were known, and how many the pass has
    /// read.
    pub(crate) async fn read_pass_of(
        &mut self,
        sequence: SequenceId,
        prompt: &Input,
        afresh: bool,
        cancel: &Cancel,
    ) -> Result<(usize, usize)> {
        let known = if afresh { 0 } else { self.known_prefix(sequence, prompt)? };
        let end = self.pass_end(prompt, known);
        self.rebuild(sequence, known, cancel).await?;
        self.prefill(sequence, &prompt.slice(known..end), known as u32, cancel).await?;
        Ok((known, end - known))
    }

    /// The pass that reads an input of this length.
    fn pass_of(&self, input: &Input) -> Pass {
        match input.len() as u32 {
            // Passes of few rows have causal attention only.
            _ if self.pictures_are_whole() && input.has_rows() => Pass::Prefill,
            0..=FEW if self.has(Pass::Few) => Pass::Few,
            0..=SHORT if self.has(Pass::Short) => Pass::Short,
            _ => Pass::Prefill,
        }
    }

    /// Submits one pass of prefill, with the final norm and the head where `head`: they only matter for the last pass.
    /// Two passes may be in flight at one time, distinguished by `number`.
    pub(super) fn record_pass(
        &self,
        next: Next,
        input: &Input,
        pass: Pass,
        head: bool,
        number: usize,
    ) -> Result<Fence> {
        let pass = if self.has(pass) { pass } else { Pass::Prefill };
        self.must_have(pass)?;
        let count = input.len() as u32;
        self.put(Control::Prefill, bytes_of(&next.state(count)))?;
        self.put_last(next.state(count))?;
        self.put(Control::Tokens, cast_slice(&input.ids_with(self.model().config().row_token)))?;
        self.put_rows(input)?;
        if self.layout().find(&Control::Axes.into()).is_some() {
            self.put(Control::Axes, cast_slice(&input.axes(next.at, next.lag)))?;
        }
        if self.pictures_are_whole() && self.layout().find(&Control::Spans.into()).is_some() {
            self.put(Control::Spans, cast_slice(&input.pictures(next.at)))?;
        }
        let mut encoder = self.gpu.encoder("prefill");
        self.record_steps(&mut encoder, self.steps(pass).iter().filter(|step| head || step.stage.reads_token()), count);
        self.submit_with_fence(encoder, number)
    }

    /// Submits what reads a prompt, of which two may be in flight at one time, distinguished by `number`.
    pub(super) fn submit_with_fence(&self, mut encoder: Encoder, number: usize) -> Result<Fence> {
        // A readback of four bytes tells sooner than the queue's own notice when it has run.
        let at = number % self.fences.len();
        encoder.copy_buffer_to_buffer(self.buffer(Control::Prefill)?.raw(), 0, self.fences[at].raw(), 0, 4);
        let submission = self.gpu.submit(encoder);
        Ok(Fence(at, self.gpu.map(&self.fences[at], 4, submission)))
    }

    /// Writes which rows replace embeddings, and their values, where plans have such rows.
    fn put_rows(&self, input: &Input) -> Result<()> {
        let Some(embedded) = self.layout().find(&Control::Embedded.into()) else { return Ok(()) };
        let (width, rows) = (self.model().config().width, self.sizes().rows as usize);
        let tables = 1 + self.model().config().deepstack;
        let mut places = vec![NO_ROW; tables * rows];
        for (at, values) in input.values(width * tables)? {
            let n = values.len() / (width * tables);
            for table in 0..tables {
                let first = table * rows + at;
                (first..first + n).for_each(|row| places[row] = row as u32);
                let of_table: Cow<'_, [f32]> = match tables {
                    1 => values.into(),
                    _ => values.chunks_exact(width).skip(table).step_by(tables).collect::<Vec<_>>().concat().into(),
                };
                self.write_at(embedded, (first * stride(width) * 4) as u64, cast_slice(&padded(&of_table, width)))?;
            }
        }
        self.put(Control::EmbeddedAt, cast_slice(&places))
    }

    /// Writes the state of the steps that only a pass's last row goes through, if there are any.
    pub(super) fn put_last(&self, pass: State) -> Result<()> {
        if self.layout().find(&Control::Last.into()).is_some() {
            self.put(Control::Last, bytes_of(&pass.last()))?;
        }
        Ok(())
    }

    /// Records steps of a pass over `rows` rows.
    pub(super) fn record_steps<'a>(&self, encoder: &mut Encoder, steps: impl Iterator<Item = &'a Encoded>, rows: u32) {
        let mut compute = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        steps.for_each(|step| self.gpu.dispatch(&mut compute, &step.bound, step.grid.at(rows)));
    }

    /// Waits for a pass of prefill.
    pub(super) async fn passed(&self, Fence(at, pending): Fence) -> Result<()> {
        self.gpu.take(&self.fences[at], 4, pending).await.map(|_| ())
    }

    /// The logits on the GPU, `[V]`.
    pub async fn logits(&self) -> Result<Vec<f32>> {
        let bytes = self.gpu.read(self.buffer(Scratch::Logits)?, 0, self.model().config().vocab as u64 * 4).await?;
        Ok(cast_slice(&bytes).to_vec())
    }

    /// Feeds a sequence's next token, at position `pos`, through the decode step and returns its logits: for scoring
    /// given text.
    pub async fn feed(&mut self, sequence: SequenceId, token: u32, pos: u32) -> Result<Vec<f32>> {
        self.ensure(pos + 1).await?;
        let slot = self.enter(sequence).await?;
        self.states.cut(sequence, pos)?;
        let lag = self.states.lag(sequence)?;
        self.step_over(Next { slot, at: pos, lag }, token, Stage::Head)?;
        self.states.read_steps(sequence, &[token])?;
        self.logits().await
    }

    /// Reads a token by a decode step, up to and including the stage `last`.
    pub(super) fn step_over(&self, next: Next, token: u32, last: Stage) -> Result<()> {
        self.put(Control::Decode, bytes_of(&State { token, limit: u32::MAX, ..next.state(1) }))?;
        let mut encoder = self.gpu.encoder("step over");
        self.record_steps(&mut encoder, self.steps(Pass::Decode).iter().filter(|step| step.stage <= last), 1);
        self.gpu.submit(encoder);
        Ok(())
    }
}
