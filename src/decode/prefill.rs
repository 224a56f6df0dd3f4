//! Reading given tokens: in passes of many rows, or one by a decode step.

use bytemuck::{bytes_of, cast_slice};

use super::session::{Session, TAIL, context_full};
use crate::error::{Error, Result};
use crate::gpu::Pending;
use crate::kernels::State;
use crate::plan::{FEW, SHORT, labels};
use crate::stream::Cancel;

/// A pass of prefill under way.
pub(super) struct Fence(usize, Pending);

impl Session {
    /// Reads tokens into the cache from position `from` on, which is at most what it holds, in passes of up to the session's rows, and leaves the
    /// last position's logits on the GPU.
    pub async fn prefill(&mut self, tokens: &[u32], from: u32, cancel: &Cancel) -> Result<()> {
        let last = self.begin_prefill(tokens, from, cancel, &mut |_| ()).await?;
        self.passed(last).await
    }

    /// The same, but for the wait for the last pass. `on_read` hears how many tokens the passes before it have read.
    pub(super) async fn begin_prefill(&mut self, tokens: &[u32], from: u32, cancel: &Cancel, on_read: &mut dyn FnMut(usize)) -> Result<Fence> {
        let end = from as usize + tokens.len();
        let end = u32::try_from(end).map_err(|_| context_full(u32::MAX, self.context()))?;
        if tokens.is_empty() {
            return Err(Error::bad_option("the prompt is empty; give at least one token"));
        }
        if end > self.context() {
            return Err(context_full(end, self.context()));
        }
        self.ensure(end)?;
        let vocab = self.model().config().vocab as u32;
        if let Some(bad) = tokens.iter().find(|t| **t >= vocab) {
            return Err(Error::bad_option(format!("token id {bad} is outside the vocabulary of {vocab}")));
        }
        if from as usize > self.cached.len() {
            return Err(Error::internal(format!("reading from position {from} of a cache that holds {}", self.cached.len())));
        }
        cancel.check()?;
        // Whoever reads on from what the cache holds has seen to it that it is rotated as the whole is.
        if from == 0 && self.is_long(end) != self.long {
            self.rotate_long(!self.long)?;
        }
        self.cached.truncate(from as usize);
        self.missing &= from > 0;
        if self.missing {
            return Err(Error::internal("reading on from a cache that was lost"));
        }
        self.written = if from == 0 { end } else { self.written.max(end) };
        let passes = tokens.chunks(self.sizes().rows as usize);
        let last = passes.len() - 1;
        // One pass runs while the next is recorded: a long prompt neither floods the queue nor outlives its cancellation by more than two passes.
        let mut before: Option<Fence> = None;
        for (i, pass) in passes.enumerate() {
            let plan = self.plan_of(pass.len() as u32);
            let fence = self.record_pass(pass, from + i as u32 * self.sizes().rows, plan, i == last, i)?;
            // Valid for whatever is submitted from here on.
            self.cached.pass(pass, plan);
            if let Some(earlier) = before.replace(fence) {
                self.passed(earlier).await?;
                on_read(i * self.sizes().rows as usize);
            }
            if cancel.is_cancelled() {
                break;
            }
        }
        let last = before.ok_or_else(|| Error::internal("a prompt without a pass"))?;
        if let Err(cancelled) = cancel.check() {
            self.passed(last).await?;
            return Err(cancelled);
        }
        Ok(last)
    }

    /// The plan of a pass of so many rows.
    fn plan_of(&self, rows: u32) -> usize {
        match self.few {
            Some(_) if rows <= FEW => 3,
            Some(_) if rows <= SHORT => 2,
            _ => 0,
        }
    }

    /// Submits one pass of prefill from position `pos` on, with the final norm and the head where `head`: they only matter for the last pass.
    /// Two passes may be under way at one time: `number` tells them apart.
    pub(super) fn record_pass(&self, pass: &[u32], pos: u32, plan: usize, head: bool, number: usize) -> Result<Fence> {
        let rows = pass.len() as u32;
        self.put(labels::PREFILL, bytes_of(&State { pos, rows, ..State::default() }))?;
        self.put(labels::TOKENS, cast_slice(pass))?;
        let (plan, all) = match (&self.few, plan) {
            (Some([short, _]), 2) => (2, short),
            (Some([_, few]), 3) => (3, few),
            _ => (0, &self.prefill),
        };
        let steps = if head { all.len() } else { all.len() - self.head_steps(plan) };
        let mut encoder = self.gpu.encoder("prefill");
        {
            let mut compute = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            for step in &all[..steps] {
                self.gpu.dispatch(&mut compute, &step.bound, step.grid.at(rows));
            }
        }
        // A readback of four bytes tells when the pass has run, sooner than the queue's own notice does.
        let at = number % self.fences.len();
        encoder.copy_buffer_to_buffer(self.buffer(labels::PREFILL)?.raw(), 0, self.fences[at].raw(), 0, 4);
        let submission = self.gpu.submit(encoder);
        Ok(Fence(at, self.gpu.map(&self.fences[at], 4, submission)))
    }

    /// Waits for a pass of prefill.
    pub(super) async fn passed(&self, Fence(at, pending): Fence) -> Result<()> {
        self.gpu.take(&self.fences[at], 4, pending).await.map(|_| ())
    }

    pub(super) fn head_steps(&self, plan: usize) -> usize {
        let steps = &self.plans()[plan].steps;
        steps.iter().rev().position(|s| s.name == "output_norm").map_or(0, |p| p + 1)
    }

    /// The logits on the GPU, `[V]`.
    pub async fn logits(&self) -> Result<Vec<f32>> {
        let bytes = self.gpu.read(self.buffer(labels::LOGITS)?, 0, self.model().config().vocab as u64 * 4).await?;
        Ok(cast_slice(&bytes).to_vec())
    }

    /// Feeds one token at position `pos` through the decode step and returns its logits: for scoring given text.
    pub async fn feed(&mut self, token: u32, pos: u32) -> Result<Vec<f32>> {
        self.ensure(pos + 1)?;
        self.cached.truncate(pos as usize);
        self.cached.steps(&[token]);
        self.written = self.written.max(pos + 1);
        self.put(labels::STATE, bytes_of(&State { pos, token, rows: 1, ..State::default() }))?;
        let mut encoder = self.gpu.encoder("feed");
        {
            let mut compute = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            for step in &self.decode[..self.decode.len() - TAIL] {
                self.gpu.dispatch(&mut compute, &step.bound, step.grid.at(1));
            }
        }
        self.gpu.submit(encoder);
        self.logits().await
    }
}
