//! Bulk uploads to the GPU through a ring of staging buffers that stay mapped between two uses. A browser moves bytes
//! this way several times as fast as by `writeBuffer` (docs/BENCHMARKS.md), and no more bytes are in flight than the
//! ring holds.

use std::cell::RefCell;
use std::rc::Rc;

use futures_channel::oneshot;

use super::commands::Raw;
use super::device::{Gpu, On};
use super::pipeline::Buffer;
use super::platform;
use crate::error::Result;

/// Bytes of a staging buffer, and how many there are.
const STAGING: usize = 8 << 20;
const COUNT: usize = 4;
/// Offsets of mapped ranges in a staging buffer are multiples of this.
const ALIGNMENT: usize = 8;

type Mapped = oneshot::Receiver<std::result::Result<(), wgpu::BufferAsyncError>>;

struct Staging {
    buffer: Buffer,
    /// Resolves once the GPU has copied the buffer's contents and it is mapped again; `None` where it is mapped.
    under_way: Option<Mapped>,
}

/// A copy out of the current staging buffer, not submitted yet.
struct Copy {
    from: u64,
    to: Buffer,
    offset: u64,
    bytes: u64,
}

#[derive(Default)]
struct Current {
    /// The staging buffer's index in the ring.
    at: usize,
    /// Bytes of it that are filled.
    used: usize,
    copies: Vec<Copy>,
}

/// Writes into buffers that are copy destinations. [`Upload::finish`] ends it; bytes that it has not submitted are
/// lost.
pub struct Upload {
    gpu: Rc<Gpu>,
    ring: RefCell<Vec<Staging>>,
    current: RefCell<Current>,
}

impl Upload {
    /// A ring of staging buffers, 32 MiB.
    pub fn new(gpu: Rc<Gpu>) -> Result<Self> {
        let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
        let staging = || {
            let buffer = gpu.buffer("upload", STAGING as u64, usage)?;
            let under_way = map(&buffer);
            Ok(Staging { buffer, under_way })
        };
        // The CPU's memory is written in place.
        let count = if matches!(gpu.on, On::Gpu(..)) { COUNT } else { 0 };
        let ring = (0..count).map(|_| staging()).collect::<Result<_>>()?;
        Ok(Self { gpu, ring: RefCell::new(ring), current: RefCell::default() })
    }

    /// Writes whole words into `to` from its byte `offset` on.
    pub async fn write(&self, to: &Buffer, mut offset: u64, bytes: &[u8]) -> Result<()> {
        if let On::Cpu(processor) = &self.gpu.on {
            processor.run_until(processor.last()).await?;
            self.gpu.write(to, offset, bytes);
            return self.gpu.check();
        }
        for piece in bytes.chunks(STAGING) {
            if self.current.borrow().used + piece.len() > STAGING {
                self.send();
            }
            self.mapped().await?;
            let from = self.current.borrow().used as u64;
            let filled = self.ring.borrow()[self.current.borrow().at]
                .buffer
                .raw()
                .gpu()
                .map(|buffer| platform::fill(buffer, from, piece));
            if !matches!(filled, Some(Ok(()))) {
                return Err(self.gpu.failure("a staging buffer is not mapped").await);
            }
            let mut current = self.current.borrow_mut();
            current.copies.push(Copy { from, to: to.clone(), offset, bytes: piece.len() as u64 });
            current.used = (current.used + piece.len()).next_multiple_of(ALIGNMENT);
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Submits the rest and waits until all bytes have arrived.
    pub async fn finish(&self) -> Result<()> {
        if self.current.borrow().used > 0 {
            self.send();
        }
        self.gpu.idle().await
    }

    /// Waits until the current staging buffer is mapped.
    async fn mapped(&self) -> Result<()> {
        let at = self.current.borrow().at;
        let under_way = self.ring.borrow_mut()[at].under_way.take();
        let Some(under_way) = under_way else { return Ok(()) };
        #[cfg(not(target_arch = "wasm32"))]
        self.gpu.wait(None)?;
        match self.gpu.until(under_way).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(self.gpu.failure("a staging buffer could not be mapped").await),
        }
    }

    /// Submits the copies out of the current staging buffer, and moves on to the next.
    fn send(&self) {
        let Current { at, copies, .. } = self.current.take();
        let staging = &mut self.ring.borrow_mut()[at];
        if let Raw::Gpu(buffer) = staging.buffer.raw() {
            buffer.unmap();
        }
        let mut encoder = self.gpu.encoder("upload");
        for copy in copies {
            encoder.copy_buffer_to_buffer(staging.buffer.raw(), copy.from, copy.to.raw(), copy.offset, copy.bytes);
        }
        self.gpu.submit(encoder);
        staging.under_way = map(&staging.buffer);
        self.current.borrow_mut().at = (at + 1) % COUNT;
    }
}

fn map(buffer: &Buffer) -> Option<Mapped> {
    let (sender, receiver) = oneshot::channel();
    buffer.raw().gpu()?.map_async(wgpu::MapMode::Write, .., move |result| {
        // The receiver is gone only where the upload was given up.
        let _ = sender.send(result);
    });
    Some(receiver)
}
