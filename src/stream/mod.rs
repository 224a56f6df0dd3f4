//! What the caller sees while the engine works: the engine itself, cancellation, progress, the text as it is made.

pub mod cancel;
mod clock;
mod engine;
pub mod fit;
mod load;
pub mod progress;
mod recover;
mod request;
mod signal;
pub mod stops;

pub use cancel::Cancel;
pub use clock::{now_ms, sleep};
pub use engine::Engine;
#[cfg(target_arch = "wasm32")]
pub(crate) use load::check;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use load::model_name;
pub(crate) use load::{describe, open_empty, open_session};
pub use progress::{Phase, Progress};
pub use recover::{Device, DeviceEvent, Listener};
pub use request::{
    AdapterInfo, Delta, Event, FinishReason, Generation, GenerationCounters, Info, LoadOptions, MemoryInfo, ModelInfo, Overflow, Prompt, Request, Scored,
    SelfTestInfo, TokenLogprobs,
};
pub use signal::Signal;
pub use stops::StopScanner;
