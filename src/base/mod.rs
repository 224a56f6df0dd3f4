//! What every room needs and none owns: cancellation, progress, waiting, time, names of files.

mod cancel;
mod clock;
#[cfg(target_arch = "wasm32")]
pub(crate) mod js;
mod names;
pub mod numbers;
pub mod options;
mod progress;
mod signal;

pub use cancel::Cancel;
pub(crate) use clock::{epoch_ms, local_seconds};
pub use clock::{now_ms, sleep};
pub use names::{check_name, hex};
pub use progress::{Event, Phase, Progress};
pub use signal::Signal;
