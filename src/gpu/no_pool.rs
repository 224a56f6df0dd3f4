//! Devices end with their [`Gpu`]: only in tests, which open hundreds, are they kept; see `pool.rs`.

use super::device::{Gpu, GpuOptions};
use super::pipeline::{Compiled, PipelineKey};

/// What a [`Gpu`] keeps for the loads after it: nothing.
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
