//! Generation of one sequence: its prompt is read, then chunks of steps are recorded ahead and read back one chunk
//! late.

use bytemuck::{bytes_of, cast_slice};
use serde::Serialize;

use super::chunk::ChunkPolicy;
use super::in_flight::{AHEAD, Chunk, InFlight};
use super::needs::Needs;
use super::prefill::{Fence, Next};
use super::session::Session;
use super::speculate::{Speculate, Speculation, Taken};
use crate::base::{Cancel, now_ms};
use crate::error::{Error, ErrorKind, Result};
use crate::gpu::Snapshot;
use crate::grammar::Constraint;
use crate::kernels::State;
use crate::layout::{Control, Scratch};
use crate::plan::Pass;
use crate::sample::{AFTER_END, IN_PROMPT, MAX_TOP_LOGPROBS, NOT_A_NUMBER, Sampling};
use crate::state::{CHECKPOINTS, History, Input, SequenceId};

/// Most copies of a recurrent state that a sequence has: snapshots at the ends of prompts, which later prompts go back
/// to, and those at the ends of the chunks in flight and of the last one read.
pub const STATE_COPIES: u64 = (CHECKPOINTS + AHEAD + 1) as u64;

/// Bytes of a token's log probabilities: its own, and the ids and log probabilities of the likeliest.
pub(super) const LOGPROBS_ROW: u64 = (2 * MAX_TOP_LOGPROBS as u64 + 1) * 4;

/// The log probabilities of a sampled token and of the likeliest tokens at its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Logprobs {
    /// The sampled token's log probability.
    pub chosen: f32,
    /// (token id, log probability), the likeliest first.
    pub likeliest: Vec<(u32, f32)>,
}

/// A request's demands on each token beyond the sampling parameters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extras<'a> {
    /// Token ids, each once, and the values added to their logits.
    pub bias: &'a [(u32, f32)],
    /// How many of the prompt's last tokens belong to the answer.
    pub answered: usize,
    /// Whether log probabilities are wanted.
    pub logprobs: bool,
}

/// One generation, ready to run.
pub struct Run<'a> {
    /// The sequence that is continued.
    pub sequence: SequenceId,
    /// The prompt.
    pub prompt: &'a Input,
    /// Temperature, filters, seed and stop ids, as the kernels read them.
    pub sampling: Sampling,
    /// Most tokens to sample, at least 1.
    pub limit: u32,
    /// Whether the prompt is read anew, though the cache holds a part of it.
    pub afresh: bool,
    /// Whether the prompt ends with a token that was sampled just before: generation continues as if it had never been
    /// interrupted. Has an effect only where the cache holds the tokens before it.
    pub resumed: bool,
    /// Bias, log probabilities, and what penalties count.
    pub extras: Extras<'a>,
    /// The grammar and its current state, which advances with each sampled token.
    pub constraint: Option<&'a mut Constraint>,
    /// Tokens between two readbacks; `None`: as many as the measured speed allows.
    pub chunk: Option<u32>,
    /// Whether steps read drafts.
    pub speculate: Speculate,
    /// Called before each chunk but the first: whether the generation ends after the chunks in flight, so that it can
    /// continue later, `resumed`.
    pub pause: &'a dyn Fn() -> bool,
}

/// Progress of a generation.
pub enum Progress<'a> {
    /// A pass has read tokens of the prompt.
    Read {
        /// Tokens read.
        read: usize,
        /// Tokens to read, without those that the cache held.
        total: usize,
    },
    /// A chunk has sampled tokens.
    Tokens {
        /// The tokens' ids.
        ids: &'a [u32],
        /// The tokens' log probabilities, if asked for.
        logprobs: &'a [Logprobs],
    },
}

/// Wall-clock times, ms, and speeds, tokens a second.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Timings {
    /// Opening, downloading and uploading the model, before this generation.
    pub load_ms: f64,
    /// From the first pass's recording to the host's notice of the end of the last.
    pub prefill_ms: f64,
    /// From the call to the first token on the host.
    pub ttft_ms: f64,
    /// From the end of prefill to the last token on the host.
    pub decode_ms: f64,
    /// Prompt tokens that were read over `prefill_ms`.
    pub prefill_tok_s: f64,
    /// Sampled tokens after the first over `decode_ms`.
    pub decode_tok_s: f64,
}

/// The outcome of a generation.
#[derive(Default)]
pub struct Outcome {
    /// Sampled ids, the stop id included.
    pub tokens: Vec<u32>,
    /// The tokens' log probabilities, if asked for.
    pub logprobs: Vec<Logprobs>,
    /// Tokens of the prompt that the cache held already.
    pub known: usize,
    /// Times.
    pub timings: Timings,
    /// Commands during decoding, and submissions during prefill.
    pub counters: Snapshot,
    /// Submissions during prefill.
    pub prefill_submits: u64,
    /// Host time of recording and submitting decode steps, ms.
    pub record_ms: f64,
    /// Drafts that steps have read.
    pub drafted: u64,
    /// Drafts that were accepted.
    pub accepted: u64,
}

impl Outcome {
    /// This outcome, continued by `later`, as one answer.
    #[must_use]
    pub fn and(mut self, later: Self) -> Self {
        if self.tokens.is_empty() {
            return later;
        }
        self.timings.decode_ms += later.timings.prefill_ms + later.timings.decode_ms;
        self.tokens.extend(later.tokens);
        self.logprobs.extend(later.logprobs);
        self.timings.decode_tok_s = rate(self.tokens.len().saturating_sub(1), self.timings.decode_ms);
        self.counters = self.counters.and(later.counters);
        self.prefill_submits += later.prefill_submits;
        self.record_ms += later.record_ms;
        self.drafted += later.drafted;
        self.accepted += later.accepted;
        self
    }
}

/// Called after each pass of the prompt and each chunk; false ends the generation.
pub type OnStep<'a> = &'a mut (dyn FnMut(Progress<'_>) -> bool + 'a);

/// The caller of a generation.
struct Caller<'a> {
    cancel: &'a Cancel,
    on_step: OnStep<'a>,
}

/// The tokens of a sequence before a generation, and whether they were rotated as long.
struct Held {
    history: History,
    long: bool,
}

/// A prompt whose last pass may still run.
struct Begun {
    slot: u32,
    /// Tokens that the cache held already.
    known: usize,
    /// The prompt's other tokens.
    unknown: Input,
    /// Whether the only unknown token is read by a decode step: generation continues as if it had never been
    /// interrupted.
    resumed: bool,
    held: Held,
    /// `None` where no pass is needed.
    last_pass: Option<Fence>,
}

/// Moments of a generation, ms, and the device's counters then.
struct Clock {
    /// When the generation was called.
    started: f64,
    /// When the prompt was read.
    prefilled: f64,
    /// Before the prompt's first pass.
    before: Snapshot,
    /// After the prompt's last pass was submitted.
    after_prefill: Snapshot,
}

impl Session {
    /// Prefills the prompt and samples until a stop id, the limit, cancellation, or until `on_step`, which is called
    /// after each pass and each chunk, returns false.
    pub async fn generate(&mut self, run: Run<'_>, cancel: &Cancel, on_step: OnStep<'_>) -> Result<Outcome> {
        let started = now_ms();
        let mut caller = Caller { cancel, on_step };
        self.voice_of(&[run.sequence])?;
        let needs = self.prepare_run(&run).await?;
        let before = self.gpu.counters().snapshot();
        let begun = self.begin_prompt(&run, &mut caller).await?;
        let clock = Clock { started, prefilled: now_ms(), before, after_prefill: self.gpu.counters().snapshot() };
        let mut decoding = Decoding::new(self, run, caller, needs, begun, clock);
        decoding.put_parameters(self)?;
        decoding.run_steps(self).await?;
        decoding.end(self)
    }

    /// Gives the sequence its slot, and submits the prompt's unknown tokens, without a wait for the last pass. After an
    /// error the sequence's contents are unknown, or as before.
    async fn begin_prompt(&mut self, run: &Run<'_>, caller: &mut Caller<'_>) -> Result<Begun> {
        let (sequence, prompt) = (run.sequence, run.prompt);
        // Before the state changes: without room for the prompt, the sequence stays as it is.
        self.ensure(prompt.len() as u32).await?;
        let slot = self.enter(sequence).await?;
        let held = Held { history: self.states.history(sequence)?.clone(), long: self.states.is_long(sequence)? };
        self.interrupted = None;
        let known = if run.afresh && !run.resumed { 0 } else { self.known_prefix(sequence, prompt)? };
        let resumed = run.resumed && known + 1 == prompt.len();
        // A prompt that cannot be read leaves the sequence as it is.
        let unknown = prompt.slice(known..prompt.len());
        self.check_input(&unknown)?;
        let mut begun = Begun { slot, known, unknown, resumed, held, last_pass: None };
        match self.read_unknown(sequence, &mut begun, caller).await {
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
    async fn read_unknown(&mut self, sequence: SequenceId, begun: &mut Begun, caller: &mut Caller<'_>) -> Result<()> {
        let Caller { cancel, on_step } = caller;
        self.rebuild(sequence, begun.known, cancel).await?;
        let (from, unknown, total) = (begun.known as u32, &begun.unknown, begun.unknown.len());
        if begun.resumed {
            self.states.cut(sequence, from)?;
        } else if unknown.is_empty() {
            self.put_back_logits(sequence, from)?;
        } else {
            let mut on_read = |read| _ = on_step(Progress::Read { read, total });
            let last_pass = self.begin_prefill(sequence, unknown, from, cancel, &mut on_read).await?;
            begun.last_pass = Some(last_pass);
        }
        // No buffer is created within the loop.
        self.states.begin(sequence, AHEAD)
    }

    /// After an error that leaves the sequence's state unknown: after a device loss the tokens that were known before
    /// are kept, to be read again.
    fn forget_after(&mut self, e: &Error, sequence: SequenceId, Held { history, long }: Held) -> Result<()> {
        match e.kind() {
            ErrorKind::DeviceLost => self.states.lose(sequence, history, long),
            _ => self.states.forget(sequence),
        }
    }
}

/// The decode loop of one sequence.
struct Decoding<'a> {
    run: Run<'a>,
    caller: Caller<'a>,
    begun: Begun,
    clock: Clock,
    in_flight: InFlight,
    speculation: Option<Speculation>,
    /// The least and the most tokens that the recorded steps take.
    least: u32,
    most: u32,
    /// The outcome so far; its times are set at the end.
    outcome: Outcome,
    /// Whether the GPU has seen the end: later steps have read nothing.
    ended_on_gpu: bool,
    /// Whether the caller has all tokens: up to the end or the limit.
    complete: bool,
    /// Whether the chunks in flight are ignored.
    discards: bool,
}

impl<'a> Decoding<'a> {
    fn new(session: &Session, run: Run<'a>, caller: Caller<'a>, needs: Needs, begun: Begun, clock: Clock) -> Self {
        let policy = ChunkPolicy::new(run.chunk, session.ms_a_token, session.gpu.latency_ms());
        let snapshots = Some((run.sequence, run.prompt.len() as u32));
        let always = run.speculate == Speculate::Always;
        Self {
            caller,
            clock,
            in_flight: InFlight::new(policy, needs, snapshots),
            speculation: needs.drafts.then(|| Speculation::new(run.prompt.ids(), always)),
            least: 0,
            most: 0,
            outcome: Outcome { known: begun.known, ..Outcome::default() },
            ended_on_gpu: false,
            complete: false,
            discards: false,
            run,
            begun,
        }
    }

    /// Writes the steps' input: sampling parameters, the tallies of penalties, the grammar's state, the text that
    /// drafts are taken from, and the state of the first step.
    fn put_parameters(&self, session: &Session) -> Result<()> {
        let Self { run, begun, in_flight: InFlight { needs, .. }, .. } = self;
        let ids = run.prompt.ids();
        session.put(Control::Sampling, bytes_of(&run.sampling))?;
        if needs.penalize {
            session.put(Control::Tallies, cast_slice(&session.tallies(ids, run.extras)))?;
        }
        if run.constraint.is_some() {
            session.put_walks(std::iter::once(run.constraint.as_deref()))?;
        }
        if needs.drafts {
            session.put(Control::Text, cast_slice(ids))?;
        }
        let token = ids.last().copied().unwrap_or_default();
        let next = Next { slot: begun.slot, at: run.prompt.len() as u32 - 1, lag: run.prompt.lag() };
        session.put(Control::Decode, bytes_of(&State { token, limit: run.limit, ..next.state(1) }))
    }

    /// Records chunks ahead and reads them back, until none is in flight any more.
    async fn run_steps(&mut self, session: &mut Session) -> Result<()> {
        loop {
            // The first steps are recorded while the last pass runs: the GPU does not wait for the host.
            self.record_ahead(session).await?;
            self.wait_for_prompt(session).await;
            let Some((chunk, read)) = self.in_flight.read(session).await else { return Ok(()) };
            match read {
                Err(e) => self.readback_failed(e),
                // Steps that were in flight when the end was seen.
                Ok(_) if self.discards || self.in_flight.failed() => {}
                Ok(bytes) => self.take(chunk, cast_slice(&bytes)),
            }
        }
    }

    /// Records chunks as long as more may be in flight.
    async fn record_ahead(&mut self, session: &mut Session) -> Result<()> {
        while self.in_flight.wants_more() && self.least < self.run.limit {
            if self.in_flight.recorded() > 0 && (self.run.pause)() {
                self.in_flight.stop();
                break;
            }
            let chunk = self.next_chunk();
            // The step that samples token n reads position prompt - 1 + n; states grow before a chunk, never within.
            let end = self.run.prompt.len() as u32 + (self.most + chunk.most()).min(self.run.limit) - 1;
            if let Err(e) = session.ensure(end).await {
                self.in_flight.fail(e);
                break;
            }
            session.states.may_write(self.run.sequence, end)?;
            self.in_flight.record(session, chunk, chunk.at == 0 && !self.begun.resumed);
            self.least += chunk.steps;
            self.most += chunk.most();
        }
        Ok(())
    }

    /// The next chunk: as many steps as are likely to take the tokens that the policy wants.
    fn next_chunk(&mut self) -> Chunk {
        let at = self.in_flight.recorded();
        // The first token's logits are prefill's, of one row.
        let speculation = self.speculation.as_ref().filter(|_| at > 0);
        let (pass, tokens_a_step) = speculation.map_or((Pass::Decode, 1.0), Speculation::next);
        let steps = (f64::from(self.in_flight.next_tokens()) / tokens_a_step).ceil() as u32;
        Chunk { at, steps: steps.min(self.run.limit - self.least), pass }
    }

    /// Waits for the prompt's last pass, once.
    async fn wait_for_prompt(&mut self, session: &Session) {
        let Some(last_pass) = self.begun.last_pass.take() else { return };
        if let Err(e) = session.passed(last_pass).await {
            self.in_flight.fail(e);
        }
        self.clock.prefilled = now_ms();
        let total = self.begun.unknown.len();
        (self.caller.on_step)(Progress::Read { read: total, total });
    }

    /// A chunk's readback has failed.
    fn readback_failed(&mut self, e: Error) {
        // A device that is lost after the last token costs this answer nothing: the next call returns the error.
        if self.complete && e.kind() == ErrorKind::DeviceLost {
            self.discard();
        } else {
            self.in_flight.fail(e);
        }
    }

    /// Stops recording, and ignores the chunks in flight.
    fn discard(&mut self) {
        self.in_flight.stop();
        self.discards = true;
    }

    /// Takes the tokens of a chunk's steps.
    fn take(&mut self, chunk: Chunk, words: &[u32]) {
        let ms = self.in_flight.interval();
        let steps = chunk.steps as usize;
        let taken = if self.in_flight.needs.drafts { Taken::of_rows(words) } else { Taken::of_ids(&words[..steps]) };
        self.learn(chunk, &taken, ms);
        self.ended_on_gpu |= taken.ended || taken.tokens.last().is_some_and(|id| self.run.sampling.stops(*id));
        if let Err(e) = check(self.run.constraint.as_deref_mut(), &taken.tokens) {
            self.in_flight.fail(e);
            return;
        }
        self.outcome.tokens.extend_from_slice(&taken.tokens);
        let goes_on = self.tell(chunk, &taken.tokens, words);
        if !goes_on || taken.ended || self.caller.cancel.is_cancelled() {
            self.discard();
            self.complete = true;
        }
        self.complete |= self.outcome.tokens.len() as u32 == self.run.limit;
    }

    /// Learns from a chunk for the next: from its tokens, and from its time where it was measured.
    fn learn(&mut self, chunk: Chunk, taken: &Taken, ms: Option<f64>) {
        let tokens = taken.tokens.len() as u32;
        if let Some(speculation) = &mut self.speculation {
            speculation.push(&taken.tokens);
            ms.into_iter().for_each(|ms| speculation.measured(chunk.pass, chunk.steps, ms));
            self.outcome.drafted += taken.drafted;
            self.outcome.accepted += taken.accepted;
            self.least = (self.least + tokens).saturating_sub(chunk.steps);
            self.most = (self.most + tokens).saturating_sub(chunk.most());
        }
        ms.into_iter().for_each(|ms| self.in_flight.measured(tokens, ms));
    }

    /// Passes a chunk's tokens, with their log probabilities, to the caller. Returns whether the generation continues.
    fn tell(&mut self, chunk: Chunk, ids: &[u32], words: &[u32]) -> bool {
        let logprobs = &mut self.outcome.logprobs;
        let told = logprobs.len();
        if self.in_flight.needs.logprobs {
            let steps = chunk.steps as usize;
            let top = self.run.sampling.top_logprobs as usize;
            logprobs.extend(read_logprobs(&words[steps..], (1, 0), ids.len(), top));
        }
        (self.caller.on_step)(Progress::Tokens { ids, logprobs: &logprobs[told..] })
    }

    /// Updates the sequence's state, and returns the outcome. Where the device was lost after a token, the session
    /// keeps the outcome, so that the answer can continue.
    fn end(mut self, session: &mut Session) -> Result<Outcome> {
        session.ms_a_token = self.in_flight.ms_a_token();
        let lost = self.in_flight.lost_device();
        let mut failure = self.in_flight.take_failure();
        if let Some(e) = failure.take_if(|_| !lost || self.outcome.tokens.is_empty()) {
            session.forget_after(&e, self.run.sequence, self.begun.held)?;
            return Err(e);
        }
        self.settle(session, lost)?;
        let outcome = self.timed(session.gpu.counters().snapshot());
        let Some(e) = failure else { return Ok(outcome) };
        session.interrupted = Some(outcome);
        Err(e)
    }

    /// Records in the sequence's state which tokens the steps have read.
    fn settle(&self, session: &mut Session, lost: bool) -> Result<()> {
        let tokens = &self.outcome.tokens;
        // No step has read the last token; the first step reads a token only where the text was resumed.
        let first = if self.begun.resumed { self.begun.unknown.ids() } else { &[] };
        let read = [first, &tokens[..tokens.len().saturating_sub(1)]].concat();
        if lost {
            return session.states.read_steps(self.run.sequence, &read);
        }
        let steps = if self.ended_on_gpu { tokens.len() as u32 } else { self.in_flight.recorded() };
        session.states.settle(self.run.sequence, &read, (steps + first.len() as u32).saturating_sub(1))
    }

    /// The outcome with its times and counters.
    fn timed(self, counters: Snapshot) -> Outcome {
        let Clock { started, prefilled, before, after_prefill } = self.clock;
        let (first, last) = self.in_flight.times().unwrap_or((prefilled, prefilled));
        let (prefill_ms, decode_ms) = (prefilled - started, last - prefilled);
        let timings = Timings {
            load_ms: 0.0,
            prefill_ms,
            ttft_ms: first - started,
            decode_ms,
            prefill_tok_s: rate(self.begun.unknown.len(), prefill_ms),
            decode_tok_s: rate(self.outcome.tokens.len().saturating_sub(1), decode_ms),
        };
        Outcome {
            timings,
            counters: counters.since(after_prefill),
            prefill_submits: after_prefill.since(before).submits,
            record_ms: self.in_flight.record_ms(),
            ..self.outcome
        }
    }
}

impl Session {
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

/// The first `fresh` of a chunk's log probabilities, of row `row` of `rows`. `words`: the ids of the likeliest tokens of
/// all steps' rows, then the log probabilities (chosen, likeliest) of all steps' rows.
pub(super) fn read_logprobs(words: &[u32], (rows, row): (usize, usize), fresh: usize, top: usize) -> Vec<Logprobs> {
    let (ids, values) = words.split_at(words.len() / (2 * MAX_TOP_LOGPROBS + 1) * MAX_TOP_LOGPROBS);
    let number = |bits: &u32| f32::from_bits(*bits);
    ids.chunks_exact(MAX_TOP_LOGPROBS)
        .zip(values.chunks_exact(MAX_TOP_LOGPROBS + 1))
        .skip(row)
        .step_by(rows)
        .take(fresh)
        .map(|(ids, values)| {
            let likeliest = ids.iter().zip(&values[1..]).take(top).filter(|(id, _)| **id != AFTER_END);
            Logprobs {
                chosen: number(&values[0]),
                likeliest: likeliest.map(|(id, value)| (*id, number(value))).collect(),
            }
        })
        .collect()
}

/// Advances an answer's grammar by tokens that were sampled. An error where it does not allow one, or where a step found
/// no token to choose.
pub(super) fn check(mut constraint: Option<&mut Constraint>, tokens: &[u32]) -> Result<()> {
    if let Some(constraint) = &mut constraint {
        tokens.iter().filter(|id| **id != NOT_A_NUMBER).try_for_each(|id| constraint.take(*id))?;
    }
    if tokens.contains(&NOT_A_NUMBER) { Err(nothing_to_choose(constraint.as_deref())) } else { Ok(()) }
}

/// The error of a step that has found no token to choose.
fn nothing_to_choose(constraint: Option<&Constraint>) -> Error {
    if constraint.is_some_and(|it| !it.goes_on()) {
        return Error::tokenizer(
            "no token of this model goes on as the grammar wants it: allow other characters, or take another model",
        );
    }
    Error::gpu("the model's logits are not numbers: its file is damaged, or this GPU computes wrongly; try lane exact")
}

/// `n` items in `ms` as a rate per second.
pub(super) fn rate(n: usize, ms: f64) -> f64 {
    if ms > 0.0 { n as f64 * 1000.0 / ms } else { 0.0 }
}
