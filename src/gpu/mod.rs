//! The device, a GPU or the CPU: opening it, its capabilities, buffers, pipelines and readbacks. Everything that
//! reaches the queue passes through here and is counted.

mod ahead;
mod allocation;
#[cfg(target_arch = "wasm32")]
mod browser;
mod commands;
mod counters;
mod device;
mod loss;
#[cfg(not(target_arch = "wasm32"))]
mod native;
mod pipeline;
mod poll;
#[cfg_attr(not(all(feature = "lab", not(target_arch = "wasm32"))), path = "no_pool.rs")]
mod pool;
mod probe;
mod processor;
mod rates;
mod readback;
mod timeline;
mod upload;

#[cfg(feature = "lab")]
pub use allocation::Refuse;
#[cfg(target_arch = "wasm32")]
use browser as platform;
#[cfg(target_arch = "wasm32")]
pub(crate) use browser::load_cpu_by;
pub use commands::{ComputePass, Encoder, Raw, Submission};
pub use counters::{Counters, Snapshot};
pub use device::{DeviceChoice, Gpu, GpuOptions};
pub use loss::{Loss, LossReason, Lost};
#[cfg(not(target_arch = "wasm32"))]
use native as platform;
pub use pipeline::{Bound, Buffer, Trial};
pub use rates::{Rates, thousandths};
pub use readback::Pending;
pub use upload::Upload;
