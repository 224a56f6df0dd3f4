//! What the caller sees while the engine works: cancellation, progress, the text as it is made.

pub mod cancel;
pub mod progress;
pub mod stops;

pub use cancel::Cancel;
pub use progress::{Phase, Progress};
pub use stops::StopScanner;
