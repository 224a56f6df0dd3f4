//! Prefill and the decode loop. A step is planned once and re-encoded per token; the next token's id never leaves the GPU between two steps;
//! the host records ahead and reads token ids one chunk late.

mod bisect;
mod chunk;
mod generate;
mod prefill;
mod profile;
mod random;
mod rebuild;
mod reference;
mod session;
mod tune;
pub mod twins;

pub use bisect::Compared;
pub use chunk::MOST as RING;
pub use generate::{Extras, Logprobs, Outcome, Progress, Run, STATE_COPIES, Timings};
pub use profile::{KernelRow, PrefillRow, ProfileRow, RowsTime, Use};
pub use rebuild::Decided;
pub use reference::TwinSession;
pub use session::{SelfTest, Session, build_plans};
pub use tune::{BUDGET_MS, Tuned};
