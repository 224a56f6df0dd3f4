//! Reading GPU memory back without blocking: the host records on while a copy is under way.

use futures_channel::oneshot;
use futures_util::future::{Either, select};

use super::commands::{Raw, Submission};
use super::device::{Gpu, On};
use super::pipeline::Buffer;
use super::processor::Memory;
use crate::error::{Error, Result};

/// How long the browser may take from failing what is under way to saying that the device is lost, ms.
#[cfg(target_arch = "wasm32")]
const NOTICE_MS: f64 = 1000.0;

/// A mapping under way.
pub struct Pending {
    /// What tells of a GPU's mapping; the CPU's memory needs none.
    receiver: Option<oneshot::Receiver<std::result::Result<(), wgpu::BufferAsyncError>>>,
    submission: Submission,
}

impl Gpu {
    /// Starts mapping the first `bytes` bytes of a staging buffer that `submission` writes.
    pub fn map(&self, staging: &Buffer, bytes: u64, submission: Submission) -> Pending {
        self.counters().readback(bytes);
        let Raw::Gpu(raw) = staging.raw() else { return Pending { receiver: None, submission } };
        let (sender, receiver) = oneshot::channel();
        raw.map_async(wgpu::MapMode::Read, 0..bytes, move |result| {
            // The receiver is gone only where the caller gave up waiting.
            let _ = sender.send(result);
        });
        Pending { receiver: Some(receiver), submission }
    }

    /// Waits for the mapping, copies the bytes out and unmaps.
    pub async fn take(&self, staging: &Buffer, bytes: u64, pending: Pending) -> Result<Vec<u8>> {
        let (raw, receiver) = match (staging.raw(), pending.receiver) {
            (Raw::Gpu(raw), Some(receiver)) => (raw, receiver),
            (Raw::Cpu(memory), _) => return self.take_of_cpu(memory, bytes, pending.submission).await,
            (Raw::Gpu(_), None) => return Err(Error::internal("a readback of another device")),
        };
        #[cfg(not(target_arch = "wasm32"))]
        self.wait(Some(pending.submission))?;
        // Nobody need answer for a device that is gone.
        let mapped = match self.until(select(receiver, self.lost())).await {
            Either::Left((mapped, _)) => mapped,
            Either::Right(_) => return Err(self.failure("a readback was given up").await),
        };
        if !matches!(mapped, Ok(Ok(()))) {
            return Err(self.failure("a readback failed").await);
        }
        self.check()?;
        let view = match raw.get_mapped_range(0..bytes) {
            Ok(view) => view,
            Err(e) => return Err(self.failure(&format!("a readback failed: {e}")).await),
        };
        let data = view.to_vec();
        drop(view);
        raw.unmap();
        Ok(data)
    }

    /// Has the CPU do what it was given, and copies the bytes out.
    async fn take_of_cpu(&self, memory: &Memory, bytes: u64, submission: Submission) -> Result<Vec<u8>> {
        let (On::Cpu(processor), Submission::Cpu(number)) = (&self.on, submission) else { return Err(Error::internal("a readback of another device")) };
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

    /// The error of work that was given to the device and failed: that it was lost, where it was.
    pub(super) async fn failure(&self, what: &str) -> Error {
        // The browser rejects what is under way before it says why.
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
        // A device that is gone has taken nothing to wait for. It says so once nothing is under way any more.
        let _ = device.poll(wgpu::PollType::Wait { submission_index: None, timeout: None });
        self.check()?;
        Err(Error::gpu(format!("waiting for the GPU failed: {e}")))
    }
}
