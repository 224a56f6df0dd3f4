//! The GPU device: opening it, its capabilities, buffers, pipelines and readbacks. Everything that reaches the queue passes through here and is counted.

#[cfg(target_arch = "wasm32")]
mod browser;
mod counters;
mod device;
mod loss;
#[cfg(not(target_arch = "wasm32"))]
mod native;
mod pipeline;
mod poll;
mod probe;
mod readback;
mod timeline;
mod upload;

#[cfg(target_arch = "wasm32")]
use browser as platform;
pub use counters::{Counters, Snapshot};
pub use device::{Gpu, GpuOptions};
pub use loss::{Loss, LossReason, Lost};
#[cfg(not(target_arch = "wasm32"))]
use native as platform;
pub use pipeline::{Bound, Buffer, Trial};
pub use readback::Pending;
pub use upload::Upload;
