//! Devices end with their [`Gpu`]; only tests, which open hundreds, keep them: see `pool.rs`.

use super::device::{Gpu, GpuOptions};
use super::pipeline::{Compiled, PipelineKey};

/// The stand-in of `pool.rs`'s `Share`: nothing is kept for later loads.
#[derive(Default)]
pub(super) struct Share;

impl Share {
    pub(super) const fn of(_: &GpuOptions) -> Self {
        Self
    }
    pub(super) const fn end(&self) {}
    pub(super) const fn find(&self, _: &PipelineKey, _: &str) -> Option<Compiled> {
        None
    }
    pub(super) fn add(&self, _: &PipelineKey, _: &str, _: Compiled) {}
}

pub(super) const fn take(_: &GpuOptions) -> Option<Gpu> {
    None
}

pub(super) const fn keep(_: &Gpu) -> bool {
    false
}
