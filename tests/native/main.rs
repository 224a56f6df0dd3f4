//! The native tests, in one binary: it links once.

mod bench;
mod bisect;
mod box_model;
mod builder;
mod calls;
mod common;
mod conversation;
mod decode_loop;
mod device_lost;
mod documents;
mod families;
mod format;
mod fuzz;
mod grammar;
#[cfg(feature = "lab")]
mod kernels;
mod long_context;
mod memory;
mod options;
mod parity;
mod penalties;
mod plans;
mod quantize;
mod quants;
mod rooms;
mod sampler;
mod self_test;
mod shards;
#[cfg(feature = "toy")]
mod states;
mod templates;
mod tokenizer;
mod toolchain;
mod tuner;
