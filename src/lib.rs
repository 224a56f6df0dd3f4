//! Millrace runs large language models on the GPU, in a web page or natively.
//!
//! The modules are listed in the order of their dependencies: each imports only from modules above it, which a test
//! checks (tests/native/rooms.rs). Data flows in this order:
//!
//! ```text
//! source  ->  format  ->  store  ->  weights  ->  model  ->  plan  ->  decode  ->  sample  ->  engine
//! bytes by     GGUF,       OPFS       GPU-ready    one file    list of   prefill,    on the     deltas, stops,
//! range, url,  safetensors shards,    blocks,      an archi-   steps as  step loop,  GPU        finish reason,
//! file, memory             manifest   repacked     tecture     data      state                  cancel
//! ```

pub use millrace_core::error;
pub use millrace_picture as picture;

pub mod base;
pub mod source;
pub use millrace_core::blocks;
pub mod format;
pub mod store;
pub mod text;
pub mod grammar;
pub mod sample;
pub mod kernels;
pub mod gpu;
pub mod layout;
pub mod weights;
pub mod plan;
pub mod model;
pub mod cpu;
pub mod check;
pub mod state;
pub mod decode;
pub mod engine;
#[cfg(not(target_arch = "wasm32"))]
pub mod native;
pub mod bench;
#[cfg(not(target_arch = "wasm32"))]
pub mod convert;
#[cfg(target_arch = "wasm32")]
pub mod web;

pub use engine::{Engine, LoadOptions, Request};
pub use error::{Error, ErrorKind, Result};
