//! Counters of GPU calls, kept where the calls are made, so that a claim about the decode loop is a number.

use std::cell::Cell;

use serde::Serialize;

/// Counters of one engine; a generation reports the difference of two snapshots.
#[derive(Debug, Default)]
pub struct Counters {
    submits: Cell<u64>,
    dispatches: Cell<u64>,
    readbacks: Cell<u64>,
    readback_bytes: Cell<u64>,
    pipelines: Cell<u64>,
    bind_groups: Cell<u64>,
    buffers: Cell<u64>,
    gpu_bytes: Cell<u64>,
    peak_gpu_bytes: Cell<u64>,
}

/// The counters at one moment. Units: counts, and bytes where the name says so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// Command submissions.
    pub submits: u64,
    /// Compute dispatches.
    pub dispatches: u64,
    /// Buffers mapped for reading.
    pub readbacks: u64,
    /// Bytes read back.
    pub readback_bytes: u64,
    /// Compute pipelines created.
    pub pipelines: u64,
    /// Bind groups created.
    pub bind_groups: u64,
    /// Buffers created.
    pub buffers: u64,
    /// Bytes of GPU buffers alive.
    pub gpu_bytes: u64,
}

fn add(cell: &Cell<u64>, n: u64) {
    cell.set(cell.get() + n);
}

impl Counters {
    pub(crate) fn submit(&self) {
        add(&self.submits, 1);
    }
    pub(crate) fn dispatch(&self, n: u64) {
        add(&self.dispatches, n);
    }
    pub(crate) fn readback(&self, bytes: u64) {
        add(&self.readbacks, 1);
        add(&self.readback_bytes, bytes);
    }
    pub(crate) fn pipeline(&self) {
        add(&self.pipelines, 1);
    }
    pub(crate) fn bind_group(&self) {
        add(&self.bind_groups, 1);
    }
    pub(crate) fn allocated(&self, bytes: u64) {
        add(&self.buffers, 1);
        add(&self.gpu_bytes, bytes);
        self.peak_gpu_bytes.set(self.peak_gpu_bytes.get().max(self.gpu_bytes.get()));
    }
    pub(crate) fn freed(&self, bytes: u64) {
        self.gpu_bytes.set(self.gpu_bytes.get().saturating_sub(bytes));
    }

    /// The counters now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            submits: self.submits.get(),
            dispatches: self.dispatches.get(),
            readbacks: self.readbacks.get(),
            readback_bytes: self.readback_bytes.get(),
            pipelines: self.pipelines.get(),
            bind_groups: self.bind_groups.get(),
            buffers: self.buffers.get(),
            gpu_bytes: self.gpu_bytes.get(),
        }
    }

    /// The most bytes of GPU buffers that were alive at one time since the last call of this.
    #[cfg(feature = "lab")]
    pub(crate) fn take_peak(&self) -> u64 {
        self.peak_gpu_bytes.replace(self.gpu_bytes.get())
    }

    /// The most bytes of GPU buffers that were alive at one time.
    pub fn peak_gpu_bytes(&self) -> u64 {
        self.peak_gpu_bytes.get()
    }
}

impl Snapshot {
    /// The counts since `earlier`; `gpu_bytes` stays absolute.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            submits: self.submits - earlier.submits,
            dispatches: self.dispatches - earlier.dispatches,
            readbacks: self.readbacks - earlier.readbacks,
            readback_bytes: self.readback_bytes - earlier.readback_bytes,
            pipelines: self.pipelines - earlier.pipelines,
            bind_groups: self.bind_groups - earlier.bind_groups,
            buffers: self.buffers - earlier.buffers,
            gpu_bytes: self.gpu_bytes,
        }
    }
    /// The sum of the counts of two intervals.
    #[must_use]
    pub fn and(self, later: Self) -> Self {
        Self {
            submits: self.submits + later.submits,
            dispatches: self.dispatches + later.dispatches,
            readbacks: self.readbacks + later.readbacks,
            readback_bytes: self.readback_bytes + later.readback_bytes,
            pipelines: self.pipelines + later.pipelines,
            bind_groups: self.bind_groups + later.bind_groups,
            buffers: self.buffers + later.buffers,
            gpu_bytes: later.gpu_bytes,
        }
    }
}
