//! Pipelines that are compiled several at a time before they are bound: a driver takes 20 to 300 ms for each, on one
//! core.

use super::device::{Gpu, On};
use super::pipeline::{PipelineKey, Recipe};
use super::platform;
use crate::kernels::Variant;

impl Gpu {
    /// Compiles variants with their overrides, several at a time where the platform can: binding them then waits for
    /// nothing. Variants that the device refuses are left out; [`Gpu::bind`] returns the error.
    pub async fn compile_ahead<'a>(&self, wanted: impl Iterator<Item = (&'static Variant, &'a [(&'static str, f64)])>) {
        let On::Gpu(device, _) = &self.on else { return };
        let mut recipes: Vec<(PipelineKey, Recipe)> = Vec::new();
        for (variant, overrides) in wanted {
            let key = PipelineKey::new(variant, overrides);
            if self.pipelines.borrow().contains_key(&key) || recipes.iter().any(|(other, _)| *other == key) {
                continue;
            }
            if let Ok(recipe) = self.recipe(variant, overrides)
                && self.shared(&key, &recipe).is_none()
            {
                recipes.push((key, recipe));
            }
        }
        if recipes.is_empty() {
            return;
        }
        let made = platform::compile_all(device, recipes.iter().map(|(_, recipe)| recipe), self.caps()).await;
        for ((key, recipe), made) in recipes.into_iter().zip(made) {
            if let Some(made) = made {
                self.keep(key, &recipe, made);
            }
        }
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::gpu::GpuOptions;
    use crate::kernels;

    #[test]
    fn threads_compile_each_pipeline_once_and_leave_out_what_the_device_refuses() {
        let mut gpu = pollster::block_on(Gpu::open(&GpuOptions::default())).unwrap();
        // As a GPU whose driver has the machine's cores.
        gpu.caps.software = false;
        let simple = |variant: &&Variant| {
            variant.overrides.iter().all(|o| o.default.is_some()) && variant.lacks(&gpu.caps).is_none()
        };
        let wanted: Vec<_> = kernels::all().iter().filter(simple).collect();
        let n = wanted.len() as u64;
        assert!(n > 2);
        let count = || gpu.counters().snapshot().pipelines;
        let before = count();
        let ahead = |overrides: &'static [(&'static str, f64)]| {
            // Each is asked for twice.
            pollster::block_on(gpu.compile_ahead(wanted.iter().chain(&wanted).map(|variant| (*variant, overrides))));
        };
        ahead(&[]);
        assert_eq!(count() - before, n);
        ahead(&[]);
        assert_eq!(count() - before, n, "what is there is not compiled again");
        ahead(&[("NO_SUCH_CONSTANT", 1.0)]);
        assert_eq!(count() - before, n, "what cannot run is left out");
        gpu.check().unwrap();
    }
}
