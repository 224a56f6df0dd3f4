//! The twins of kernels (crates/twins), called with the variants of the kernel table.

use std::cell::RefCell;

pub use millrace_twins::{PAST_THE_END, place, quantize, sampling, threshold};

use crate::error::{Error, Result};
use crate::kernels::Variant;

/// One dispatch: what the GPU gets, with buffers as words on the host.
pub struct Call<'a> {
    pub variant: &'static Variant,
    pub overrides: &'a [(&'static str, f64)],
    /// Workgroups.
    pub grid: [u32; 3],
    /// Binding name -> words. Two bindings may share one buffer only where both read.
    pub buffers: &'a [(&'a str, &'a RefCell<Vec<u32>>)],
}

/// Runs the kernel's twin.
///
/// # Errors
/// [`crate::ErrorKind::Internal`] where the kernel has no twin, a buffer is missing or overrides are wrong.
pub fn run(call: &Call) -> Result<()> {
    let variant = call.variant;
    variant.check_overrides(call.overrides)?;
    if let Some(b) = variant.bindings.iter().find(|b| call.buffers.iter().all(|given| given.0 != b.name)) {
        return Err(Error::internal(format!("{variant}: buffer {} is not given", b.name)));
    }
    let bindings: Vec<&str> = variant.bindings.iter().map(|b| b.name).collect();
    let described = millrace_twins::Variant {
        kernel: variant.kernel,
        name: variant.name,
        axes: variant.axes,
        workgroup: variant.workgroup,
        tile: variant.tile,
        bindings: &bindings,
    };
    let overrides = variant.all_overrides(call.overrides);
    let ran = millrace_twins::run(&millrace_twins::Call {
        variant: described,
        overrides: &overrides,
        grid: call.grid,
        buffers: call.buffers,
    });
    if ran { Ok(()) } else { Err(Error::internal(format!("kernel {} has no twin", variant.kernel))) }
}

#[cfg(test)]
mod tests {
    use crate::kernels::kernels;

    #[test]
    fn every_kernel_has_a_twin_and_every_twin_a_kernel() {
        let twins: Vec<&str> = millrace_twins::kernels().collect();
        assert_eq!(kernels(), twins, "variants.toml and TWINS list the same kernels in the same order");
    }
}
