//! Whether the GPU has memory for new buffers. A device reports a refused buffer later than it creates one; a refusal
//! outside of an [`Allocation`] is found by the next [`Gpu::check`], and then any buffer made since the last check may
//! be missing.

use super::device::{Gpu, On};
use crate::error::{Error, Result};

/// Error scopes around buffers, bind groups and pipelines that the device may refuse: [`Allocation::end`] returns the
/// refusal, and no other call fails because of it.
#[must_use = "what the GPU refuses is told of at the end"]
pub struct Allocation {
    /// The scopes of validation and of memory, in the order of closing, and of dropping: the reverse of opening.
    scopes: Option<[wgpu::ErrorScopeGuard; 2]>,
}

impl Gpu {
    /// Begins an allocation, which has to end before the next one begins.
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
    /// Waits until the GPU has created everything that was requested since [`Gpu::allocate`].
    ///
    /// # Errors
    /// [`crate::ErrorKind::OutOfMemory`] where the GPU's memory did not suffice; what was created must not be used
    /// then. [`crate::ErrorKind::DeviceLost`].
    pub async fn end(self, gpu: &Gpu) -> Result<()> {
        let mut refused = None;
        if let Some([validation, memory]) = self.scopes {
            // Both scopes are closed before the next call of the device.
            let (validation, memory) = (validation.pop(), memory.pop());
            let memory = memory.await.map(|e| Error::out_of_memory(format!("the GPU has no memory left: {e}")));
            // Bind groups of refused buffers are invalid: the memory error has precedence.
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
    /// Buffers that the device makes before it refuses one.
    pub after: u32,
    /// Whether it refuses only one.
    pub once: bool,
    /// Whether the refusal is reported after the buffer's creation, as in browsers.
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
    /// Whether the buffer to be made shall be refused, which is reported later; an error where it shall be refused at
    /// once.
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
