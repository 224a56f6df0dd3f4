//! Answers that take their steps together: each step reads the next token of up to eight sequences, with each weight read once for all of them. Who
//! is in stays the same from beginning to end; whoever comes or goes does so between two such stretches, of which the texts know nothing.

use std::collections::VecDeque;

use bytemuck::{bytes_of, cast_slice};

use super::chunk::ChunkPolicy;
use super::generate::{AHEAD, Chunk, Flight, Needs, Outcome, Timings, nothing_to_choose, rate};
use super::session::Session;
use super::speculate::ACCEPTED_ROW;
use crate::base::numbers::FEW_ROWS;
use crate::base::{Cancel, now_ms};
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::State;
use crate::layout::Control;
use crate::plan::{Pass, Stage};
use crate::sample::{AFTER_END, NOT_A_NUMBER, Sampling};
use crate::state::{Input, SequenceId};

/// Most answers that take steps together.
pub const MOST_TOGETHER: usize = FEW_ROWS as usize;
/// How long a chunk lasts, ms: whoever comes waits for those under way.
const PATIENCE_MS: f64 = 8.0;

/// Hears of tokens; false ends the part.
pub type OnTokens<'a> = Box<dyn FnMut(&[u32]) -> bool + 'a>;

/// One of those that take steps together.
pub struct Member<'a> {
    /// Whose text goes on.
    pub sequence: SequenceId,
    /// The text, of which all but the last token have been read.
    pub text: &'a Input,
    /// Temperature, filters, seed and stop ids.
    pub sampling: Sampling,
    /// Most tokens to sample, at least 1.
    pub limit: u32,
    /// Ends its part.
    pub cancel: &'a Cancel,
    /// Hears of each chunk's.
    pub on_tokens: OnTokens<'a>,
}

/// What a stretch has come to.
pub struct Stretch {
    /// What each member has sampled.
    pub parts: Vec<Result<Outcome>>,
    /// Why it ended, where that is nobody's own fault: what was sampled before is in the parts.
    pub failure: Option<Error>,
}

/// What is known of a member on the way.
struct Seat {
    tokens: Vec<u32>,
    failure: Option<Error>,
    ended: bool,
}

impl Session {
    /// Whether answers can take steps together: states can be cut back, and there are steps of several rows. Where there are none, answers take turns.
    pub(crate) fn keeps_company(&self) -> bool {
        Pass::STEPS.iter().all(|pass| !self.plans()[*pass].steps.is_empty())
    }

    /// Samples for all members until one of them ends (at a stop id, its limit, when it is cancelled or `on_tokens` says so), or until `pause`, which
    /// is asked before each chunk. All have the same rotations, and each a slot.
    pub async fn together(&mut self, members: &mut [Member<'_>], chunk: Option<u32>, pause: &dyn Fn() -> bool) -> Result<Stretch> {
        let started = now_ms();
        let rows = members.len();
        let pass = if rows <= 4 { Pass::Four } else { Pass::Eight };
        if rows == 0 || rows > MOST_TOGETHER || rows > self.sizes().slots as usize {
            return Err(Error::internal(format!("{rows} answers in one step, of {} slots", self.sizes().slots)));
        }
        self.voice_of(&members.iter().map(|member| member.sequence).collect::<Vec<_>>())?;
        self.prepare_passes(&[pass]).await?;
        let state = self.seat(members, pass).await?;
        let before = self.gpu.counters().snapshot();
        let mut needs = Needs::of_company();
        for member in members.iter() {
            needs.sample(&member.sampling, self.model().config().drawn as u32);
        }
        let tokens = members.iter().filter_map(|member| member.text.ids().last().copied()).collect::<Vec<_>>();
        let sampling = members.iter().map(|member| member.sampling).collect::<Vec<_>>();
        self.put(Control::Decode, bytes_of(&state))?;
        self.put(Control::Drafts, cast_slice(&tokens))?;
        self.put(Control::Sampling, cast_slice(&sampling))?;

        let mut seats: Vec<Seat> = (0..rows).map(|_| Seat { tokens: Vec::new(), failure: None, ended: false }).collect();
        let mut policy = ChunkPolicy::new(chunk, self.ms_a_step, self.gpu.latency_ms()).patient(PATIENCE_MS);
        let longest = members.iter().map(|member| member.limit).max().unwrap_or(1);
        let mut flights: VecDeque<Flight> = VecDeque::new();
        let (mut recorded, mut staging, mut record_ms) = (0, 0, 0.0);
        let mut going = true;
        let mut failure: Option<Error> = None;
        let mut last_read = None;
        loop {
            while going && flights.len() < AHEAD && recorded < longest {
                if recorded > 0 && pause() {
                    going = false;
                    break;
                }
                let steps = policy.next().min(longest - recorded);
                let chunk = Chunk { at: recorded, steps, pass };
                // Who has no room goes; the others go on in another stretch.
                for (seat, member) in seats.iter_mut().zip(members.iter()) {
                    if let Err(e) = self.make_room(member, chunk).await {
                        (seat.failure, seat.ended, going) = (Some(e), true, false);
                    }
                }
                if !going {
                    break;
                }
                let recording = now_ms();
                match self.record(chunk, staging, needs, false, None) {
                    Ok(flight) => flights.push_back(flight),
                    Err(e) => {
                        failure = Some(e);
                        going = false;
                    }
                }
                record_ms += now_ms() - recording;
                recorded += steps;
                staging = (staging + 1) % self.staging.len();
            }
            let Some(flight) = flights.pop_front() else { break };
            let bytes = match self.gpu.take(&self.staging[flight.staging], flight.bytes, flight.pending).await {
                Ok(bytes) => bytes,
                Err(e) => {
                    failure.get_or_insert(e);
                    going = false;
                    continue;
                }
            };
            let now = now_ms();
            if let Some(last) = last_read.replace(now) {
                policy.measured(flight.chunk.steps, now - last);
            }
            let words = cast_slice::<u8, u32>(&bytes);
            for (t, (seat, member)) in seats.iter_mut().zip(members.iter_mut()).enumerate() {
                let of_row = words.chunks_exact(ACCEPTED_ROW as usize / 4).map(|step| step[t]).take_while(|id| *id != AFTER_END);
                seat.hear(of_row.collect(), member);
                // Who has ended makes room: the others go on in another stretch.
                going &= !seat.ended;
            }
        }
        self.ms_a_step = policy.ms_a_token();
        let lost = failure.as_ref().is_some_and(|e| e.kind() == ErrorKind::DeviceLost);
        let counters = self.gpu.counters().snapshot().since(before);
        let ms = now_ms() - started;
        let mut parts = Vec::new();
        for (seat, member) in seats.into_iter().zip(members.iter()) {
            if seat.failure.is_some() || (failure.is_some() && !lost) {
                self.states.forget(member.sequence)?;
            } else if let (Some((_, read)), Some(last)) = (seat.tokens.split_last(), member.text.ids().last()) {
                // No step has read the last token.
                self.states.read_steps(member.sequence, &[&[*last], read].concat())?;
            }
            let timings = Timings { decode_ms: ms, decode_tok_s: rate(seat.tokens.len(), ms), ..Timings::default() };
            let outcome = Outcome { tokens: seat.tokens, known: member.text.len() - 1, timings, counters, record_ms, ..Outcome::default() };
            parts.push(seat.failure.map_or(Ok(outcome), Err));
        }
        Ok(Stretch { parts, failure })
    }

    /// Gives each member its slot, with all but the last of its tokens, and a row of the steps to come.
    async fn seat(&mut self, members: &[Member<'_>], pass: Pass) -> Result<State> {
        for member in members {
            // Whoever has a slot is not moved by those who need one.
            self.enter(member.sequence).await?;
        }
        for member in members {
            let n = member.text.len().saturating_sub(1);
            self.rebuild(member.sequence, n, member.cancel).await?;
        }
        let mut state = State { rows: members.len() as u32, apart: 1, ..State::default() };
        for (each, member) in state.each.iter_mut().zip(members) {
            let read = member.text.len().saturating_sub(1);
            let known = self.states.history(member.sequence)?.input().common(member.text) >= read;
            if member.text.is_empty() || !known || self.states.is_long(member.sequence)? != self.long {
                return Err(Error::internal(format!("{} rows: a sequence that is not where its text is", pass.name())));
            }
            let slot = self.enter(member.sequence).await?;
            self.states.cut(member.sequence, read as u32)?;
            *each = [read as u32, slot, member.limit, self.states.lag(member.sequence)?];
        }
        // Entering has told of one at a time.
        self.voice_of(&members.iter().map(|member| member.sequence).collect::<Vec<_>>())?;
        Ok(state)
    }

    /// Makes room for what a chunk's steps write to a member's state.
    async fn make_room(&mut self, member: &Member<'_>, chunk: Chunk) -> Result<()> {
        let reaches = member.text.len() as u32 + (chunk.at + chunk.steps).min(member.limit) - 1;
        self.ensure(reaches).await?;
        self.states.may_write(member.sequence, reaches)
    }
}

impl Seat {
    /// Takes a chunk's tokens of its row. After its end none count.
    fn hear(&mut self, fresh: Vec<u32>, member: &mut Member<'_>) {
        if self.ended {
            return;
        }
        if fresh.contains(&NOT_A_NUMBER) {
            self.failure = Some(nothing_to_choose(None));
            self.ended = true;
            return;
        }
        self.ended = !(member.on_tokens)(&fresh) || member.cancel.is_cancelled();
        self.ended |= fresh.last().is_some_and(|id| member.sampling.stops(*id));
        self.tokens.extend(fresh);
        self.ended |= self.tokens.len() as u32 >= member.limit;
    }
}

impl Needs {
    /// Of rows of several sequences, of which each brings its parameters.
    fn of_company() -> Self {
        Self { temperature: false, rounds: 0, penalize: false, logprobs: false, grammar: false, drafts: true, company: true }
    }

    /// Also has what these parameters need; rows of others return from it.
    fn sample(&mut self, sampling: &Sampling, vocab: u32) {
        self.temperature |= sampling.temperature != 0.0;
        self.rounds = self.rounds.max(sampling.filter_rounds(vocab));
    }

    /// Whether a stage begins with drafts, of which company has none.
    pub(super) fn drafts_first(self, stage: Stage) -> bool {
        stage == Stage::Draft && self.drafts && !self.company
    }
}
