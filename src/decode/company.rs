//! Batched decoding: each step reads the next token of up to eight sequences, with each weight read once for all of
//! them. The sequences stay the same for a stretch; sequences join and leave between two stretches, which changes no
//! text.

use bytemuck::{bytes_of, cast_slice};

use super::chunk::ChunkPolicy;
use super::generate::{Extras, Logprobs, Outcome, Timings, check, rate, read_logprobs};
use super::in_flight::{Chunk, InFlight};
use super::session::Session;
use super::speculate::ACCEPTED_ROW;
use crate::base::numbers::FEW_ROWS;
use crate::base::{Cancel, now_ms};
use crate::error::{Error, Result};
use crate::gpu::Snapshot;
use crate::grammar::Constraint;
use crate::kernels::State;
use crate::layout::Control;
use crate::plan::Pass;
use crate::sample::{AFTER_END, Sampling};
use crate::state::{Input, SequenceId};

/// Most sequences that take steps together.
pub const MOST_TOGETHER: usize = FEW_ROWS as usize;
/// Words of a step's tokens in a readback.
const ACCEPTED_WORDS: usize = ACCEPTED_ROW as usize / 4;
/// How long a chunk lasts, ms: a new request waits for those in flight.
const PATIENCE_MS: f64 = 8.0;

/// Called with each chunk's tokens, and their log probabilities where they are asked for; false ends the stretch.
pub type OnTokens<'a> = Box<dyn FnMut(&[u32], &[Logprobs]) -> bool + 'a>;

/// One of the sequences of a batch.
pub struct Member<'a> {
    /// The sequence.
    pub sequence: SequenceId,
    /// Its text, of which all but the last token have been read.
    pub text: &'a Input,
    /// Temperature, filters, seed and stop ids.
    pub sampling: Sampling,
    /// Bias, log probabilities, and the tokens that penalties count.
    pub extras: Extras<'a>,
    /// The grammar and its current state, which advances with each sampled token.
    pub constraint: Option<&'a mut Constraint>,
    /// Most tokens to sample, at least 1.
    pub limit: u32,
    /// Ends the stretch.
    pub cancel: &'a Cancel,
    /// Called with each chunk's tokens.
    pub on_tokens: OnTokens<'a>,
}

/// The outcome of a stretch.
pub struct Stretch {
    /// The outcome of each member.
    pub parts: Vec<Result<Outcome>>,
    /// The error of the whole stretch, if any: tokens that were sampled before are in the parts.
    pub failure: Option<Error>,
}

impl Session {
    /// Whether sequences can take steps together: the model has plans of steps with several rows, which need states
    /// that can be cut back. Otherwise sequences take turns.
    pub(crate) fn keeps_company(&self) -> bool {
        Pass::STEPS.iter().all(|pass| !self.plans()[*pass].steps.is_empty())
    }

    /// Samples for all members until one of them ends (at a stop id, its limit, when it is cancelled or `on_tokens`
    /// says so), or until `pause`, which is asked before each chunk. All have the same rotations, and each a slot.
    pub async fn together(
        &mut self,
        members: &mut [Member<'_>],
        chunk: Option<u32>,
        pause: &dyn Fn() -> bool,
    ) -> Result<Stretch> {
        let started = now_ms();
        let pass = self.pass_of_company(members.len())?;
        self.voice_of(&sequences(members))?;
        let needs = self.prepare_company(members).await?;
        self.prepare_passes(&[pass]).await?;
        let state = self.enter_all(members, pass).await?;
        let before = self.gpu.counters().snapshot();
        self.put_company(members, &state, needs.penalize)?;
        let policy = ChunkPolicy::new(chunk, self.ms_a_step, self.gpu.latency_ms()).patient(PATIENCE_MS);
        let mut company = Company {
            longest: members.iter().map(|member| member.limit).max().unwrap_or(1),
            rows: members.iter_mut().map(Row::new).collect(),
            pass,
            in_flight: InFlight::new(policy, needs, None),
            pause,
        };
        company.run_steps(self).await;
        company.end(self, started, before)
    }

    /// The pass of steps with `rows` sequences.
    fn pass_of_company(&self, rows: usize) -> Result<Pass> {
        let slots = self.sizes().slots;
        if rows == 0 || rows > MOST_TOGETHER || rows > slots as usize {
            return Err(Error::internal(format!("{rows} answers in one step, of {slots} slots")));
        }
        Ok(if rows <= 4 { Pass::Four } else { Pass::Eight })
    }

    /// Gives each member its slot, with all but the last of its tokens, and a row of the steps to come.
    async fn enter_all(&mut self, members: &[Member<'_>], pass: Pass) -> Result<State> {
        for member in members {
            // A sequence that has a slot keeps it when another needs one.
            self.enter(member.sequence).await?;
        }
        for member in members {
            let n = member.text.len().saturating_sub(1);
            self.rebuild(member.sequence, n, member.cancel).await?;
        }
        let mut state = State { rows: members.len() as u32, apart: 1, ..State::default() };
        for (each, member) in state.each.iter_mut().zip(members) {
            *each = self.row_of(member, pass).await?;
        }
        // Entering has set the adapters of one sequence.
        self.voice_of(&sequences(members))?;
        Ok(state)
    }

    /// A member's row of the state: position of the next token, slot, remaining tokens and lag.
    async fn row_of(&mut self, member: &Member<'_>, pass: Pass) -> Result<[u32; 4]> {
        let Member { sequence, text, limit, .. } = *member;
        let read = text.len().saturating_sub(1);
        let known = self.states.history(sequence)?.input().common(text) >= read;
        if text.is_empty() || !known || self.states.is_long(sequence)? != self.long {
            let pass = pass.name();
            return Err(Error::internal(format!("{pass} rows: a sequence that is not where its text is")));
        }
        let slot = self.enter(sequence).await?;
        self.states.cut(sequence, read as u32)?;
        Ok([read as u32, slot, limit, self.states.lag(sequence)?])
    }

    /// Writes the steps' input of each row: its state, token, sampling parameters and grammar, and where one
    /// `penalizes` the tallies of all.
    fn put_company(&self, members: &[Member<'_>], state: &State, penalizes: bool) -> Result<()> {
        let tokens: Vec<u32> = members.iter().filter_map(|member| member.text.ids().last().copied()).collect();
        let sampling: Vec<Sampling> = members.iter().map(|member| member.sampling).collect();
        self.put(Control::Decode, bytes_of(state))?;
        self.put(Control::Drafts, cast_slice(&tokens))?;
        self.put(Control::Sampling, cast_slice(&sampling))?;
        if penalizes {
            let tallies = |row: &Member<'_>| self.tallies(row.text.ids(), row.extras);
            self.put(Control::Tallies, cast_slice(&members.iter().flat_map(tallies).collect::<Vec<_>>()))?;
        }
        if members.iter().any(|row| row.constraint.is_some()) {
            self.put_walks(members.iter().map(|row| row.constraint.as_deref()))?;
        }
        Ok(())
    }
}

fn sequences(members: &[Member<'_>]) -> Vec<SequenceId> {
    members.iter().map(|member| member.sequence).collect()
}

/// The decode loop of several sequences.
struct Company<'m, 'a> {
    rows: Vec<Row<'m, 'a>>,
    pass: Pass,
    /// The largest limit of all members.
    longest: u32,
    in_flight: InFlight,
    /// Called before each chunk but the first: whether the stretch ends after the chunks in flight.
    pause: &'m dyn Fn() -> bool,
}

impl Company<'_, '_> {
    /// Records chunks ahead and reads them back, until none is in flight any more.
    async fn run_steps(&mut self, session: &mut Session) {
        loop {
            self.record_ahead(session).await;
            let Some((chunk, read)) = self.in_flight.read(session).await else { return };
            match read {
                Ok(bytes) => self.take(chunk, cast_slice(&bytes)),
                Err(e) => self.in_flight.fail(e),
            }
        }
    }

    /// Records chunks as long as more may be in flight, and each row has room for them.
    async fn record_ahead(&mut self, session: &mut Session) {
        while self.in_flight.wants_more() && self.in_flight.recorded() < self.longest {
            let at = self.in_flight.recorded();
            if at > 0 && (self.pause)() {
                self.in_flight.stop();
                break;
            }
            let steps = self.in_flight.next_tokens().min(self.longest - at);
            let chunk = Chunk { at, steps, pass: self.pass };
            for row in &mut self.rows {
                row.make_room(session, chunk).await;
            }
            // Rows that have room continue in another stretch.
            if self.ended() {
                self.in_flight.stop();
                break;
            }
            self.in_flight.record(session, chunk, false);
        }
    }

    /// Takes the tokens of a chunk's steps.
    fn take(&mut self, chunk: Chunk, words: &[u32]) {
        if let Some(ms) = self.in_flight.interval() {
            self.in_flight.measured(chunk.steps, ms);
        }
        let (accepted, scores) = words.split_at(chunk.steps as usize * ACCEPTED_WORDS);
        for (i, row) in self.rows.iter_mut().enumerate() {
            let ids = accepted.chunks_exact(ACCEPTED_WORDS).map(|step| step[i]);
            let fresh: Vec<u32> = ids.take_while(|id| *id != AFTER_END).collect();
            let Member { sampling, extras, .. } = &*row.member;
            let logprobs = if extras.logprobs {
                read_logprobs(scores, (MOST_TOGETHER, i), fresh.len(), sampling.top_logprobs as usize)
            } else {
                Vec::new()
            };
            row.take(fresh, logprobs);
        }
        // Rows that have not ended continue in another stretch.
        if self.ended() {
            self.in_flight.stop();
        }
    }

    /// Whether a row has ended.
    fn ended(&self) -> bool {
        self.rows.iter().any(|row| row.ended)
    }

    /// Updates the sequences' states, and returns the outcome of each.
    fn end(self, session: &mut Session, started: f64, before: Snapshot) -> Result<Stretch> {
        let Self { rows, mut in_flight, .. } = self;
        session.ms_a_step = in_flight.ms_a_token();
        let shared = Outcome {
            timings: Timings { decode_ms: now_ms() - started, ..Timings::default() },
            counters: session.gpu.counters().snapshot().since(before),
            record_ms: in_flight.record_ms(),
            ..Outcome::default()
        };
        // After a device loss the tokens are kept, to be read again.
        let forgets = in_flight.failed() && !in_flight.lost_device();
        let mut parts = Vec::new();
        for row in rows {
            row.settle(session, forgets)?;
            parts.push(row.part(&shared));
        }
        Ok(Stretch { parts, failure: in_flight.take_failure() })
    }
}

/// A member and the outcome of its row.
struct Row<'m, 'a> {
    member: &'m mut Member<'a>,
    tokens: Vec<u32>,
    logprobs: Vec<Logprobs>,
    failure: Option<Error>,
    ended: bool,
}

impl<'m, 'a> Row<'m, 'a> {
    fn new(member: &'m mut Member<'a>) -> Self {
        Self { member, tokens: Vec::new(), logprobs: Vec::new(), failure: None, ended: false }
    }

    fn fail(&mut self, e: Error) {
        (self.failure, self.ended) = (Some(e), true);
    }

    /// Makes room in the member's state for a chunk's steps. Without room the row ends.
    async fn make_room(&mut self, session: &mut Session, chunk: Chunk) {
        let Member { sequence, text, limit, .. } = *self.member;
        let end = text.len() as u32 + (chunk.at + chunk.steps).min(limit) - 1;
        let room = session.ensure(end).await;
        if let Err(e) = room.and_then(|()| session.states.may_write(sequence, end)) {
            self.fail(e);
        }
    }

    /// Takes the row's tokens of a chunk; they are ignored after the row's end.
    fn take(&mut self, fresh: Vec<u32>, logprobs: Vec<Logprobs>) {
        if self.ended {
            return;
        }
        if let Err(e) = check(self.member.constraint.as_deref_mut(), &fresh) {
            self.fail(e);
            return;
        }
        let Member { on_tokens, cancel, sampling, limit, .. } = &mut *self.member;
        self.ended = !on_tokens(&fresh, &logprobs) || cancel.is_cancelled();
        self.ended |= fresh.last().is_some_and(|id| sampling.stops(*id));
        self.tokens.extend(fresh);
        self.logprobs.extend(logprobs);
        self.ended |= self.tokens.len() as u32 >= *limit;
    }

    /// Records in the sequence's state which tokens the steps have read, or with `forgets` that its contents are
    /// unknown.
    fn settle(&self, session: &mut Session, forgets: bool) -> Result<()> {
        let Member { sequence, text, .. } = *self.member;
        if self.failure.is_some() || forgets {
            return session.states.forget(sequence);
        }
        // No step has read the last token.
        let Some(((_, read), last)) = self.tokens.split_last().zip(text.ids().last()) else { return Ok(()) };
        session.states.read_steps(sequence, &[&[*last], read].concat())
    }

    /// The member's outcome, with the times and counters that all members share.
    fn part(self, shared: &Outcome) -> Result<Outcome> {
        if let Some(e) = self.failure {
            return Err(e);
        }
        let Outcome { timings, counters, record_ms, .. } = *shared;
        let decode_tok_s = rate(self.tokens.len(), timings.decode_ms);
        Ok(Outcome {
            known: self.member.text.len() - 1,
            tokens: self.tokens,
            logprobs: self.logprobs,
            timings: Timings { decode_tok_s, ..timings },
            counters,
            record_ms,
            ..Outcome::default()
        })
    }
}
