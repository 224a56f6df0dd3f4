//! The decode loop: chunks of steps recorded ahead, token ids read one chunk late.

use std::collections::VecDeque;

use bytemuck::{bytes_of, cast_slice};
use serde::Serialize;

use super::chunk::{ChunkPolicy, MOST};
use super::history::History;
use super::session::Session;
use crate::error::{Error, ErrorKind, Result};
use crate::gpu::{Pending, Snapshot};
use crate::kernels::State;
use crate::plan::labels;
use crate::sample::{AFTER_END, NOT_A_NUMBER, Sampling};
use crate::stream::{Cancel, now_ms};

/// Chunks recorded ahead of the one being read.
const AHEAD: usize = 2;
/// Most tokens of one submission: several small submissions in flight beat one giant one.
const PER_SUBMIT: u32 = 4;

/// One generation, ready to run.
pub struct Run<'a> {
    /// The prompt.
    pub prompt: &'a [u32],
    /// Temperature, filters, seed and stop ids, as the kernels read them.
    pub sampling: Sampling,
    /// Most tokens to sample, at least 1.
    pub limit: u32,
    /// Whether what the cache holds of the prompt already is read again all the same.
    pub afresh: bool,
    /// Whether the prompt ends with a token that was sampled just before: the text goes on as if it had never been interrupted. Holds only
    /// where the cache holds all before it.
    pub resumed: bool,
    /// Tokens between two readbacks; as many as the measured speed allows where it is not given.
    pub chunk: Option<u32>,
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
    Tokens(&'a [u32]),
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
        self.timings.decode_tok_s = rate(self.tokens.len().saturating_sub(1), self.timings.decode_ms);
        self.counters = self.counters.and(later.counters);
        self.prefill_submits += later.prefill_submits;
        self.record_ms += later.record_ms;
        self
    }
}

struct Flight {
    staging: usize,
    tokens: u32,
    pending: Pending,
}

impl Session {
    /// Prefills the prompt and samples until a stop id, the limit, cancellation, or until `on_step`, which hears of each, returns false.
    pub async fn generate(&mut self, run: Run<'_>, cancel: &Cancel, on_step: &mut dyn FnMut(Progress<'_>) -> bool) -> Result<Outcome> {
        let started = now_ms();
        let before = self.gpu.counters().snapshot();
        let held = (self.cached.clone(), self.missing, self.long);
        self.interrupted = None;
        let known = if run.afresh && !run.resumed { 0 } else { self.known_prefix(run.prompt) };
        let resumed = run.resumed && known + 1 == run.prompt.len();
        // The first steps are recorded while the last pass runs: the GPU goes on without a wait for the host.
        let total = run.prompt.len() - known;
        let mut on_read = |read| _ = on_step(Progress::Read { read, total });
        let last_pass = match self.rebuild(known, cancel).await {
            Ok(()) if resumed => Ok(None),
            Ok(()) => self.begin_prefill(&run.prompt[known..], known as u32, cancel, &mut on_read).await.map(Some),
            Err(e) => Err(e),
        };
        let mut last_pass = match last_pass {
            Ok(fence) => fence,
            Err(e) => {
                match e.kind() {
                    ErrorKind::Aborted => (),
                    ErrorKind::DeviceLost => self.held_before(held),
                    _ => self.cached.clear(),
                }
                return Err(e);
            }
        };
        let mut prefilled = now_ms();
        let after_prefill = self.gpu.counters().snapshot();

        let prompt = run.prompt.len() as u32;
        let mut policy = ChunkPolicy::new(run.chunk, self.ms_a_token);
        self.put(labels::SAMPLING, bytes_of(&run.sampling))?;
        let token = run.prompt.last().copied().unwrap_or_default();
        self.put(labels::STATE, bytes_of(&State { pos: prompt - 1, token, rows: 1, limit: run.limit, ..State::default() }))?;

        let mut flights: VecDeque<Flight> = VecDeque::new();
        let mut tokens = Vec::new();
        let mut recorded = 0u32;
        let mut staging = 0;
        let mut going = true;
        let mut complete = false;
        let mut first_at = None;
        let mut last_read = prefilled;
        let mut failure = None;
        let mut record_ms = 0.0;
        let greedy = run.sampling.temperature == 0.0;
        loop {
            while going && flights.len() < AHEAD && recorded < run.limit {
                let n = policy.next().min(run.limit - recorded);
                // Step `recorded` runs at position prompt - 1 + recorded; room is made before the chunk, never within.
                if let Err(e) = self.ensure(prompt + recorded + n - 1) {
                    failure.get_or_insert(e);
                    going = false;
                    break;
                }
                self.written = self.written.max(prompt + recorded + n - 1);
                let recording = now_ms();
                let flight = self.record(recorded, n, staging, greedy, resumed);
                record_ms += now_ms() - recording;
                match flight {
                    Ok(flight) => flights.push_back(flight),
                    Err(e) => {
                        failure = Some(e);
                        going = false;
                    }
                }
                recorded += n;
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
            let bytes = match self.gpu.take(&self.staging[flight.staging], u64::from(flight.tokens) * 4, flight.pending).await {
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
            if first_at.is_some() {
                policy.measured(flight.tokens, now - last_read);
            }
            last_read = now;
            first_at.get_or_insert(now);
            let ids: &[u32] = cast_slice(&bytes);
            let fresh: Vec<u32> = ids.iter().copied().take_while(|id| *id != AFTER_END).collect();
            let ended = fresh.len() < ids.len();
            if fresh.contains(&NOT_A_NUMBER) {
                failure.get_or_insert_with(not_a_number);
                going = false;
                continue;
            }
            tokens.extend_from_slice(&fresh);
            if !on_step(Progress::Tokens(&fresh)) || ended || cancel.is_cancelled() {
                (going, complete) = (false, true);
            }
            complete |= tokens.len() as u32 == run.limit;
        }
        self.ms_a_token = policy.ms_a_token();
        let lost = failure.as_ref().is_some_and(|e| e.kind() == ErrorKind::DeviceLost);
        if let Some(e) = failure.take_if(|_| !lost || tokens.is_empty()) {
            if lost {
                self.held_before(held);
            } else {
                self.cached.clear();
            }
            return Err(e);
        }
        // No step has read the last token.
        if resumed {
            self.cached.steps(&run.prompt[known..]);
        }
        self.cached.steps(&tokens[..tokens.len().saturating_sub(1)]);
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
        let outcome =
            Outcome { tokens, known, timings, counters: counters.since(after_prefill), prefill_submits: after_prefill.since(before).submits, record_ms };
        match failure {
            Some(e) => {
                self.interrupted = Some(outcome);
                Err(e)
            }
            None => Ok(outcome),
        }
    }

    /// After a loss before the first token: what the cache should hold is what it held before.
    fn held_before(&mut self, (cached, missing, long): (History, bool, bool)) {
        self.written = self.written.max(cached.len() as u32);
        (self.cached, self.missing, self.long) = (cached, missing, long);
    }

    /// Records steps `at .. at + n` and the readback of their token ids. The very first step's logits are there already, from prefill, unless
    /// there was none: `resumed`.
    /// Greedy sampling looks at the logits only once: what filters need is left out.
    fn record(&self, at: u32, n: u32, staging: usize, greedy: bool, resumed: bool) -> Result<Flight> {
        let mut left = n;
        let mut first = at == 0 && !resumed;
        loop {
            let mut encoder = self.gpu.encoder("decode");
            let now = left.min(PER_SUBMIT);
            {
                let mut compute = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                for _ in 0..now {
                    let steps = if first { &self.tail } else { &self.decode };
                    first = false;
                    for step in steps.iter().filter(|s| !(greedy && s.filter)) {
                        self.gpu.dispatch(&mut compute, &step.bound, step.grid.at(1));
                    }
                }
            }
            left -= now;
            if left == 0 {
                let bytes = u64::from(n) * 4;
                let ring = self.buffer(labels::RING)?;
                // The ring may wrap within the chunk.
                let start = u64::from(at % MOST) * 4;
                let before_wrap = bytes.min(u64::from(MOST) * 4 - start);
                encoder.copy_buffer_to_buffer(ring.raw(), start, self.staging[staging].raw(), 0, before_wrap);
                if before_wrap < bytes {
                    encoder.copy_buffer_to_buffer(ring.raw(), 0, self.staging[staging].raw(), before_wrap, bytes - before_wrap);
                }
                let submission = self.gpu.submit(encoder);
                let pending = self.gpu.map(&self.staging[staging], bytes, submission);
                return Ok(Flight { staging, tokens: n, pending });
            }
            self.gpu.submit(encoder);
        }
    }
}

fn not_a_number() -> Error {
    Error::gpu("the model's logits are not numbers: its file is damaged, or this GPU computes wrongly; try lane exact")
}

fn rate(n: usize, ms: f64) -> f64 {
    if ms > 0.0 { n as f64 * 1000.0 / ms } else { 0.0 }
}
