//! Reading GPU memory back without blocking: the host records on while a copy is under way.

use futures_channel::oneshot;
use futures_util::future::{Either, select};

use super::commands::{Raw, Submission};
use super::device::{Gpu, On};
use super::pipeline::Buffer;
use super::processor::Memory;
use crate::error::{Error, Result};

/// How long the browser may take from failing a pending mapping to reporting the loss of the device, ms.
#[cfg(target_arch = "wasm32")]
const NOTICE_MS: f64 = 1000.0;

/// A pending mapping. Dropping it unmaps the staging buffer, finished or not: a mapped buffer takes no further copy.
pub struct Pending {
    /// The buffer of a GPU that is mapped, or will be; the CPU's memory needs no mapping.
    mapping: Option<wgpu::Buffer>,
    /// Resolves when the buffer is mapped; `None` where it is known to be.
    receiver: Option<oneshot::Receiver<std::result::Result<(), wgpu::BufferAsyncError>>>,
    submission: Submission,
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(buffer) = self.mapping.take() else { return };
        let failed =
            self.receiver.as_mut().is_some_and(|receiver| matches!(receiver.try_recv(), Ok(Some(Err(_))) | Err(_)));
        if !failed {
            buffer.unmap();
        }
    }
}

impl Gpu {
    /// Starts mapping the first `bytes` bytes of a staging buffer that `submission` writes.
    pub fn map(&self, staging: &Buffer, bytes: u64, submission: Submission) -> Pending {
        self.counters().readback(bytes);
        let Raw::Gpu(raw) = staging.raw() else { return Pending { mapping: None, receiver: None, submission } };
        let (sender, receiver) = oneshot::channel();
        raw.map_async(wgpu::MapMode::Read, 0..bytes, move |result| {
            // The receiver is gone only where the caller gave up waiting.
            let _ = sender.send(result);
        });
        Pending { mapping: Some(raw.clone()), receiver: Some(receiver), submission }
    }

    /// Waits for the mapping, copies the bytes out and unmaps.
    pub async fn take(&self, staging: &Buffer, bytes: u64, mut pending: Pending) -> Result<Vec<u8>> {
        let receiver = match (staging.raw(), &mut pending.receiver) {
            (Raw::Gpu(_), Some(receiver)) => receiver,
            (Raw::Cpu(memory), _) => return self.take_of_cpu(memory, bytes, pending.submission.clone()).await,
            (Raw::Gpu(_), None) => return Err(Error::internal("a readback of another device")),
        };
        #[cfg(not(target_arch = "wasm32"))]
        self.wait(Some(pending.submission.clone()))?;
        // A lost device need not answer: the loss ends the wait too.
        let mapped = match self.until(select(receiver, self.lost())).await {
            Either::Left((mapped, _)) => mapped,
            Either::Right(_) => {
                pending.mapping = None;
                return Err(self.failure("a readback was given up").await);
            }
        };
        pending.receiver = None;
        let Some(raw) = pending.mapping.as_ref().filter(|_| matches!(mapped, Ok(Ok(())))) else {
            pending.mapping = None;
            return Err(self.failure("a readback failed").await);
        };
        self.check()?;
        match raw.get_mapped_range(0..bytes) {
            Ok(view) => Ok(view.to_vec()),
            Err(e) => Err(self.failure(&format!("a readback failed: {e}")).await),
        }
    }

    /// Runs the CPU's queue up to `submission` and copies the bytes out.
    async fn take_of_cpu(&self, memory: &Memory, bytes: u64, submission: Submission) -> Result<Vec<u8>> {
        let (On::Cpu(processor), Submission::Cpu(number)) = (&self.on, submission) else {
            return Err(Error::internal("a readback of another device"));
        };
        self.check()?;
        processor.run_until(number).await?;
        self.check()?;
        processor.read(memory, bytes)
    }

    /// Copies `bytes` bytes of `buffer` from `offset` to the host, at once. Both are multiples of 4.
    pub async fn read(&self, buffer: &Buffer, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let staging = self.buffer("readback", bytes, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST)?;
        let mut encoder = self.encoder("readback");
        encoder.copy_buffer_to_buffer(buffer.raw(), offset, staging.raw(), 0, bytes);
        let submission = self.submit(encoder);
        let pending = self.map(&staging, bytes, submission);
        self.take(&staging, bytes, pending).await
    }

    /// Waits until everything submitted so far has run.
    pub async fn idle(&self) -> Result<()> {
        let queue = match &self.on {
            On::Gpu(_, queue) => queue,
            On::Cpu(processor) => {
                processor.run_until(processor.last()).await?;
                return self.check();
            }
        };
        let (sender, receiver) = oneshot::channel();
        queue.on_submitted_work_done(move || {
            let _ = sender.send(());
        });
        #[cfg(not(target_arch = "wasm32"))]
        self.wait(None)?;
        match self.until(select(receiver, self.lost())).await {
            Either::Left((Ok(()), _)) => self.check(),
            _ => Err(self.failure("waiting for the GPU failed").await),
        }
    }

    /// The error of failed work: the device's loss or earlier error, where there is one, else `what`.
    pub(super) async fn failure(&self, what: &str) -> Error {
        // The browser rejects pending mappings before it reports the loss.
        #[cfg(target_arch = "wasm32")]
        select(self.lost(), Box::pin(crate::base::sleep(NOTICE_MS))).await;
        self.check().err().unwrap_or_else(|| Error::gpu(what))
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn wait(&self, submission: Option<Submission>) -> Result<()> {
        let (device, _) = self.wgpu()?;
        let submission_index = submission.and_then(|submission| match submission {
            Submission::Gpu(index) => Some(index),
            Submission::Cpu(_) => None,
        });
        let Err(e) = device.poll(wgpu::PollType::Wait { submission_index, timeout: None }) else { return Ok(()) };
        // A lost device has not taken the submission. It reports the loss once no work is pending.
        let _ = device.poll(wgpu::PollType::Wait { submission_index: None, timeout: None });
        self.check()?;
        Err(Error::gpu(format!("waiting for the GPU failed: {e}")))
    }
}
