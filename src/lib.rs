//! Millrace runs large language models on the GPU, in a web page or natively.
//!
//! The modules stand in the order in which the data flows:
//!
//! ```text
//! source -> format -> store -> weights -> model -> plan -> decode -> sample -> stream
//! ```

pub mod error;

pub mod source;
pub mod format;
pub mod store;
pub mod text;
pub mod kernels;
pub mod cpu;
pub mod stream;
pub mod sample;
#[cfg(target_arch = "wasm32")]
pub mod web;

pub use error::{Error, ErrorKind, Result};
