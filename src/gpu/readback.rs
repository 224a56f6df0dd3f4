//! Reading GPU memory back without blocking: the host records on while a copy is under way.

use futures_channel::oneshot;

use super::device::Gpu;
use super::pipeline::Buffer;
use crate::error::{Error, ErrorKind, Result};

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
        let mapped = pending.receiver.await.map_err(|_| Error::new(ErrorKind::DeviceLost, "the GPU dropped a readback; load the model again"))?;
        self.check()?;
        mapped.map_err(|e| Error::gpu(format!("a readback failed: {e}")).with_source(e))?;
        let view = staging.raw().get_mapped_range(0..bytes).map_err(|e| Error::gpu(format!("a readback failed: {e}")))?;
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
        receiver.await.map_err(|_| Error::new(ErrorKind::DeviceLost, "the GPU was lost while work was under way; load the model again"))?;
        self.check()
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn wait(&self, submission_index: Option<wgpu::SubmissionIndex>) -> Result<()> {
        self.device.poll(wgpu::PollType::Wait { submission_index, timeout: None }).map_err(|e| Error::gpu(format!("waiting for the GPU failed: {e}")))?;
        Ok(())
    }
}
