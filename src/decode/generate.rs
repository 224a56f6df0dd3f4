//! The decode loop: chunks of steps recorded ahead, token ids read one chunk late.

use std::collections::VecDeque;

use bytemuck::{bytes_of, cast_slice};
use serde::Serialize;

use super::chunk::{ChunkPolicy, MOST};
use super::prefill::Next;
use super::session::Session;
use super::speculate::{ACCEPTED_ROW, Speculate, Speculation, taken};
use crate::base::{Cancel, now_ms};
use crate::error::{Error, ErrorKind, Result};
use crate::gpu::{Encoder, Pending, Snapshot};
use crate::grammar::Constraint;
use crate::kernels::State;
use crate::layout::{Control, Scratch};
use crate::plan::{Lane, Pass, Stage};
use crate::sample::{AFTER_END, IN_PROMPT, MAX_TOP_LOGPROBS, NOT_A_NUMBER, Sampling};
use crate::state::{CHECKPOINTS, Input, SequenceId};

/// Chunks recorded ahead of the one being read.
pub(super) const AHEAD: usize = 2;

/// Copies of a recurrent state that a sequence has at most: where it can go back to, and those of chunks under way and of the last that was read.
pub const STATE_COPIES: u64 = (CHECKPOINTS + AHEAD + 1) as u64;
/// Most tokens of one submission: several small submissions in flight beat one giant one.
const PER_SUBMIT: u32 = 4;

/// Bytes of a token's log probabilities: its own, and ids and those of the likeliest.
pub(super) const LOGPROBS_ROW: u64 = (2 * MAX_TOP_LOGPROBS as u64 + 1) * 4;

/// The log probability of a sampled token, and of the likeliest in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Logprobs {
    /// The token's own.
    pub chosen: f32,
    /// (token id, log probability), the likeliest first.
    pub likeliest: Vec<(u32, f32)>,
}

/// What is asked of each token beyond the parameters of sampling.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extras<'a> {
    /// Token ids, each once, and what is added to their logits.
    pub bias: &'a [(u32, f32)],
    /// How many of the prompt's last tokens are the answer's so far.
    pub answered: usize,
    /// Whether log probabilities are wanted.
    pub logprobs: bool,
}

/// One generation, ready to run.
pub struct Run<'a> {
    /// Whose text goes on.
    pub sequence: SequenceId,
    /// The prompt.
    pub prompt: &'a Input,
    /// Temperature, filters, seed and stop ids, as the kernels read them.
    pub sampling: Sampling,
    /// Most tokens to sample, at least 1.
    pub limit: u32,
    /// Whether what the cache holds of the prompt already is read again all the same.
    pub afresh: bool,
    /// Whether the prompt ends with a token that was sampled just before: the text goes on as if it had never been interrupted. Holds only
    /// where the cache holds all before it.
    pub resumed: bool,
    /// Bias, log probabilities, and what penalties count.
    pub extras: Extras<'a>,
    /// What the answer has to be, and where it stands in that. It moves on with what is sampled.
    pub constraint: Option<&'a mut Constraint>,
    /// Tokens between two readbacks; as many as the measured speed allows where it is not given.
    pub chunk: Option<u32>,
    /// Whether steps read drafts.
    pub speculate: Speculate,
    /// Asked before each chunk but the first: whether to leave it at what is under way, so that the text can go on another time, `resumed`.
    pub pause: &'a dyn Fn() -> bool,
}

/// What a generation has just done.
pub enum Progress<'a> {
    /// Read so many of the prompt's tokens, of those that it had to read.
    Read {
        /// Tokens read.
        read: usize,
        /// Tokens to read.
        total: usize,
    },
    /// Sampled these.
    Tokens {
        /// Their ids.
        ids: &'a [u32],
        /// Their log probabilities, if asked for.
        logprobs: &'a [Logprobs],
    },
}

/// Wall-clock times, ms, and speeds, tokens a second.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Timings {
    /// Opening, downloading and uploading the model, before this generation.
    pub load_ms: f64,
    /// From the first pass's recording to the end of the last on the GPU, as the host learns of it.
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

/// What a generation did.
#[derive(Default)]
pub struct Outcome {
    /// Sampled ids, the stop id included.
    pub tokens: Vec<u32>,
    /// Their log probabilities, if asked for.
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
    /// Those that were right.
    pub accepted: u64,
}

impl Outcome {
    /// This one, continued by `later`: one answer.
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

/// Which steps of a decode plan a generation needs.
#[derive(Clone, Copy)]
pub(super) struct Needs {
    /// What greedy sampling does without.
    pub temperature: bool,
    /// Rounds of the search for what survives top-k and top-p.
    pub rounds: u32,
    /// Penalties and bias; they also keep the logits that log probabilities are computed from.
    pub penalize: bool,
    pub logprobs: bool,
    pub grammar: bool,
    /// Steps that may take several tokens.
    pub drafts: bool,
    /// Of several sequences: nothing is drafted.
    pub company: bool,
}

impl Needs {
    fn of(run: &Run<'_>, vocab: usize) -> Self {
        let Run { sampling, extras, .. } = run;
        Self {
            temperature: sampling.temperature != 0.0,
            rounds: sampling.filter_rounds(vocab as u32),
            penalize: sampling.penalizes() || !extras.bias.is_empty() || extras.logprobs,
            logprobs: extras.logprobs,
            grammar: run.constraint.is_some(),
            drafts: false,
            company: false,
        }
    }

    /// Whether a stage of a decode step has anything to do.
    fn wants(self, stage: Stage) -> bool {
        match stage {
            Stage::Embed | Stage::Layer(_) | Stage::Tail(_) | Stage::Head | Stage::Choose => true,
            Stage::Constrain | Stage::Walk => self.grammar,
            Stage::Advance => !self.grammar && !self.drafts,
            Stage::Draft => self.drafts_first(stage),
            Stage::Accept => self.drafts,
            Stage::Penalize => self.penalize,
            Stage::Logprobs | Stage::Record => self.logprobs,
            Stage::Largest | Stage::Threshold => self.temperature,
            Stage::Search(round) => round < self.rounds,
        }
    }

    /// Whether what a row may choose does not depend on what the row before it has chosen.
    fn allows_drafts(self) -> bool {
        !self.penalize && !self.grammar
    }

    /// Bytes that a step's readback takes.
    fn bytes(self) -> u64 {
        match self {
            Self { drafts: true, .. } => ACCEPTED_ROW,
            Self { logprobs: true, .. } => 4 + LOGPROBS_ROW,
            _ => 4,
        }
    }
}

/// Steps that are recorded together.
#[derive(Clone, Copy)]
pub(super) struct Chunk {
    /// The number of the first.
    pub at: u32,
    /// How many.
    pub steps: u32,
    pub pass: Pass,
}

impl Chunk {
    /// Rows of each.
    fn rows(self) -> u32 {
        self.pass.step_rows().unwrap_or(1)
    }

    /// Most tokens that they take.
    fn most(self) -> u32 {
        self.steps * self.rows()
    }
}

pub(super) struct Flight {
    pub staging: usize,
    pub chunk: Chunk,
    pub bytes: u64,
    pub pending: Pending,
}

impl Session {
    /// Prefills the prompt and samples until a stop id, the limit, cancellation, or until `on_step`, which hears of each, returns false.
    pub async fn generate(&mut self, mut run: Run<'_>, cancel: &Cancel, on_step: &mut dyn FnMut(Progress<'_>) -> bool) -> Result<Outcome> {
        let started = now_ms();
        self.voice_of(&[run.sequence])?;
        let mut needs = Needs::of(&run, self.model().config().drawn);
        let always = run.speculate == Speculate::Always;
        if always && !needs.allows_drafts() {
            return Err(Error::bad_option(
                "speculate always: drafts cannot be verified where penalties, bias, log probabilities or a grammar look at each token; use auto or off",
            ));
        }
        // Lane exact has no kernels that compute several rows for little more than one, nor has any software.
        let pays = self.lane() != Lane::Exact && !self.gpu.caps().software;
        if always || (run.speculate == Speculate::Auto && pays && needs.allows_drafts()) {
            self.prepare_steps().await?;
            needs.drafts = self.speculates();
            if always && !needs.drafts {
                return Err(Error::bad_option(
                    "speculate always: this model's layers read one token a step, or cannot go back to before a wrong draft; use auto or off",
                ));
            }
        }
        if needs.penalize {
            self.prepare_extras().await?;
        }
        if let Some(constraint) = &run.constraint {
            self.prepare_grammar(constraint).await?;
        }
        if run.prompt.has_rows() {
            self.prepare_rows().await?;
        }
        let before = self.gpu.counters().snapshot();
        let sequence = run.sequence;
        // Where there is no room for the prompt, nothing is forgotten.
        let prompt = run.prompt.len() as u32;
        self.ensure(prompt).await?;
        let slot = self.enter(sequence).await?;
        let held = (self.states.history(sequence)?.clone(), self.states.is_long(sequence)?);
        self.interrupted = None;
        let known = if run.afresh && !run.resumed { 0 } else { self.known_prefix(sequence, run.prompt)? };
        let resumed = run.resumed && known + 1 == run.prompt.len();
        // What cannot be read leaves what is known as it is.
        let unknown = run.prompt.slice(known..run.prompt.len());
        self.check_input(&unknown)?;
        // The first steps are recorded while the last pass runs: the GPU goes on without a wait for the host.
        let total = run.prompt.len() - known;
        let mut on_read = |read| _ = on_step(Progress::Read { read, total });
        let last_pass = match self.rebuild(sequence, known, cancel).await {
            Ok(()) if resumed => self.states.cut(sequence, known as u32).map(|()| None),
            Ok(()) if total == 0 => self.put_back_logits(sequence, prompt).map(|()| None),
            Ok(()) => self.begin_prefill(sequence, &unknown, known as u32, cancel, &mut on_read).await.map(Some),
            Err(e) => Err(e),
        };
        let last_pass = match last_pass {
            // Nothing is created within the loop.
            Ok(fence) => self.states.begin(sequence, AHEAD).map(|()| fence),
            Err(e) => Err(e),
        };
        let mut last_pass = match last_pass {
            Ok(fence) => fence,
            Err(e) => {
                match e.kind() {
                    ErrorKind::Aborted => (),
                    ErrorKind::DeviceLost => self.states.lose(sequence, held.0, held.1)?,
                    _ => self.states.forget(sequence)?,
                }
                return Err(e);
            }
        };
        let mut prefilled = now_ms();
        let after_prefill = self.gpu.counters().snapshot();

        let mut policy = ChunkPolicy::new(run.chunk, self.ms_a_token, self.gpu.latency_ms());
        self.put(Control::Sampling, bytes_of(&run.sampling))?;
        if needs.penalize {
            self.put(Control::Tallies, cast_slice(&self.tallies(run.prompt.ids(), run.extras)))?;
        }
        if let Some(constraint) = &run.constraint {
            self.put(Control::Walk, cast_slice(&constraint.words()))?;
        }
        if needs.drafts {
            self.put(Control::Text, cast_slice(run.prompt.ids()))?;
        }
        let mut speculation = needs.drafts.then(|| Speculation::new(run.prompt.ids(), always));
        let (mut drafted, mut accepted) = (0, 0);
        let token = run.prompt.ids().last().copied().unwrap_or_default();
        let next = Next { slot, at: prompt - 1, lag: run.prompt.lag() };
        self.put(Control::Decode, bytes_of(&State { token, limit: run.limit, ..next.state(1) }))?;

        let mut flights: VecDeque<Flight> = VecDeque::new();
        let mut tokens = Vec::new();
        let mut logprobs = Vec::new();
        let mut recorded = 0u32;
        // Tokens that what is recorded samples at least and at most.
        let (mut least, mut most) = (0u32, 0u32);
        let mut staging = 0;
        let mut going = true;
        let mut complete = false;
        let mut paused = false;
        // Whether the GPU knows of the end: steps after it have read nothing.
        let mut ended_there = false;
        let mut first_at = None;
        let mut last_read = prefilled;
        let mut failure = None;
        let mut record_ms = 0.0;
        loop {
            while going && !paused && flights.len() < AHEAD && least < run.limit {
                paused = recorded > 0 && (run.pause)();
                if paused {
                    break;
                }
                // The first token's logits are prefill's, of one row.
                let (pass, expected) = speculation.as_ref().filter(|_| recorded > 0).map_or((Pass::Decode, 1.0), Speculation::next);
                let steps = ((f64::from(policy.next()) / expected).ceil() as u32).min(run.limit - least);
                let chunk = Chunk { at: recorded, steps, pass };
                let reaches = (most + chunk.most()).min(run.limit);
                // The step that samples token n reads position prompt - 1 + n; room is made before the chunk, never within.
                if let Err(e) = self.ensure(prompt + reaches - 1).await {
                    failure.get_or_insert(e);
                    going = false;
                    break;
                }
                self.states.may_write(sequence, prompt + reaches - 1)?;
                let recording = now_ms();
                let flight = self.record(chunk, staging, needs, recorded == 0 && !resumed, Some((sequence, prompt)));
                record_ms += now_ms() - recording;
                match flight {
                    Ok(flight) => flights.push_back(flight),
                    Err(e) => {
                        failure = Some(e);
                        going = false;
                    }
                }
                recorded += steps;
                least += steps;
                most += chunk.most();
                staging = (staging + 1) % self.staging.len();
            }
            if let Some(fence) = last_pass.take() {
                if let Err(e) = self.passed(fence).await {
                    failure.get_or_insert(e);
                    going = false;
                }
                prefilled = now_ms();
                last_read = prefilled;
                on_step(Progress::Read { read: total, total });
            }
            let Some(flight) = flights.pop_front() else { break };
            let bytes = match self.gpu.take(&self.staging[flight.staging], flight.bytes, flight.pending).await {
                Ok(bytes) => bytes,
                Err(e) => {
                    // What comes after the end is nobody's loss; whoever comes next will hear of it.
                    if !(complete && e.kind() == ErrorKind::DeviceLost) {
                        failure.get_or_insert(e);
                    }
                    going = false;
                    continue;
                }
            };
            let now = now_ms();
            if !going {
                continue; // steps that were under way when the end was seen
            }
            // The first chunk begins with a token that prefill has all but made: it says nothing about a step.
            let Chunk { steps, pass, .. } = flight.chunk;
            let words = cast_slice::<u8, u32>(&bytes);
            let (fresh, ended, rest) = match &mut speculation {
                Some(speculation) => {
                    let taken = taken(words);
                    drafted += taken.drafted;
                    accepted += taken.accepted;
                    speculation.push(&taken.tokens);
                    if first_at.is_some() {
                        speculation.measured(pass, steps, now - last_read);
                    }
                    least = (least + taken.tokens.len() as u32).saturating_sub(steps);
                    most = (most + taken.tokens.len() as u32).saturating_sub(flight.chunk.most());
                    (taken.tokens, taken.ended, &[][..])
                }
                None => {
                    let (ids, rest) = words.split_at(steps as usize);
                    let fresh: Vec<u32> = ids.iter().copied().take_while(|id| *id != AFTER_END).collect();
                    let ended = fresh.len() < ids.len();
                    (fresh, ended, rest)
                }
            };
            if first_at.is_some() {
                policy.measured(fresh.len() as u32, now - last_read);
            }
            last_read = now;
            first_at.get_or_insert(now);
            ended_there |= ended || fresh.last().is_some_and(|id| run.sampling.stops(*id));
            let walked = run.constraint.as_deref_mut().map_or(Ok(()), |it| fresh.iter().filter(|id| **id != NOT_A_NUMBER).try_for_each(|id| it.take(*id)));
            if let Err(e) = walked {
                failure.get_or_insert(e);
                going = false;
                continue;
            }
            if fresh.contains(&NOT_A_NUMBER) {
                failure.get_or_insert_with(|| nothing_to_choose(run.constraint.as_deref()));
                going = false;
                continue;
            }
            tokens.extend_from_slice(&fresh);
            let about = logprobs.len();
            if needs.logprobs {
                logprobs.extend(read_logprobs(rest, steps as usize, fresh.len(), run.sampling.top_logprobs as usize));
            }
            if !on_step(Progress::Tokens { ids: &fresh, logprobs: &logprobs[about..] }) || ended || cancel.is_cancelled() {
                (going, complete) = (false, true);
            }
            complete |= tokens.len() as u32 == run.limit;
        }
        self.ms_a_token = policy.ms_a_token();
        let lost = failure.as_ref().is_some_and(|e| e.kind() == ErrorKind::DeviceLost);
        if let Some(e) = failure.take_if(|_| !lost || tokens.is_empty()) {
            if lost {
                self.states.lose(sequence, held.0, held.1)?;
            } else {
                self.states.forget(sequence)?;
            }
            return Err(e);
        }
        // No step has read the last token; the first one reads only what was resumed.
        let first = if resumed { &run.prompt.ids()[known..] } else { &[] };
        let read = [first, &tokens[..tokens.len().saturating_sub(1)]].concat();
        if lost {
            self.states.read_steps(sequence, &read)?;
        } else {
            let steps = if ended_there { tokens.len() as u32 } else { recorded };
            self.states.settle(sequence, &read, (steps + first.len() as u32).saturating_sub(1))?;
        }
        let done = last_read;
        let counters = self.gpu.counters().snapshot();
        let decode_ms = done - prefilled;
        let timings = Timings {
            load_ms: 0.0,
            prefill_ms: prefilled - started,
            ttft_ms: first_at.unwrap_or(done) - started,
            decode_ms,
            prefill_tok_s: rate(run.prompt.len() - known, prefilled - started),
            decode_tok_s: rate(tokens.len().saturating_sub(1), decode_ms),
        };
        let outcome = Outcome {
            tokens,
            logprobs,
            known,
            timings,
            counters: counters.since(after_prefill),
            prefill_submits: after_prefill.since(before).submits,
            record_ms,
            drafted,
            accepted,
        };
        match failure {
            Some(e) => {
                self.interrupted = Some(outcome);
                Err(e)
            }
            None => Ok(outcome),
        }
    }

    /// Records a chunk's steps and the readback of their token ids. `first`: the logits of the first are there already, from prefill. Of a sequence
    /// that has a mark at the chunk's end: it, and its tokens before the first step.
    pub(super) fn record(&mut self, chunk: Chunk, staging: usize, needs: Needs, mut first: bool, marked: Option<(SequenceId, u32)>) -> Result<Flight> {
        let Chunk { at, steps: n, pass } = chunk;
        self.must_have(pass)?;
        let mut left = n;
        // Where some steps take several tokens, those that take one end as they do.
        let accept = self.steps(Pass::Four).iter().filter(|step| step.stage == Stage::Accept && needs.drafts && pass == Pass::Decode);
        loop {
            let mut encoder = self.gpu.encoder("decode");
            let now = left.min(PER_SUBMIT);
            {
                let mut compute = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                for _ in 0..now {
                    let sampled = std::mem::replace(&mut first, false);
                    let steps = self.steps(pass).iter().filter(|step| needs.wants(step.stage) && (!sampled || step.stage.samples()));
                    steps.chain(accept.clone()).for_each(|step| self.gpu.dispatch(&mut compute, &step.bound, step.grid.at(chunk.rows())));
                }
            }
            left -= now;
            if left == 0 {
                let (ring, row) = if needs.drafts { (Control::Accepted, ACCEPTED_ROW) } else { (Control::Ring, 4) };
                let mut to = self.copy_ring(&mut encoder, ring, row, (at, n), staging, 0)?;
                if needs.logprobs {
                    to = self.copy_ring(&mut encoder, Control::Likeliest, MAX_TOP_LOGPROBS as u64 * 4, (at, n), staging, to)?;
                    self.copy_ring(&mut encoder, Control::Logprobs, (MAX_TOP_LOGPROBS as u64 + 1) * 4, (at, n), staging, to)?;
                }
                if let Some((sequence, tokens)) = marked {
                    let slot = self.states.slot_of(sequence)?;
                    self.states.mark(sequence, &mut encoder, slot, tokens + at + n - 1)?;
                }
                let bytes = u64::from(n) * needs.bytes();
                let submission = self.gpu.submit(encoder);
                let pending = self.gpu.map(&self.staging[staging], bytes, submission);
                return Ok(Flight { staging, chunk, bytes, pending });
            }
            self.gpu.submit(encoder);
        }
    }

    /// Goes back to the end of a prompt of `n` tokens that is known whole, and to its logits.
    fn put_back_logits(&mut self, sequence: SequenceId, n: u32) -> Result<()> {
        self.states.cut(sequence, n)?;
        self.states.put_back_logits(sequence, self.buffer(Scratch::Logits)?)
    }

    /// How many of the prompt's tokens need not be read: the sequence remembers them. The last one is read, for its logits, unless a recurrent state was kept
    /// behind it, with these; everything is where a prompt is as long as to be rotated otherwise.
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
        // Rows that see each other are read in one pass.
        while self.pictures_are_whole() && prompt.whole_until(known) < known {
            known = self.states.trim(sequence, prompt.whole_until(known) as u32)? as usize;
        }
        Ok(known)
    }

    /// Copies slots `at .. at + n` of a ring of rows of so many bytes into a staging buffer, from `to` on: where they end there.
    fn copy_ring(&self, encoder: &mut Encoder, ring: Control, row: u64, (at, n): (u32, u32), staging: usize, to: u64) -> Result<u64> {
        let ring = self.buffer(ring)?;
        let (start, bytes) = (u64::from(at % MOST) * row, u64::from(n) * row);
        // The ring may wrap within the chunk.
        let before_wrap = bytes.min(u64::from(MOST) * row - start);
        encoder.copy_buffer_to_buffer(ring.raw(), start, self.staging[staging].raw(), to, before_wrap);
        if before_wrap < bytes {
            encoder.copy_buffer_to_buffer(ring.raw(), 0, self.staging[staging].raw(), to + before_wrap, bytes - before_wrap);
        }
        Ok(to + bytes)
    }

    /// Of each token whether it is in the prompt and how often in the answer, and its bias. Ids beyond the vocabulary have no logit.
    fn tallies(&self, prompt: &[u32], Extras { bias, answered, .. }: Extras<'_>) -> Vec<[u32; 2]> {
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

/// The first `fresh` of a chunk's log probabilities: ids of the likeliest of all its steps, then (chosen, likeliest) of all.
fn read_logprobs(words: &[u32], steps: usize, fresh: usize, top: usize) -> Vec<Logprobs> {
    let (ids, values) = words.split_at(steps * MAX_TOP_LOGPROBS);
    let number = |bits: &u32| f32::from_bits(*bits);
    ids.chunks_exact(MAX_TOP_LOGPROBS)
        .zip(values.chunks_exact(MAX_TOP_LOGPROBS + 1))
        .take(fresh)
        .map(|(ids, values)| {
            let likeliest = ids.iter().zip(&values[1..]).take(top).filter(|(id, _)| **id != AFTER_END);
            Logprobs { chosen: number(&values[0]), likeliest: likeliest.map(|(id, value)| (*id, number(value))).collect() }
        })
        .collect()
}

pub(super) fn nothing_to_choose(constraint: Option<&Constraint>) -> Error {
    if constraint.is_some_and(|it| !it.goes_on()) {
        return Error::tokenizer("no token of this model goes on as the grammar wants it: allow other characters, or take another model");
    }
    Error::gpu("the model's logits are not numbers: its file is damaged, or this GPU computes wrongly; try lane exact")
}

pub(super) fn rate(n: usize, ms: f64) -> f64 {
    if ms > 0.0 { n as f64 * 1000.0 / ms } else { 0.0 }
}
