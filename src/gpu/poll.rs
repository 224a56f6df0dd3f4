//! How soon a browser tells that the GPU has done something. Some look only every 100 ms, but also whenever something is submitted.

use std::pin::pin;

use futures_util::future::{Either, select};

use super::device::Gpu;
use crate::base::{now_ms, sleep};
use crate::error::Result;

/// A wait for an idle GPU that takes longer is one for a timer, ms.
const SLOW_MS: f64 = 50.0;
/// One that takes less is none.
const NONE_MS: f64 = 1.0;
/// Between two empty submissions, ms. Browsers make timers that follow each other 4 ms long.
const STEP_MS: f64 = 1.0;
/// The share of a wait's time that empty submissions must leave, to be made.
const WORTH: f64 = 0.5;

impl Gpu {
    /// Measures a wait for nothing. Where it is long, the same with empty submissions meanwhile, which are made from then on where they help.
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

    /// The time of a wait for an idle GPU, ms: the shortest of some, since a thread that was kept busy is no slow poll.
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

    /// How much later than the GPU the host knows that something is done, ms, as measured when the device was opened.
    pub fn latency_ms(&self) -> f64 {
        let caps = self.caps();
        caps.pumped_poll_ms.filter(|_| self.pumps.get()).unwrap_or(caps.poll_ms)
    }

    /// Waits for what the GPU will do, with empty submissions meanwhile where the browser would look too seldom without.
    pub(super) async fn until<F: Future + Unpin>(&self, mut done: F) -> F::Output {
        if !self.pumps.get() {
            return done.await;
        }
        loop {
            match select(done, pin!(sleep(STEP_MS))).await {
                Either::Left((output, _)) => return output,
                Either::Right(((), rest)) => done = rest,
            }
            // No command of the engine's: nothing to count.
            if let Ok((_, queue)) = self.wgpu() {
                queue.submit(std::iter::empty());
            }
        }
    }
}
