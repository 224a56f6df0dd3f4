//! Chunks of decode steps in flight: recorded and submitted ahead of the one that is read, and read back in order.

use std::collections::VecDeque;

use super::chunk::{ChunkPolicy, MOST};
use super::needs::Needs;
use super::program::{Encoded, settle};
use super::session::Session;
use crate::base::now_ms;
use crate::error::{Error, Result};
use crate::gpu::{Encoder, Pending};
use crate::layout::Control;
use crate::plan::{Pass, Stage};
use crate::state::{SequenceId, UNKNOWN};

/// Most chunks in flight at one time.
pub(super) const AHEAD: usize = 2;
/// Most steps of one submission: several small submissions in flight beat one giant one.
const PER_SUBMIT: u32 = 4;

/// Steps that are recorded together, and whose tokens are read back together.
#[derive(Clone, Copy)]
pub(super) struct Chunk {
    /// The number of the first step.
    pub at: u32,
    /// The number of steps.
    pub steps: u32,
    pub pass: Pass,
    /// Drafts of each step that the draft model makes; 0 where it makes none.
    pub drafts: u32,
}

impl Chunk {
    /// Rows of each step.
    fn rows(self) -> u32 {
        self.pass.step_rows().unwrap_or(1)
    }

    /// Most tokens that the steps take.
    pub fn most(self) -> u32 {
        self.steps * self.rows()
    }
}

/// A chunk that is submitted, and its readback.
struct Flight {
    chunk: Chunk,
    staging: usize,
    bytes: u64,
    pending: Pending,
}

/// The chunks in flight of a run, and the policy for the next.
pub(super) struct InFlight {
    pub needs: Needs,
    /// The sequence of which a snapshot is taken at the end of each chunk, and its tokens before the first step; only
    /// for recurrent states.
    snapshots: Option<(SequenceId, u32)>,
    /// Chunks in flight, the oldest first.
    queue: VecDeque<Flight>,
    policy: ChunkPolicy,
    /// Steps recorded so far.
    recorded: u32,
    /// The staging buffer of the next chunk's readback.
    staging: usize,
    /// Whether further chunks are recorded.
    going: bool,
    /// The first error.
    failure: Option<Error>,
    /// Host time of recording and submitting, ms.
    record_ms: f64,
    /// When the first readback that counts came, and the last, ms.
    times: Option<(f64, f64)>,
}

impl InFlight {
    /// A loop without chunks yet.
    pub fn new(policy: ChunkPolicy, needs: Needs, snapshots: Option<(SequenceId, u32)>) -> Self {
        let queue = VecDeque::new();
        let (recorded, staging, record_ms) = (0, 0, 0.0);
        Self { needs, snapshots, queue, policy, recorded, staging, going: true, failure: None, record_ms, times: None }
    }

    /// Steps recorded so far: the number of the next.
    pub fn recorded(&self) -> u32 {
        self.recorded
    }

    /// Whether another chunk is to be recorded now, where there are steps left.
    pub fn wants_more(&self) -> bool {
        self.going && self.queue.len() < AHEAD
    }

    /// How many tokens the next chunk should have, where it should have no more than `most`.
    pub fn next_tokens(&mut self, most: u32) -> u32 {
        self.policy.next_below(most)
    }

    /// Stops recording.
    pub fn stop(&mut self) {
        self.going = false;
    }

    /// Stops recording, and keeps the error if it is the first.
    pub fn fail(&mut self, e: Error) {
        self.failure.get_or_insert(e);
        self.stop();
    }

    /// Whether no chunk is in flight.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether there was an error.
    pub fn failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Takes the error.
    pub fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// Host time of recording and submitting steps, ms.
    pub fn record_ms(&self) -> f64 {
        self.record_ms
    }

    /// When the first readback that counts came, and the last, ms.
    pub fn times(&self) -> Option<(f64, f64)> {
        self.times
    }

    /// Milliseconds a token takes, if measured.
    pub fn ms_a_token(&self) -> Option<f64> {
        self.policy.ms_a_token()
    }

    /// Records and submits the next chunk. `has_logits`: prefill has computed the logits of its first step.
    pub fn record(&mut self, session: &mut Session, chunk: Chunk, has_logits: bool) {
        let began = now_ms();
        match self.submit(session, chunk, has_logits) {
            Ok(flight) => self.queue.push_back(flight),
            Err(e) => self.fail(e),
        }
        self.record_ms += now_ms() - began;
        self.recorded += chunk.steps;
        self.staging = (self.staging + 1) % session.staging.len();
    }

    /// Waits for the readback of the oldest chunk in flight.
    pub async fn read(&mut self, session: &Session) -> Option<(Chunk, Result<Vec<u8>>)> {
        let Flight { chunk, staging, bytes, pending } = self.queue.pop_front()?;
        Some((chunk, session.gpu.take(&session.staging[staging], bytes, pending).await))
    }

    /// A readback that counts has just come: milliseconds since the one before, where there was one. The first says
    /// nothing about a step: after a prompt its first token is all but made by prefill.
    pub fn interval(&mut self) -> Option<f64> {
        let now = now_ms();
        let before = self.times.map(|(_, last)| last);
        self.times = Some((self.times.map_or(now, |(first, _)| first), now));
        before.map(|before| now - before)
    }

    /// Learns that `tokens` tokens took `ms` while the next chunk was in flight.
    pub fn measured(&mut self, tokens: u32, ms: f64) {
        self.policy.measured(tokens, ms);
    }

    /// Submits a chunk's steps and, with the last ones, the copy to its staging buffer.
    fn submit(&self, session: &mut Session, chunk: Chunk, mut has_logits: bool) -> Result<Flight> {
        session.must_have(chunk.pass)?;
        let mut left = chunk.steps;
        while left > PER_SUBMIT {
            let mut encoder = session.gpu.encoder("decode");
            self.encode(session, &mut encoder, chunk, PER_SUBMIT, std::mem::take(&mut has_logits))?;
            session.gpu.submit(encoder);
            left -= PER_SUBMIT;
        }
        let mut encoder = session.gpu.encoder("decode");
        self.encode(session, &mut encoder, chunk, left, has_logits)?;
        self.copy_sampled(session, &mut encoder, chunk)?;
        self.settle(session, &mut encoder, chunk)?;
        if let Some((sequence, tokens)) = self.snapshots {
            let slot = session.states.slot_of(sequence)?;
            // Of steps that may take several tokens the readback tells how far they came.
            let position = if self.needs.drafts { UNKNOWN } else { tokens + chunk.at + chunk.steps - 1 };
            session.states.mark(sequence, &mut encoder, slot, position)?;
        }
        let (staging, bytes) = (self.staging, u64::from(chunk.steps) * self.needs.row_bytes());
        let submission = session.gpu.submit(encoder);
        let pending = session.gpu.map(&session.staging[staging], bytes, submission);
        Ok(Flight { chunk, staging, bytes, pending })
    }

    /// Encodes `n` of a chunk's steps; of the first only the sampling with `has_logits`.
    fn encode(&self, session: &Session, encoder: &mut Encoder, chunk: Chunk, n: u32, has_logits: bool) -> Result<()> {
        let needs = self.needs;
        let drafting = session.drafting(chunk.drafts)?;
        // Where some steps take several tokens, single-token steps end with the same stage.
        let accepts = needs.drafts && chunk.pass == Pass::Decode;
        let accept = session.steps(Pass::Four).iter().filter(|step| accepts && step.stage == Stage::Accept);
        let mut compute = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        for i in 0..n {
            let whole = i > 0 || !has_logits;
            // The draft model's drafts take the place of those that are looked up.
            let looks_up = |stage| drafting.is_none() || stage != Stage::Draft;
            let wanted =
                |step: &&Encoded| needs.wants(step.stage) && (whole || step.stage.samples()) && looks_up(step.stage);
            if let Some(drafting) = drafting {
                drafting.record(&session.gpu, &mut compute);
            }
            for step in session.steps(chunk.pass).iter().filter(wanted).chain(accept.clone()) {
                session.gpu.dispatch(&mut compute, &step.bound, step.grid.at(chunk.rows()));
            }
        }
        Ok(())
    }

    /// Has recurrent states take over what counts of the chunk's last step: what is copied of them is whole.
    fn settle(&self, session: &Session, encoder: &mut Encoder, chunk: Chunk) -> Result<()> {
        if let Some(drafting) = session.drafting(chunk.drafts)? {
            drafting.settle(&session.gpu, encoder);
        }
        // Rows of several sequences go to their states at once.
        if !self.needs.company {
            let state = session.buffer(Control::Decode)?;
            settle(&session.gpu, encoder, session.steps(chunk.pass), (None, chunk.rows()), (state, &[]));
        }
        Ok(())
    }

    /// The readback of the oldest chunk has told that steps that may take several tokens have taken `tokens` so far: the
    /// snapshot at its end gets its position.
    pub fn taken(&self, session: &mut Session, tokens: u32) -> Result<()> {
        match self.snapshots.filter(|_| self.needs.drafts) {
            Some((sequence, before)) => session.states.marked(sequence, self.queue.len(), before + tokens - 1),
            None => Ok(()),
        }
    }

    /// Copies the results of a chunk's steps to the staging buffer: of each ring the rows of all steps.
    fn copy_sampled(&self, session: &Session, encoder: &mut Encoder, chunk: Chunk) -> Result<()> {
        let staging = session.staging[self.staging].raw();
        let mut to = 0;
        for (ring, row) in self.needs.rings() {
            let ring = session.buffer(*ring)?.raw();
            let (start, bytes) = (u64::from(chunk.at % MOST) * row, u64::from(chunk.steps) * row);
            // The ring may wrap within the chunk.
            let before_wrap = bytes.min(u64::from(MOST) * row - start);
            encoder.copy_buffer_to_buffer(ring, start, staging, to, before_wrap);
            if before_wrap < bytes {
                encoder.copy_buffer_to_buffer(ring, 0, staging, to + before_wrap, bytes - before_wrap);
            }
            to += bytes;
        }
        Ok(())
    }
}
