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

/// Whether the engine checks itself as it goes: in builds with debug assertions, and in native tests, which have none
/// of the standard library's (Cargo.toml, `profile.dev`) but the feature.
pub(crate) const CHECKED: bool = cfg!(any(debug_assertions, feature = "toy"));

pub use cancel::Cancel;
pub(crate) use clock::{epoch_ms, local_seconds};
pub use clock::{now_ms, sleep};
pub use names::{check_name, hex};
pub use progress::{Event, Phase, Progress};
pub use signal::Signal;
