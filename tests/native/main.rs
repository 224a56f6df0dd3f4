//! The native tests, in one binary: it links once.

mod builder;
mod common;
mod format;
mod fuzz;
mod memory;
mod templates;
mod tokenizer;
