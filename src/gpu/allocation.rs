//! Whether the GPU has memory for new buffers. It says so later than it makes them; what it refuses outside of an [`Allocation`] is found by the next
//! [`Gpu::check`], and then any buffer made since the last one may be missing.

use super::device::{Gpu, On};
use crate::error::{Error, Result};

/// What is made, bound and compiled while it is open may be refused: [`Allocation::end`] says so, and nothing else fails of it.
#[must_use = "what the GPU refuses is told of at the end"]
pub struct Allocation {
    /// Of validation and of memory: the last one opened is the first one closed, as it is where they are dropped.
    scopes: Option<[wgpu::ErrorScopeGuard; 2]>,
}

impl Gpu {
    /// Begins an allocation; ends before the next one begins.
    pub fn allocate(&self) -> Allocation {
        #[cfg(feature = "lab")]
        self.refusals.open.set(true);
        let scopes = match &self.on {
            On::Gpu(device, _) => {
                let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
                Some([device.push_error_scope(wgpu::ErrorFilter::Validation), memory])
            }
            On::Cpu(_) => None,
        };
        Allocation { scopes }
    }
}

impl Allocation {
    /// Waits until the GPU has made what was made since the beginning.
    ///
    /// # Errors
    /// [`crate::ErrorKind::OutOfMemory`] where it had not the memory; what was made must not be used then. [`crate::ErrorKind::DeviceLost`].
    pub async fn end(self, gpu: &Gpu) -> Result<()> {
        let mut refused = None;
        if let Some([validation, memory]) = self.scopes {
            // Both are closed before anything else is asked of the device.
            let (validation, memory) = (validation.pop(), memory.pop());
            let memory = memory.await.map(|e| Error::out_of_memory(format!("the GPU has no memory left: {e}")));
            // What is made of buffers that are not there is invalid.
            let validation = validation.await.map(|e| Error::gpu(format!("the GPU refused what was made: {e}")));
            refused = memory.or(validation);
        }
        #[cfg(feature = "lab")]
        if gpu.refusals.close() {
            refused = Some(Error::out_of_memory("the GPU has no memory left: as a test wants it"));
        }
        gpu.check()?;
        refused.map_or(Ok(()), Err)
    }
}

/// Which buffers a device refuses, for tests.
#[cfg(feature = "lab")]
#[derive(Debug, Clone, Copy)]
pub struct Refuse {
    /// Buffers that it makes before.
    pub after: u32,
    /// Whether it refuses no more than one.
    pub once: bool,
    /// Whether it says so later than it makes them, as browsers do.
    pub late: bool,
}

/// Buffers that a test has the device refuse.
#[cfg(feature = "lab")]
#[derive(Default)]
pub(super) struct Refusals {
    next: std::cell::Cell<Option<Refuse>>,
    /// Whether an allocation is open, and one of its buffers was refused.
    open: std::cell::Cell<bool>,
    refused: std::cell::Cell<bool>,
}

#[cfg(feature = "lab")]
impl Refusals {
    pub(super) fn begin(&self, refuse: Option<Refuse>) {
        self.next.set(refuse);
    }

    /// Ends an allocation: whether one of its buffers was refused.
    fn close(&self) -> bool {
        self.open.set(false);
        self.refused.take()
    }
}

#[cfg(feature = "lab")]
impl Gpu {
    /// Whether a buffer that is to be made shall turn out not to be there; an error where it shall be refused at once.
    pub(super) fn refuses(&self, label: &str, size: u64) -> Result<bool> {
        let Some(refuse) = self.refusals.next.get() else { return Ok(false) };
        if refuse.after > 0 {
            self.refusals.next.set(Some(Refuse { after: refuse.after - 1, ..refuse }));
            return Ok(false);
        }
        if refuse.once {
            self.refusals.next.set(None);
        }
        let message = format!("buffer {label} of {size} bytes was refused: out of memory");
        if !refuse.late || matches!(self.on, On::Cpu(_)) {
            return Err(Error::out_of_memory(message));
        }
        if self.refusals.open.get() {
            self.refusals.refused.set(true);
        } else if let Ok(mut faults) = self.faults.lock() {
            faults.uncaptured.get_or_insert(message);
        }
        Ok(true)
    }
}
