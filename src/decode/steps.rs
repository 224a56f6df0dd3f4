//! The decode loop: the prompts of a run's turns are read, then chunks of steps are recorded ahead and read back one
//! chunk late. A sequence alone may take several tokens a step, by drafts. Up to eight sequences take their steps
//! together, with each weight read once for all of them, until one of them ends: sequences join and leave between two
//! runs, which changes no text.

use bytemuck::{bytes_of, cast_slice};
use futures_util::future::LocalBoxFuture;

use super::chunk::ChunkPolicy;
use super::in_flight::{Chunk, InFlight};
use super::needs::Needs;
use super::prefill::Next;
use super::prompt::Begun;
use super::session::Session;
use super::speculate::{ACCEPTED_ROW, NextSteps, Speculate, Speculation, Taken};
use super::turn::{Logprobs, MOST_TOGETHER, Outcome, Pace, Progress, Stretch, Timings, Turn, rate};
use crate::base::now_ms;
use crate::error::{Error, ErrorKind, Result};
use crate::gpu::Snapshot;
use crate::grammar::Constraint;
use crate::kernels::State;
use crate::layout::Control;
use crate::plan::Pass;
use crate::sample::{AFTER_END, MAX_TOP_LOGPROBS, NOT_A_NUMBER, Sampling};
use crate::state::SequenceId;

/// Words of a step's tokens in a readback, where steps have several rows.
const ACCEPTED_WORDS: usize = ACCEPTED_ROW as usize / 4;
/// How long a chunk of several sequences lasts, ms: a new request waits for those in flight.
const PATIENCE_MS: f64 = 8.0;

/// Moments of a run, ms, and the device's counters then.
struct Clock {
    /// When the run was called.
    started: f64,
    /// When the prompts were read.
    prefilled: f64,
    /// Before the first pass of a prompt.
    before: Snapshot,
    /// After the last pass of a prompt was submitted.
    after_prefill: Snapshot,
    /// What the draft model's reading has cost, which is no part of decoding.
    drafter: Snapshot,
}

impl Session {
    /// Whether steps may have several rows, of as many sequences, or of a token and its drafts: the model has plans of
    /// such steps. Otherwise sequences take turns.
    pub(crate) fn has_steps_of_rows(&self) -> bool {
        Pass::STEPS.iter().all(|pass| !self.plans()[*pass].steps.is_empty())
    }

    /// [`Session::run`] of one turn.
    pub async fn generate(&mut self, turn: Turn<'_>, pace: Pace<'_>) -> Result<Outcome> {
        let Stretch { mut parts, failure } = self.run(&mut [turn], pace).await?;
        failure.map_or(Ok(()), Err)?;
        parts.pop().ok_or_else(|| Error::internal("a run without an outcome"))?
    }

    /// Reads the turns' prompts, and samples for all until one of them ends (at a stop id, its limit, when it is
    /// cancelled or its `on_progress` returns false), or until the pace's `pause`. Several turns are all resumed, and
    /// have the same rotations.
    ///
    /// # Errors
    /// Those of prompts and of compilation. What fails after a step was recorded is in the [`Stretch`].
    pub fn run<'s>(&'s mut self, turns: &'s mut [Turn<'_>], pace: Pace<'s>) -> LocalBoxFuture<'s, Result<Stretch>> {
        Box::pin(self.run_turns(turns, pace))
    }

    async fn run_turns(&mut self, turns: &mut [Turn<'_>], pace: Pace<'_>) -> Result<Stretch> {
        let started = now_ms();
        let pass = self.pass_of_steps(turns.len())?;
        let sequences: Vec<SequenceId> = turns.iter().map(|turn| turn.sequence).collect();
        self.voice_of(&sequences)?;
        let needs = self.prepare_turns(turns, pass).await?;
        let before = self.gpu.counters().snapshot();
        let (all, mut rows) = (turns.len(), Vec::with_capacity(turns.len()));
        for turn in turns {
            match self.begin_prompt(turn).await {
                Ok(begun) => rows.push(Row::new(turn, begun)),
                // The others stand where they were, and go on in another run.
                Err(e) if all > 1 && matches!(e.kind(), ErrorKind::OutOfMemory | ErrorKind::ContextFull) => {
                    let mut parts: Vec<_> = (1..all).map(|_| Ok(Outcome::default())).collect();
                    parts.insert(rows.len(), Err(e));
                    return Ok(Stretch { parts, failure: None });
                }
                Err(e) => return Err(e),
            }
        }
        if rows.len() > 1 {
            self.check_company(&rows)?;
            // Each row's prompt has set its own adapter.
            self.voice_of(&sequences)?;
        }
        let (after_prefill, drafter) = (self.gpu.counters().snapshot(), Snapshot::default());
        let clock = Clock { started, prefilled: now_ms(), before, after_prefill, drafter };
        let mut steps = Loop::new(self, rows, pass, needs, pace, clock);
        steps.put_parameters(self)?;
        steps.run(self).await;
        steps.end(self)
    }

    /// The pass of steps with so many sequences.
    fn pass_of_steps(&self, sequences: usize) -> Result<Pass> {
        let slots = self.sizes().slots as usize;
        match sequences {
            1 => Ok(Pass::Decode),
            2..=4 if sequences <= slots => Ok(Pass::Four),
            5..=MOST_TOGETHER if sequences <= slots => Ok(Pass::Eight),
            _ => Err(Error::internal(format!("{sequences} sequences in one step, of {slots} slots"))),
        }
    }

    /// An error where a row of several cannot continue with a decode step, or has other rotations than the last.
    fn check_company(&self, rows: &[Row<'_, '_>]) -> Result<()> {
        for Row { turn, begun, .. } in rows {
            if !begun.resumed || self.states.is_long(turn.sequence)? != self.long {
                return Err(Error::internal("steps of several rows: a sequence that is not where its text is"));
            }
        }
        Ok(())
    }
}

/// The decode loop of a run.
struct Loop<'t, 'a> {
    rows: Vec<Row<'t, 'a>>,
    /// The pass of steps without drafts.
    pass: Pass,
    /// The largest limit of all rows.
    longest: u32,
    /// Whether the prompt's last pass leaves the logits of the first token.
    has_logits: bool,
    pace: Pace<'t>,
    clock: Clock,
    in_flight: InFlight,
    /// Drafts, of a sequence alone.
    speculation: Option<Speculation>,
    /// Tokens that were known at the end of the last chunk with drafts of the draft model; 0 where there was none.
    followed: usize,
    /// Tokens that steps had taken by the end of that chunk, those behind the text's end among them.
    followed_to: u32,
    /// Whether steps without the draft model's drafts came after those with them: it lacks the text of these.
    behind: bool,
    /// Whether the draft model reads what it has missed before the steps of the next readback, whose time then says
    /// nothing about steps with drafts.
    catches_up: bool,
    /// Tokens that steps with drafts have taken, those behind the text's end among them.
    taken: u32,
    /// The least and the most tokens of a row that the recorded steps take.
    least: u32,
    most: u32,
}

impl<'t, 'a> Loop<'t, 'a> {
    fn new(session: &Session, rows: Vec<Row<'t, 'a>>, pass: Pass, needs: Needs, pace: Pace<'t>, clock: Clock) -> Self {
        let policy = |ms| ChunkPolicy::new(pace.chunk, ms, session.gpu.latency_ms());
        let alone = match &rows[..] {
            [Row { turn, .. }] => Some(&**turn),
            _ => None,
        };
        let policy = match alone {
            Some(_) => policy(session.ms_a_token),
            None => policy(session.ms_a_step).patient(PATIENCE_MS),
        };
        let policy = policy.patient(pace.patience_ms);
        let snapshots = alone.map(|turn| (turn.sequence, turn.prompt.len() as u32));
        let speculation = alone.filter(|_| needs.drafts).map(|turn| {
            // A draft model reads tokens alone.
            let drafter = session.drafter_terms().filter(|_| !turn.prompt.has_rows());
            let always = turn.speculate == Speculate::Always;
            Speculation::new(turn.prompt.ids(), always, session.step_times, drafter)
        });
        Self {
            longest: rows.iter().map(|row| row.turn.limit).max().unwrap_or_default(),
            has_logits: rows.iter().all(|row| !row.begun.resumed),
            in_flight: InFlight::new(policy, needs, snapshots),
            speculation,
            followed: 0,
            followed_to: 0,
            behind: false,
            catches_up: false,
            rows,
            pass,
            pace,
            clock,
            taken: 0,
            least: 0,
            most: 0,
        }
    }

    /// Whether steps have a row for each of several sequences.
    fn in_company(&self) -> bool {
        self.rows.len() > 1
    }

    /// Writes the steps' input: of each row its state, sampling parameters and grammar; the tallies of penalties, and
    /// the text that drafts are taken from.
    fn put_parameters(&self, session: &Session) -> Result<()> {
        let turns = || self.rows.iter().map(|row| &*row.turn);
        let sampling: Vec<Sampling> = turns().map(|turn| turn.sampling).collect();
        session.put(Control::Sampling, cast_slice(&sampling))?;
        if self.in_flight.needs.penalize {
            let tallies = |turn: &Turn<'_>| session.tallies(turn.prompt.ids(), turn.extras);
            session.put(Control::Tallies, cast_slice(&turns().flat_map(tallies).collect::<Vec<_>>()))?;
        }
        if turns().any(|turn| turn.constraint.is_some()) {
            session.put_walks(turns().map(|turn| turn.constraint.as_deref()))?;
        }
        let tokens: Vec<u32> = turns().map(|turn| turn.prompt.ids().last().copied().unwrap_or_default()).collect();
        let next = self.rows.iter().map(Row::next);
        if self.in_company() {
            session.put(Control::Drafts, cast_slice(&tokens))?;
            let mut state = State { rows: self.rows.len() as u32, apart: 1, ..State::default() };
            for ((each, Next { slot, at, lag }), turn) in state.each.iter_mut().zip(next).zip(turns()) {
                *each = [at, slot, turn.limit, lag];
            }
            return session.put(Control::Decode, bytes_of(&state));
        }
        for ((next, turn), token) in next.zip(turns()).zip(tokens) {
            if self.speculation.is_some() {
                session.put(Control::Text, cast_slice(turn.prompt.ids()))?;
            }
            session.put(Control::Decode, bytes_of(&State { token, limit: turn.limit, ..next.state(1) }))?;
        }
        Ok(())
    }

    /// Records chunks ahead and reads them back, until none is in flight any more.
    async fn run(&mut self, session: &mut Session) {
        loop {
            // The first steps are recorded while the last pass runs: the GPU does not wait for the host.
            self.record_ahead(session).await;
            self.wait_for_prompts(session).await;
            let Some((chunk, read)) = self.in_flight.read(session).await else { return };
            // The draft model's pass over the prompt was submitted after the first step, and before the second.
            if let Err(e) = session.drafter_has_read().await {
                self.in_flight.fail(e);
            }
            let complete = self.rows.iter().all(|row| row.ended);
            match read {
                // A device that is lost after the last token costs no answer anything: the next call returns the error.
                Err(e) if complete && e.kind() == ErrorKind::DeviceLost => {}
                Err(e) => self.in_flight.fail(e),
                Ok(bytes) => {
                    self.note_taken(session, chunk, cast_slice(&bytes));
                    // Steps that were in flight when the end was seen say nothing.
                    if !complete && !self.in_flight.failed() {
                        self.take(chunk, cast_slice(&bytes));
                    }
                }
            }
        }
    }

    /// Records chunks as long as more may be in flight, and each row has room for them.
    async fn record_ahead(&mut self, session: &mut Session) {
        while self.in_flight.wants_more() && self.least < self.longest {
            if self.in_flight.recorded() > 0 && (self.pace.pause)() {
                self.in_flight.stop();
                break;
            }
            let mut chunk = self.next_chunk();
            // Room for what the chunk may write, and the position behind it.
            let end = self.rows.first().map_or(0, |row| row.end(self.most + self.most_of(chunk)));
            if chunk.drafts > 0 && !session.drafts_reach(end) {
                self.speculation.iter_mut().for_each(Speculation::drop_drafter);
                chunk = self.next_chunk();
            }
            // States grow before a chunk, never within.
            let most = self.most + self.most_of(chunk);
            for row in &mut self.rows {
                match row.make_room(session, most).await {
                    Err(e) if e.kind() == ErrorKind::DeviceLost => self.in_flight.fail(e),
                    Err(e) => row.fail(e),
                    Ok(()) => {}
                }
            }
            // Rows that have room continue in another run.
            if self.rows.iter().any(|row| row.ended) {
                self.in_flight.stop();
            }
            if chunk.drafts > 0 && self.in_flight.wants_more() {
                match self.follow(session, end).await {
                    Ok(true) => {}
                    // The tokens in flight have to be known first.
                    Ok(false) => break,
                    Err(e) => self.in_flight.fail(e),
                }
            }
            if !self.in_flight.wants_more() {
                break;
            }
            self.in_flight.record(session, chunk, chunk.at == 0 && self.has_logits);
            self.behind |= chunk.drafts == 0 && session.follows();
            self.least += chunk.steps;
            self.most = most;
        }
    }

    /// The next chunk: as many steps as are likely to take the tokens that the policy wants.
    fn next_chunk(&mut self) -> Chunk {
        let at = self.in_flight.recorded();
        // The first token's logits are prefill's, of one row.
        let speculation = self.speculation.as_mut().filter(|_| at > 0);
        let (next, most) = match speculation {
            Some(speculation) => (speculation.next(), speculation.most_tokens()),
            None => (NextSteps { pass: self.pass, drafts: 0, tokens: 1.0 }, u32::MAX),
        };
        let NextSteps { pass, drafts, tokens } = next;
        let steps = (f64::from(self.in_flight.next_tokens(most)) / tokens).ceil() as u32;
        Chunk { at, steps: steps.min(self.longest - self.least), pass, drafts }
    }

    /// Has the draft model follow the text, and makes room for its drafts below `end`. False where the text's end is not
    /// known, as chunks without its drafts are in flight.
    async fn follow(&mut self, session: &mut Session, end: u32) -> Result<bool> {
        if self.behind && self.in_flight.is_empty() {
            self.stop_following(session)?;
        }
        if self.behind {
            return Ok(false);
        }
        if !session.follows() {
            let (Some(row), Some(speculation)) = (self.rows.first(), &self.speculation) else { return Ok(false) };
            let text = speculation.text();
            // The first chunk's only token comes from the prompt's logits: all that was read is the prompt.
            let of_prompt = self.in_flight.recorded() == 1 && self.has_logits && row.outcome.tokens.is_empty();
            let read = match of_prompt {
                true => text.len(),
                false if self.in_flight.is_empty() => text.len().saturating_sub(1),
                false => return Ok(false),
            };
            let before = session.gpu.counters().snapshot();
            let followed = session.follow(&text[..read], row.turn.cancel).await;
            self.clock.drafter = self.clock.drafter.and(session.gpu.counters().snapshot().since(before));
            self.catches_up = true;
            match followed {
                // The answer ends after the chunks in flight.
                Err(e) if e.kind() == ErrorKind::Aborted => {
                    self.in_flight.stop();
                    return Ok(false);
                }
                followed => followed?,
            }
        }
        session.prepare_following(end).await.map(|()| true)
    }

    /// The draft model follows no longer: it has what the model had read by the end of the last step with its drafts.
    fn stop_following(&mut self, session: &mut Session) -> Result<()> {
        let Some(speculation) = &self.speculation else { return Ok(()) };
        // No step has read the last token that was chosen.
        let read = self.followed.saturating_sub(1);
        let prompt = self.rows.first().map_or(0, |row| row.turn.prompt.len() as u32);
        let known = (self.followed > 0 && !self.in_flight.failed())
            .then(|| (&speculation.text()[..read], (prompt + self.followed_to).saturating_sub(1)));
        session.stop_following(known)?;
        (self.behind, self.followed) = (false, 0);
        Ok(())
    }

    /// Most tokens of a row that a chunk's steps take.
    fn most_of(&self, chunk: Chunk) -> u32 {
        if self.speculation.is_some() { chunk.most() } else { chunk.steps }
    }

    /// Waits for the last pass of a prompt, once.
    async fn wait_for_prompts(&mut self, session: &Session) {
        for row in &mut self.rows {
            let Some(last_pass) = row.begun.last_pass.take() else { continue };
            if let Err(e) = session.passed(last_pass).await {
                self.in_flight.fail(e);
            }
            self.clock.prefilled = now_ms();
            let total = row.begun.unknown.len();
            (row.turn.on_progress)(Progress::Read { read: total, total });
        }
    }

    /// Counts the tokens that a chunk's steps with drafts have taken, whether or not the text ended before: as many has
    /// a recurrent state read.
    fn note_taken(&mut self, session: &mut Session, chunk: Chunk, words: &[u32]) {
        if self.speculation.is_none() {
            return;
        }
        self.taken += Taken::count(&words[..chunk.steps as usize * ACCEPTED_WORDS]);
        if chunk.drafts > 0 {
            self.followed_to = self.taken;
        }
        if let Err(e) = self.in_flight.taken(session, self.taken) {
            self.in_flight.fail(e);
        }
    }

    /// Takes the tokens of a chunk's steps.
    fn take(&mut self, chunk: Chunk, words: &[u32]) {
        let ms = self.in_flight.interval();
        let (steps, needs, in_company) = (chunk.steps as usize, self.in_flight.needs, self.in_company());
        let (ids, scores) = words.split_at(steps * if needs.drafts { ACCEPTED_WORDS } else { 1 });
        let mut taken_alone = None;
        for (i, row) in self.rows.iter_mut().enumerate() {
            let taken = if in_company {
                Taken::of_row(ids, i)
            } else if needs.drafts {
                Taken::of_rows(ids)
            } else {
                Taken::of_ids(ids)
            };
            let Turn { sampling, extras, .. } = &*row.turn;
            let logprobs = if extras.logprobs {
                let of = if in_company { (MOST_TOGETHER, i) } else { (1, 0) };
                read_logprobs(scores, of, taken.tokens.len(), sampling.top_logprobs as usize)
            } else {
                Vec::new()
            };
            row.take(&taken, logprobs);
            taken_alone = Some(taken).filter(|_| !in_company);
        }
        self.learn(chunk, taken_alone.as_ref(), ms);
        // Rows that have not ended continue in another run.
        if self.rows.iter().any(|row| row.ended) {
            self.in_flight.stop();
        }
    }

    /// Learns from a chunk for the next: from its time where it was measured, and from the tokens of a sequence alone.
    fn learn(&mut self, chunk: Chunk, alone: Option<&Taken>, ms: Option<f64>) {
        let most = self.most_of(chunk);
        let ms = ms.filter(|_| chunk.drafts == 0 || !std::mem::take(&mut self.catches_up));
        if let (Some(speculation), Some(taken)) = (&mut self.speculation, alone) {
            let tokens = taken.tokens.len() as u32;
            speculation.took(taken, chunk.drafts);
            ms.into_iter().for_each(|ms| speculation.measured(chunk.pass, chunk.drafts, chunk.steps, ms));
            if chunk.drafts > 0 {
                self.followed = speculation.text().len();
            }
            self.least = (self.least + tokens).saturating_sub(chunk.steps);
            self.most = (self.most + tokens).saturating_sub(most);
        }
        let tokens = alone.map_or(chunk.steps, |taken| taken.tokens.len() as u32);
        ms.into_iter().for_each(|ms| self.in_flight.measured(tokens, ms));
    }

    /// Updates the sequences' states, and returns the outcome of each turn.
    fn end(mut self, session: &mut Session) -> Result<Stretch> {
        let ms = self.in_flight.ms_a_token();
        let speed = if self.in_company() { &mut session.ms_a_step } else { &mut session.ms_a_token };
        *speed = ms;
        if let Some(speculation) = &self.speculation {
            session.step_times = speculation.times();
        }
        self.stop_following(session)?;
        let shared = self.shared(session.gpu.counters().snapshot());
        let with_drafts = self.speculation.as_ref().map(|_| self.taken);
        let Self { rows, mut in_flight, .. } = self;
        let (failure, ran) = (in_flight.take_failure(), with_drafts.unwrap_or(in_flight.recorded()));
        let mut parts = Vec::with_capacity(rows.len());
        for mut row in rows {
            row.settle(session, failure.as_ref(), ran)?;
            parts.push(row.part(&shared));
        }
        Ok(Stretch { parts, failure })
    }

    /// The times and counters that all rows share.
    fn shared(&self, counters: Snapshot) -> Outcome {
        let Clock { started, prefilled, before, after_prefill, drafter } = self.clock;
        let (first, last) = self.in_flight.times().unwrap_or((prefilled, prefilled));
        let timings = Timings {
            prefill_ms: prefilled - started,
            ttft_ms: first - started,
            decode_ms: last - prefilled,
            ..Timings::default()
        };
        Outcome {
            timings,
            counters: counters.since(after_prefill).since(drafter),
            prefill_submits: after_prefill.since(before).submits + drafter.submits,
            record_ms: self.in_flight.record_ms(),
            ..Outcome::default()
        }
    }
}

/// A turn, its prompt, and the outcome so far.
struct Row<'t, 'a> {
    turn: &'t mut Turn<'a>,
    begun: Begun,
    /// The outcome so far; its times are set at the end.
    outcome: Outcome,
    /// The error of this row alone.
    failure: Option<Error>,
    /// Whether the GPU has seen the end: later steps have read nothing.
    ended_on_gpu: bool,
    /// Whether no further token is taken.
    ended: bool,
}

impl<'t, 'a> Row<'t, 'a> {
    fn new(turn: &'t mut Turn<'a>, begun: Begun) -> Self {
        let outcome = Outcome { known: begun.known, ..Outcome::default() };
        Self { ended: turn.limit == 0, turn, begun, outcome, failure: None, ended_on_gpu: false }
    }

    /// The place of the first step's token.
    fn next(&self) -> Next {
        let prompt = self.turn.prompt;
        Next { slot: self.begun.slot, at: (prompt.len() as u32).saturating_sub(1), lag: prompt.lag() }
    }

    fn fail(&mut self, e: Error) {
        (self.failure, self.ended) = (Some(e), true);
    }

    /// The end of the positions that steps up to the first `tokens` tokens write.
    fn end(&self, tokens: u32) -> u32 {
        // The step that samples token n reads position prompt - 1 + n.
        self.turn.prompt.len() as u32 + tokens.min(self.turn.limit) - 1
    }

    /// Makes room in the sequence's state for the first `tokens` tokens.
    async fn make_room(&self, session: &mut Session, tokens: u32) -> Result<()> {
        let end = self.end(tokens);
        session.ensure(end).await?;
        session.states.may_write(self.turn.sequence, end)
    }

    /// Takes the row's tokens of a chunk; they are ignored after the row's end.
    fn take(&mut self, taken: &Taken, logprobs: Vec<Logprobs>) {
        if self.ended {
            return;
        }
        let Turn { sampling, constraint, on_progress, cancel, limit, .. } = &mut *self.turn;
        let (ids, outcome) = (&taken.tokens, &mut self.outcome);
        let stops = ids.last().is_some_and(|id| sampling.stops(*id));
        self.ended_on_gpu = taken.ended || stops;
        let nothing = ids.is_empty() && outcome.tokens.is_empty();
        let checked = if nothing { Err(no_token()) } else { check(constraint.as_deref_mut(), ids) };
        if let Err(e) = checked {
            return self.fail(e);
        }
        outcome.tokens.extend_from_slice(ids);
        outcome.drafted += taken.drafted;
        outcome.accepted += taken.accepted;
        let goes_on = ids.is_empty() || on_progress(Progress::Tokens { ids, logprobs: &logprobs });
        outcome.logprobs.extend(logprobs);
        self.ended_on_gpu |= outcome.tokens.len() as u32 >= *limit;
        self.ended = !goes_on || self.ended_on_gpu || cancel.is_cancelled();
    }

    /// Records in the sequence's state which tokens the steps have read. After an error that leaves it unknown, the
    /// state is forgotten. `failure`: the run's; `ran`: the tokens that its steps have taken, whether or not they count.
    fn settle(&mut self, session: &mut Session, failure: Option<&Error>, ran: u32) -> Result<()> {
        let Self { turn, begun, outcome, .. } = self;
        let (sequence, tokens) = (turn.sequence, &outcome.tokens);
        let lost = failure.is_some_and(|e| e.kind() == ErrorKind::DeviceLost);
        let unknown = self.failure.as_ref().or(failure.filter(|_| !lost || tokens.is_empty()));
        if let Some(e) = unknown {
            return session.forget_after(e, sequence, std::mem::take(&mut begun.held));
        }
        // No step has read the last token; the first step reads a token only where the text was resumed.
        let Some((_, read)) = tokens.split_last() else { return Ok(()) };
        let first = if begun.resumed { begun.unknown.ids() } else { &[] };
        let read = [first, read].concat();
        if lost {
            return session.states.read_steps(sequence, &read);
        }
        let ran = if self.ended_on_gpu { tokens.len() as u32 } else { ran };
        session.states.settle(sequence, &read, (ran + first.len() as u32).saturating_sub(1))
    }

    /// The turn's outcome, with the times and counters that all rows share.
    fn part(self, shared: &Outcome) -> Result<Outcome> {
        if let Some(e) = self.failure {
            return Err(e);
        }
        let Outcome { mut timings, counters, prefill_submits, record_ms, .. } = *shared;
        timings.prefill_tok_s = rate(self.begun.unknown.len(), timings.prefill_ms);
        timings.decode_tok_s = rate(self.outcome.tokens.len().saturating_sub(1), timings.decode_ms);
        Ok(Outcome { timings, counters, prefill_submits, record_ms, ..self.outcome })
    }
}

/// The first `fresh` of a chunk's log probabilities, of row `row` of `rows`. `words`: the ids of the likeliest tokens of
/// all steps' rows, then the log probabilities (chosen, likeliest) of all steps' rows.
fn read_logprobs(words: &[u32], (rows, row): (usize, usize), fresh: usize, top: usize) -> Vec<Logprobs> {
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
fn check(mut constraint: Option<&mut Constraint>, tokens: &[u32]) -> Result<()> {
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

/// The error of a first step that has chosen no token.
fn no_token() -> Error {
    Error::gpu("the first step has chosen no token: this GPU computes wrongly; try lane exact")
}
