//! Millrace runs large language models on the GPU, in a web page or natively.
//!
//! The modules stand in the order in which the data flows:
//!
//! ```text
//! source  ->  format  ->  store  ->  weights  ->  model  ->  plan  ->  decode  ->  sample  ->  stream
//! bytes by     GGUF,       OPFS       GPU-ready    one file    list of   prefill,    on the     deltas, stops,
//! range, url,  safetensors shards,    blocks,      an archi-   steps as  step loop,  GPU        finish reason,
//! file, memory             manifest   repacked     tecture     data      KV cache              cancel
//! ```

pub mod error;

pub mod source;
pub mod format;
pub mod store;
pub mod weights;
pub mod model;
pub mod plan;
pub mod kernels;
pub mod gpu;
pub mod cpu;
pub mod decode;
pub mod sample;
pub mod text;
pub mod stream;
pub mod bench;
#[cfg(not(target_arch = "wasm32"))]
pub mod convert;
#[cfg(target_arch = "wasm32")]
pub mod web;

pub use error::{Error, ErrorKind, Result};
pub use stream::{Engine, LoadOptions, Request};
