//! Reading GPU memory back without blocking: the host records on while a copy is under way.

use futures_channel::oneshot;
use futures_util::future::{Either, select};

use super::device::Gpu;
use super::pipeline::Buffer;
use crate::error::{Error, Result};

/// How long the browser may take from failing what is under way to saying that the device is lost, ms.
#[cfg(target_arch = "wasm32")]
const NOTICE_MS: f64 = 1000.0;

/// A mapping under way.
pub struct Pending {
    receiver: oneshot::Receiver<std::result::Result<(), wgpu::BufferAsyncError>>,
    #[cfg_attr(target_arch = "wasm32", allow(dead_code))]
    submission: wgpu::SubmissionIndex,
}

impl Gpu {
    /// Starts mapping the first `bytes` bytes of a staging buffer that `submission` writes.
    pub fn map(&self, staging: &Buffer, bytes: u64, submission: wgpu::SubmissionIndex) -> Pending {
        let (sender, receiver) = oneshot::channel();
        staging.raw().map_async(wgpu::MapMode::Read, 0..bytes, move |result| {
            // The receiver is gone only where the caller gave up waiting.
            let _ = sender.send(result);
        });
        self.counters().readback(bytes);
        Pending { receiver, submission }
    }

    /// Waits for the mapping, copies the bytes out and unmaps.
    pub async fn take(&self, staging: &Buffer, bytes: u64, pending: Pending) -> Result<Vec<u8>> {
        #[cfg(not(target_arch = "wasm32"))]
        self.wait(Some(pending.submission))?;
        // Nobody need answer for a device that is gone.
        let mapped = match self.until(select(pending.receiver, self.lost())).await {
            Either::Left((mapped, _)) => mapped,
            Either::Right(_) => return Err(self.failure("a readback was given up").await),
        };
        if !matches!(mapped, Ok(Ok(()))) {
            return Err(self.failure("a readback failed").await);
        }
        self.check()?;
        let view = match staging.raw().get_mapped_range(0..bytes) {
            Ok(view) => view,
            Err(e) => return Err(self.failure(&format!("a readback failed: {e}")).await),
        };
        let data = view.to_vec();
        drop(view);
        staging.raw().unmap();
        Ok(data)
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
        let (sender, receiver) = oneshot::channel();
        self.queue.on_submitted_work_done(move || {
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
    pub(super) fn wait(&self, submission_index: Option<wgpu::SubmissionIndex>) -> Result<()> {
        let Err(e) = self.device.poll(wgpu::PollType::Wait { submission_index, timeout: None }) else { return Ok(()) };
        // A device that is gone has taken nothing to wait for. It says so once nothing is under way any more.
        let _ = self.device.poll(wgpu::PollType::Wait { submission_index: None, timeout: None });
        self.check()?;
        Err(Error::gpu(format!("waiting for the GPU failed: {e}")))
    }
}
