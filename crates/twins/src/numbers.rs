//! Numbers that shaders and Rust share.

include!(concat!(env!("OUT_DIR"), "/numbers.rs"));
