//! Keeps the GPU busy before a request: an idle GPU lowers its clock, which slows the first tokens of an answer.

use bytemuck::bytes_of;

use super::program::Encoded;
use super::session::Session;
use crate::base::{Cancel, now_ms};
use crate::error::Result;
use crate::kernels::State;
use crate::layout::Control;
use crate::plan::{Pass, Stage};

/// How long the GPU works between two checks for cancellation, ms: the most time that a request waits.
const SLICE_MS: f64 = 4.0;

impl Session {
    /// Keeps the GPU busy for about `ms`, or until cancelled, by reading the head's weights. Between generations only:
    /// activations and the loop's state are scratch afterwards, the sequences' caches are not touched.
    pub async fn warm(&mut self, ms: f64, cancel: &Cancel) -> Result<()> {
        let started = now_ms();
        if !self.writes() {
            return Ok(());
        }
        self.put(Control::Decode, bytes_of(&State { rows: 1, limit: u32::MAX, ..State::default() }))?;
        let head: Vec<&Encoded> = self.steps(Pass::Decode).iter().filter(|step| step.stage == Stage::Head).collect();
        let mut passes = 1;
        while now_ms() - started < ms && !cancel.is_cancelled() {
            let took = self.round(&head, 1, passes).await? - self.gpu.latency_ms();
            if took < SLICE_MS / 2.0 {
                passes *= 2;
            } else if took > SLICE_MS * 2.0 {
                passes = (passes / 2).max(1);
            }
        }
        Ok(())
    }
}
