//! Weights on the GPU: which types the kernels read, how a checkpoint's bytes are repacked for them, and where they
//! lie.
//!
//! A matrix is `[N, K]`, row-major, cut along K into blocks of 32 that are numbered `row * KB + kb`,
//! `KB = ceil(K / 32)`; short rows are padded with zeros. Quants and scales live in arrays of their own (`wq`, `ws`),
//! since GGUF's blocks are misaligned for a GPU.

mod load;
mod matrix;
mod recipe;

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use load::transpose;
pub use load::{LoadTimes, Sink, bytes_to_read, encode, load};
pub(crate) use matrix::nothing_to_quantize;
pub use matrix::{Conversion, Matrix, Part, RowSlice, VectorPart, VectorSource, conversions, expect, note_conversions};
pub use recipe::Recipe;
