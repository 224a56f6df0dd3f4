//! Numbers that shaders and Rust share, from `[numbers]` of shaders/variants.toml.

include!(concat!(env!("OUT_DIR"), "/numbers.rs"));
