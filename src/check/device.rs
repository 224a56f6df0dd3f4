//! The GPU as a device to check.

use super::Device;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::kernels::Variant;

impl Device for Gpu {
    fn lacks(&self, variant: &Variant) -> Option<&'static str> {
        variant.lacks(self.caps())
    }

    async fn run(
        &self,
        variant: &'static Variant,
        overrides: &[(&'static str, f64)],
        buffers: &mut [(&'static str, Vec<u32>)],
        grid: [u32; 3],
    ) -> Result<()> {
        self.run_once(variant, overrides, buffers, grid).await
    }

    fn done_with(&self, variant: &Variant) {
        // Some drivers slow down with each pipeline that is alive.
        self.forget(variant);
    }

    fn now(&self) -> f64 {
        crate::base::now_ms()
    }
}
