//! The floor of Millrace: its errors, and everything that knows a block's bits.
//!
//! A crate of its own, because Cargo chooses what to optimise for by the crate: converting weights is to be fast, while
//! of the rest a download's size matters more.

pub mod blocks;
pub mod error;

pub use error::{Error, ErrorKind, Result};
