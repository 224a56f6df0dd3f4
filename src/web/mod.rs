//! The browser: the only place that knows JavaScript. It runs in a dedicated Worker, where OPFS can be read and written
//! at once.
//!
//! Everything here translates between the engine's traits and what the browser offers; nothing of it decides about
//! models.

mod abort;
mod bindings;
mod blob;
mod errors;
mod fetch;
mod grammar;
mod load;
mod lock;
mod log;
mod models;
mod opfs;
mod options;
mod panic;
mod plan;
mod tuning;

pub use bindings::{WasmEngine, kernel_check};
pub use blob::{BlobSource, Blobs};
pub use errors::{from_js, to_js};
pub use fetch::FetchTransport;
pub use models::WasmControl;
pub use opfs::Opfs;

#[cfg(test)]
mod tests;
#[cfg(test)]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_dedicated_worker);
