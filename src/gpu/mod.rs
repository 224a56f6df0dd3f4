//! The GPU device: opening it, its capabilities, buffers, pipelines and readbacks. Everything that reaches the queue passes through here and is counted.

mod counters;
mod device;
mod loss;
mod pipeline;
mod probe;
mod readback;
mod timeline;
mod upload;

pub use counters::{Counters, Snapshot};
#[cfg(target_arch = "wasm32")]
pub(crate) use device::MATRICES;
pub use device::{Caps, Gpu, GpuOptions};
pub use loss::{Loss, LossReason, Lost};
pub use pipeline::{Bound, Buffer, Trial};
pub use readback::Pending;
pub use upload::Upload;
