//! A cache that was lost with its device is made again from its tokens: by the same passes and steps, so that it is the same to the last bit.

use bytemuck::bytes_of;

use super::conversation::Parked;
use super::generate::Outcome;
use super::history::How;
use super::session::Session;
use crate::error::Result;
use crate::kernels::{State, Variant};
use crate::plan::{Lane, labels};
use crate::stream::Cancel;

/// How long steps may take that are repeated, ms. Where it would be longer, the tokens are read by passes: many times as fast, and rounded
/// otherwise, so that a text may go on with other words.
const REPEAT_MS: f64 = 30_000.0;
/// Steps that may wait for the GPU.
const STEPS: usize = 32;

/// What decided about a session's kernels beside the device and the options.
pub struct Decided {
    /// The lane in use.
    pub lane: Lane,
    /// Variants that computed wrongly.
    pub avoided: Vec<&'static Variant>,
    /// Whether short passes and those of few rows were compiled.
    pub few: bool,
}

impl Session {
    /// What another session must be told to run the same kernels on the same device.
    pub fn decided(&self) -> Decided {
        Decided { lane: self.lane(), avoided: self.select.avoided().to_vec(), few: self.has_few() }
    }

    /// What the last generation had done when the device was lost, if it had sampled anything; once.
    pub fn take_interrupted(&mut self) -> Option<Outcome> {
        self.interrupted.take()
    }

    /// Takes over the conversations of a session whose device was lost. Each is made again when it has its turn.
    pub fn take_over(&mut self, lost: Self) -> Result<()> {
        self.parked = lost.parked.into_iter().map(|(id, parked)| (id, Parked { buffers: None, ..parked })).collect();
        self.active = lost.active;
        self.next_conversation = lost.next_conversation;
        self.missing = !lost.cached.is_empty();
        self.cached = lost.cached;
        self.written = lost.written;
        self.ms_a_token = lost.ms_a_token;
        self.interrupted = lost.interrupted;
        self.rotate_long(lost.long)
    }

    /// Makes the cache hold the first `n` of its tokens where they were lost; of the others nothing is known afterwards.
    pub(super) async fn rebuild(&mut self, n: usize, cancel: &Cancel) -> Result<()> {
        if !self.missing {
            return Ok(());
        }
        if n == 0 {
            self.cached.clear();
            self.missing = false;
            return Ok(());
        }
        let mut tokens = self.cached.clone();
        tokens.truncate(n);
        if f64::from(tokens.stepped()) * self.ms_a_token.unwrap_or(0.0) > REPEAT_MS {
            tokens = tokens.by_passes(self.sizes().rows);
        }
        self.ensure(n as u32)?;
        let mut before = None;
        let mut passes = 0;
        for (range, how) in tokens.ranges() {
            cancel.check()?;
            let at = range.start as u32;
            match how {
                How::Pass(plan) => {
                    let fence = self.record_pass(&tokens[range], at, plan, false, passes)?;
                    passes += 1;
                    if let Some(earlier) = before.replace(fence) {
                        self.passed(earlier).await?;
                    }
                }
                How::Steps => {
                    for (i, token) in tokens[range].iter().enumerate() {
                        self.step_over(*token, at + i as u32)?;
                        if i % STEPS == STEPS - 1 {
                            cancel.check()?;
                            self.gpu.idle().await?;
                        }
                    }
                }
            }
        }
        if let Some(last) = before {
            self.passed(last).await?;
        }
        self.gpu.idle().await?;
        self.cached = tokens;
        self.missing = false;
        Ok(())
    }

    /// Reads a token by a decode step that samples nothing.
    fn step_over(&self, token: u32, pos: u32) -> Result<()> {
        self.put(labels::STATE, bytes_of(&State { pos, token, rows: 1, limit: u32::MAX, ..State::default() }))?;
        let layers = self.decode.len() - self.head_steps(1).max(super::session::TAIL);
        let mut encoder = self.gpu.encoder("step over");
        {
            let mut compute = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            for step in &self.decode[..layers] {
                self.gpu.dispatch(&mut compute, &step.bound, step.grid.at(1));
            }
        }
        self.gpu.submit(encoder);
        Ok(())
    }
}
