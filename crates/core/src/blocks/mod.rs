//! Everything that knows a block's bits: the types of a checkpoint ([`DType`]) and of the GPU ([`WeightType`]),
//! decoding, quantizing, and repacking from one to the other.
//!
//! A matrix on the GPU is `[N, K]`, row-major, cut along K into blocks of 32 that are numbered `row * KB + kb`,
//! `KB = ceil(K / 32)`; short rows are padded with zeros. Quants and scales live in arrays of their own (`wq`, `ws`),
//! since GGUF's blocks are misaligned for a GPU.

mod codebook;
pub mod decode;
mod dequantize;
mod dtype;
mod quantize;
mod repack;
mod weight_type;

pub use codebook::transcode;
pub use dequantize::{dequantize, dequantizes};
pub use dtype::DType;
pub use quantize::quantize;
pub use repack::{Packed, repack, row_bytes, unpack};
pub use weight_type::{BLOCK, WeightType};
