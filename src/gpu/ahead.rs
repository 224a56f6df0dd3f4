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
        if recipes.len() < 2 {
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
