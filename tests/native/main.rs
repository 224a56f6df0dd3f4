//! The native tests, in one binary: it links once.

mod adapters;
mod arriving;
mod bench;
mod bisect;
mod box_model;
mod builder;
mod call_families;
mod call_grammars;
mod calls;
mod common;
mod company;
mod conversation;
mod decode_loop;
mod device_lost;
mod documents;
mod embed;
mod examine;
mod families;
mod format;
mod fuzz;
mod grammar;
mod guard;
#[cfg(feature = "lab")]
mod kernels;
mod lane;
mod long_calls;
mod long_context;
mod memory;
mod options;
mod parity;
mod penalties;
mod plans;
mod published;
mod quantize;
mod quants;
mod rooms;
mod sampler;
mod self_test;
mod shards;
mod speculate;
#[cfg(feature = "toy")]
mod states;
mod templates;
mod tokenizer;
mod toolchain;
mod tuner;
