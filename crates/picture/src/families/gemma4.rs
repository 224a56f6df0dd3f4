//! Gemma 4: one crop, as large as a budget of prompt rows lets it be.

use serde_json::{Map, Value};

use crate::config::Config;
use crate::cut::{Cut, Grid};
use crate::{Error, Filter, Resampler, Result, Weights};

/// The parameters of preprocessor_config.json, or of `image_processor` in processor_config.json.
#[derive(Debug, Clone, PartialEq)]
pub struct Gemma4 {
    /// The most prompt rows: one of [`Self::BUDGETS`].
    pub max_soft_tokens: u32,
    /// Pixels a patch, along a side.
    pub patch_size: u32,
    /// Patches a prompt row, along a side.
    pub pooling_kernel_size: u32,
    /// Whether numbers of 0 to 1 become those of -1 to 1.
    pub doubled: bool,
    pub resampler: Resampler,
}

impl Default for Gemma4 {
    fn default() -> Self {
        let resampler = Resampler { filter: Filter::Bicubic, weights: Weights::Bits16 };
        Self { max_soft_tokens: 280, patch_size: 16, pooling_kernel_size: 3, doubled: true, resampler }
    }
}

impl Gemma4 {
    /// The budgets that the model was trained with.
    pub const BUDGETS: [u32; 5] = [70, 140, 280, 560, 1120];

    /// From the object of preprocessor_config.json; what it does not say is as by default.
    ///
    /// # Errors
    /// Values of other types, out of range, or that ask for what is not implemented.
    pub fn from_config(config: &Map<String, Value>) -> Result<Self> {
        let (config, default) = (Config(config), Self::default());
        config.refuse_others(&["do_resize", "do_rescale"])?;
        if config.flag("do_normalize", false)? {
            return Err(Error::config("do_normalize", "is true: only false is implemented"));
        }
        let read = Self {
            max_soft_tokens: config.whole("max_soft_tokens", 1, default.max_soft_tokens)?,
            patch_size: config.whole("patch_size", 1, default.patch_size)?,
            pooling_kernel_size: config.whole("pooling_kernel_size", 1, default.pooling_kernel_size)?,
            resampler: Resampler { filter: config.filter(default.resampler.filter)?, ..default.resampler },
            ..default
        };
        read.check()?;
        Ok(read)
    }

    /// Refuses what cannot be computed with.
    fn check(&self) -> Result<()> {
        if !Self::BUDGETS.contains(&self.max_soft_tokens) {
            return Err(Error::config(
                "max_soft_tokens",
                format!("is {}, not one of {:?}", self.max_soft_tokens, Self::BUDGETS),
            ));
        }
        if self.patch_size == 0 || self.patch_size > 1 << 10 {
            return Err(Error::config("patch_size", "is not within 1 and 1024"));
        }
        if self.pooling_kernel_size == 0 || self.pooling_kernel_size > 1 << 6 {
            return Err(Error::config("pooling_kernel_size", "is not within 1 and 64"));
        }
        Ok(())
    }

    /// How a picture of this size is cut.
    pub(crate) fn cut(&self, width: u32, height: u32) -> Result<Cut> {
        self.check()?;
        let grid = Grid { patch: self.patch_size, merge: self.pooling_kernel_size };
        let (w, h) = (f64::from(width), f64::from(height));
        let block = f64::from(grid.block());
        let patches = u64::from(self.max_soft_tokens) * u64::from(grid.merge).pow(2);
        // At most 1120 * 64^2 * 1024^2: exact in f64.
        let most = patches as f64 * f64::from(grid.patch).powi(2);
        let factor = (most / (w * h)).sqrt();
        let blocks = |side: f64| (factor * side / block).floor();
        // A side of less than a block gets one, and the other side as many as the aspect ratio, or the budget, has.
        let (wide, high) = match (blocks(w), blocks(h)) {
            (0.0, 0.0) => return Err(Error::TooFewPatches { width, height, patches }),
            (_, 0.0) => ((w / h).floor().min(f64::from(self.max_soft_tokens)), 1.0),
            (0.0, _) => (1.0, (h / w).floor().min(f64::from(self.max_soft_tokens))),
            both => both,
        };
        if wide < 1.0 || high < 1.0 || wide * high > f64::from(self.max_soft_tokens) {
            return Err(Error::TooFewPatches { width, height, patches });
        }
        // At most 1120 blocks of 2^16 pixels.
        Ok(Cut::whole((width, height), ((wide * block) as u32, (high * block) as u32), grid))
    }
}
