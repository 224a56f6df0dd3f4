//! Prefill and the decode loop. A step is planned once and re-encoded per token; the next token's id never leaves the
//! GPU between two steps; the host records ahead and reads token ids one chunk late.

mod adapters;
mod bisect;
mod chunk;
mod drafter;
mod in_flight;
mod needs;
mod pool;
mod prefill;
mod profile;
mod program;
mod prompt;
mod random;
mod rebuild;
mod reference;
mod session;
mod speculate;
mod steps;
mod tiles;
mod tune;
mod turn;
pub mod twins;
mod warm;

pub use bisect::Compared;
pub use chunk::MOST as RING;
pub use drafter::DRAFTS;
pub use pool::Text;
#[cfg(feature = "lab")]
pub use pool::widen_below;
pub use profile::{KernelRow, PrefillRow, ProfileRow, RowsTime, Use};
#[cfg(test)]
pub(crate) use program::build_plan;
pub use program::build_plans;
pub use rebuild::Decided;
pub use reference::TwinSession;
pub(crate) use session::most_beside;
#[cfg(feature = "lab")]
pub use session::move_in_stages_of;
pub use session::{SelfTest, Session};
pub use speculate::Speculate;
#[cfg(feature = "lab")]
pub use speculate::draft_with_gaps;
pub use tiles::{Tile, TilePatches, TileSizes};
pub use tune::{BUDGET_MS, Tuned};
pub use turn::{Extras, Logprobs, MOST_TOGETHER, Outcome, Pace, Progress, STATE_COPIES, Stretch, Timings, Turn};
