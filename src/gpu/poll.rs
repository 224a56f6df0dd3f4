//! How soon a browser reports that submitted work is done. Some poll only every 100 ms, but also at every submission.

use std::pin::pin;

use futures_util::future::{Either, select};

use super::device::Gpu;
use crate::base::{now_ms, sleep};
use crate::error::Result;

/// A wait for an idle GPU that takes longer is a wait for the browser's timer, ms.
const SLOW_MS: f64 = 50.0;
/// A wait that takes less is not tried again, ms.
const NONE_MS: f64 = 1.0;
/// Time between two empty submissions, ms. Browsers clamp consecutive timers to 4 ms.
const STEP_MS: f64 = 1.0;
/// Empty submissions are made where they shorten a wait to at most this share.
const WORTH: f64 = 0.5;

impl Gpu {
    /// Measures a wait for an idle GPU. Where that is long, measures it once more with empty submissions meanwhile,
    /// which are made from then on where they help.
    pub(super) async fn measure_poll(&mut self) -> Result<()> {
        let ms = self.shortest_wait().await?;
        self.caps.poll_ms = ms;
        if ms <= SLOW_MS {
            return Ok(());
        }
        self.pumps.set(true);
        let pumped = self.shortest_wait().await?;
        self.pumps.set(pumped < WORTH * ms);
        self.caps.pumped_poll_ms = Some(pumped);
        Ok(())
    }

    /// The time of a wait for an idle GPU, ms: the shortest of up to three, as a busy thread delays a wait too.
    async fn shortest_wait(&self) -> Result<f64> {
        let mut shortest = f64::INFINITY;
        for tried in 1..=3 {
            let started = now_ms();
            self.idle().await?;
            shortest = shortest.min(now_ms() - started);
            if shortest <= NONE_MS || tried == 2 && shortest > SLOW_MS {
                break;
            }
        }
        Ok(shortest)
    }

    /// Readback latency: how much later than the GPU the host knows that work is done, ms, as measured when the device
    /// was opened.
    pub fn latency_ms(&self) -> f64 {
        let caps = self.caps();
        caps.pumped_poll_ms.filter(|_| self.pumps.get()).unwrap_or(caps.poll_ms)
    }

    /// Waits for `done`, which the GPU's work resolves, with empty submissions meanwhile where the browser polls too
    /// seldom without.
    pub(super) async fn until<F: Future + Unpin>(&self, mut done: F) -> F::Output {
        if !self.pumps.get() {
            return done.await;
        }
        loop {
            match select(done, pin!(sleep(STEP_MS))).await {
                Either::Left((output, _)) => return output,
                Either::Right(((), rest)) => done = rest,
            }
            // Not counted: no command of the engine's.
            if let Ok((_, queue)) = self.wgpu() {
                queue.submit(std::iter::empty());
            }
        }
    }
}
