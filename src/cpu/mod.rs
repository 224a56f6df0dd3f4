//! The twins: for each kernel the same operation in plain loops that accumulate in f64, with the same binding names and
//! the same overrides. A twin does a whole dispatch; a plan runs on the GPU or through them, step by step.

mod activate;
mod advance;
mod attention;
mod attention_prefill;
mod constrain;
mod conv;
mod delta;
mod embed;
mod qk_norm;
mod kv;
mod logit_stats;
mod logprobs;
mod merge;
mod norm;
mod penalize;
mod pick;
mod product;
pub(crate) mod quantize;
mod random;
mod rope;
mod route;
#[cfg(feature = "toy")]
mod running_sum;
pub(crate) mod sampling;
mod stream_read;
pub(crate) mod threshold;

use std::cell::{Ref, RefCell, RefMut};

use bytemuck::Pod;

use crate::error::{Error, Result};
use crate::kernels::{State, Variant};

/// A twin. It may panic where the call breaks the kernel's contract (a missing override, a buffer too short): plans are
/// made here, not read from outside.
type Twin = fn(&Call);

/// Kernel -> twin.
const TWINS: &[(&str, Twin)] = &[
    ("embed", embed::run),
    ("norm", norm::run),
    ("matvec", product::matvec),
    ("norm_matvec", product::norm_matvec),
    ("gated_matvec", product::gated_matvec),
    ("norm_gated", product::norm_gated),
    ("matvec_rows", product::matmul),
    ("matmul", product::matmul),
    ("matmul_subgroup", product::matmul_subgroup),
    ("route", route::run),
    ("experts_gated", product::experts_gated),
    ("experts_down", product::experts_down),
    ("quantize", quantize::run),
    ("activate", activate::run),
    ("qk_norm", qk_norm::run),
    ("rope", rope::run),
    ("attention", attention::run),
    ("merge", merge::run),
    ("attention_prefill", attention_prefill::run),
    ("short_conv", conv::short),
    ("conv_keep", conv::keep),
    ("delta_step", delta::step),
    ("delta_conv", delta::conv),
    ("delta_intra", delta::intra),
    ("delta_scan", delta::scan),
    ("gated_norm", norm::gated),
    ("logit_stats", logit_stats::run),
    ("tally", threshold::tally),
    ("narrow", threshold::narrow),
    ("threshold", threshold::run),
    ("pick", pick::run),
    ("advance", advance::run),
    ("constrain", constrain::run),
    ("penalize", penalize::run),
    ("logprobs", logprobs::run),
    ("logprobs_append", logprobs::append),
    ("stream_read", stream_read::run),
    ("random", random::run),
    #[cfg(feature = "toy")]
    ("running_sum", running_sum::run),
];

/// One dispatch: what the GPU gets, with buffers as words on the host.
pub struct Call<'a> {
    pub variant: &'static Variant,
    pub overrides: &'a [(&'static str, f64)],
    /// Workgroups.
    pub grid: [u32; 3],
    /// Binding name -> words. Two bindings may share one buffer only where both read.
    pub buffers: &'a [(&'static str, &'a RefCell<Vec<u32>>)],
}

impl Call<'_> {
    /// An override's value, its default where it is not given.
    pub fn f64(&self, name: &str) -> f64 {
        let given = self.overrides.iter().find(|o| o.0 == name).map(|o| o.1);
        let default = || self.variant.overrides.iter().find(|o| o.name == name).and_then(|o| o.default);
        given.or_else(default).unwrap_or_else(|| panic!("{}: no override {name}", self.variant))
    }

    /// The workgroup that looks at number `i` of many: runs as long as a workgroup are dealt out in turn.
    pub fn slice(&self, i: usize) -> usize {
        i / self.variant.workgroup[0] as usize % self.grid[0] as usize
    }

    /// An override of type u32.
    pub fn u32(&self, name: &str) -> u32 {
        self.f64(name) as u32
    }

    /// An override of type u32, to index with.
    pub fn usize(&self, name: &str) -> usize {
        self.f64(name) as usize
    }

    /// The same of an override that not every kernel of a family has; 0 where it is missing.
    pub fn given(&self, name: &str) -> usize {
        self.overrides.iter().find(|o| o.0 == name).map_or(0, |o| o.1 as usize)
    }

    /// An override of type f32, as rounded for the GPU.
    pub fn f32(&self, name: &str) -> f32 {
        self.f64(name) as f32
    }

    /// The variant's value of an axis.
    pub fn axis(&self, name: &str) -> &'static str {
        self.variant.axis(name).unwrap_or_else(|| panic!("{}: no axis {name}", self.variant))
    }

    /// The words of a binding.
    pub fn read(&self, name: &str) -> Ref<'_, Vec<u32>> {
        self.buffer(name).borrow()
    }

    /// The words of a binding, to write.
    pub fn write(&self, name: &str) -> RefMut<'_, Vec<u32>> {
        self.buffer(name).borrow_mut()
    }

    /// The elements of a binding.
    pub fn view<T: Pod>(&self, name: &str) -> Ref<'_, [T]> {
        Ref::map(self.read(name), |words| bytemuck::cast_slice(words))
    }

    /// The elements of a binding, to write.
    pub fn view_mut<T: Pod>(&self, name: &str) -> RefMut<'_, [T]> {
        RefMut::map(self.write(name), |words| bytemuck::cast_slice_mut(words))
    }

    /// The state.
    pub fn state(&self) -> State {
        State::from_words(&self.read("state")).unwrap_or_else(|| panic!("{}: the state is {} bytes", self.variant, State::BYTES))
    }

    /// The scales of a weight: empty for types without any.
    pub fn scales(&self) -> Vec<u32> {
        if self.variant.binding("ws").is_some() { self.read("ws").clone() } else { Vec::new() }
    }

    fn buffer(&self, name: &str) -> &RefCell<Vec<u32>> {
        self.buffers.iter().find(|b| b.0 == name).map(|b| b.1).unwrap_or_else(|| panic!("{}: no buffer {name}", self.variant))
    }
}

/// Runs the kernel's twin.
///
/// # Errors
/// [`crate::ErrorKind::Internal`] where the kernel has no twin, a buffer is missing or overrides are wrong.
pub fn run(call: &Call) -> Result<()> {
    let Some((_, twin)) = TWINS.iter().find(|t| t.0 == call.variant.kernel) else {
        return Err(Error::internal(format!("kernel {} has no twin", call.variant.kernel)));
    };
    call.variant.check_overrides(call.overrides)?;
    if let Some(b) = call.variant.bindings.iter().find(|b| call.buffers.iter().all(|given| given.0 != b.name)) {
        return Err(Error::internal(format!("{}: buffer {} is not given", call.variant, b.name)));
    }
    // The flag that every kernel returns on, so in one place; `advance` goes on, to mark the slots after the end.
    if call.state().done == 0 || call.variant.kernel == "advance" {
        twin(call);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::TWINS;
    use crate::kernels::kernels;

    #[test]
    fn every_kernel_has_a_twin_and_every_twin_a_kernel() {
        let twins: Vec<&str> = TWINS.iter().map(|t| t.0).collect();
        assert_eq!(kernels(), twins, "variants.toml and TWINS list the same kernels in the same order");
    }
}
