//! What decoding is asked for and what it returns: turns of sequences, their progress and outcomes.

use serde::Serialize;

use super::in_flight::AHEAD;
use super::speculate::Speculate;
use crate::base::Cancel;
use crate::base::numbers::FEW_ROWS;
use crate::error::{Error, Result};
use crate::gpu::Snapshot;
use crate::grammar::Constraint;
use crate::sample::{MAX_TOP_LOGPROBS, Sampling};
use crate::state::{CHECKPOINTS, Input, SequenceId};

/// Most sequences that take steps together.
pub const MOST_TOGETHER: usize = FEW_ROWS as usize;

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

/// Called after each pass of the prompt and each chunk; false ends the turn.
pub type OnProgress<'a> = Box<dyn FnMut(Progress<'_>) -> bool + 'a>;

/// One sequence's part in a run of the decode loop.
pub struct Turn<'a> {
    /// The sequence that is continued.
    pub sequence: SequenceId,
    /// The prompt: the sequence's whole text.
    pub prompt: &'a Input,
    /// Temperature, filters, seed and stop ids, as the kernels read them.
    pub sampling: Sampling,
    /// Most tokens to sample; 0 only reads the prompt.
    pub limit: u32,
    /// Whether the prompt is read anew, though the cache holds a part of it.
    pub afresh: bool,
    /// Whether the prompt ends with a token that was sampled just before: generation continues as if it had never been
    /// interrupted. Has an effect only where the cache holds the tokens before it. Turns of several sequences are all
    /// resumed.
    pub resumed: bool,
    /// Bias, log probabilities, and what penalties count.
    pub extras: Extras<'a>,
    /// The grammar and its current state, which advances with each sampled token.
    pub constraint: Option<&'a mut Constraint>,
    /// Whether steps read drafts, where the sequence takes its turn alone.
    pub speculate: Speculate,
    /// Ends the turn after the chunks in flight.
    pub cancel: &'a Cancel,
    /// Called with the turn's progress.
    pub on_progress: OnProgress<'a>,
}

/// How a run's steps are cut into chunks.
#[derive(Clone, Copy)]
pub struct Pace<'a> {
    /// Tokens between two readbacks; `None`: as many as the measured speed allows.
    pub chunk: Option<u32>,
    /// Called before each chunk but the first: whether the run ends after the chunks in flight, so that its turns can
    /// continue later, `resumed`.
    pub pause: &'a dyn Fn() -> bool,
    /// The longest duration of a chunk of several steps, ms; infinite: the loop's own.
    pub patience_ms: f64,
}

/// The outcome of a run.
pub struct Stretch {
    /// The outcome of each turn, or its own error.
    pub parts: Vec<Result<Outcome>>,
    /// The error of the whole run, if any: tokens that were sampled before it are in the parts.
    pub failure: Option<Error>,
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
    /// Encoding the prompt's pictures, loading their encoder too, before prefill.
    pub pictures_ms: f64,
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

/// `n` items in `ms` as a rate per second.
pub(super) fn rate(n: usize, ms: f64) -> f64 {
    if ms > 0.0 { n as f64 * 1000.0 / ms } else { 0.0 }
}
