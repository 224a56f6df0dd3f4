//! Qwen3-VL and Qwen3.5: one crop, in patches of 16 pixels that are joined by 2 x 2.

use serde_json::{Map, Value};

use crate::config::Config;
use crate::cut::{Cut, Grid};
use crate::{Error, Filter, Resampler, Result, Weights};

/// The parameters of preprocessor_config.json. The defaults are those of published files, not of the processor's class.
#[derive(Debug, Clone, PartialEq)]
pub struct QwenVl {
    /// The fewest pixels after resizing (`size.shortest_edge`, an area despite its name).
    pub min_pixels: u32,
    /// The most (`size.longest_edge`).
    pub max_pixels: u32,
    /// Pixels a patch, along a side.
    pub patch_size: u32,
    /// Patches a prompt row, along a side.
    pub merge_size: u32,
    pub mean: [f32; 3],
    pub std: [f32; 3],
    pub resampler: Resampler,
}

/// How many times as long as wide a picture may be.
const MAX_ASPECT_RATIO: f64 = 200.0;

impl Default for QwenVl {
    fn default() -> Self {
        Self {
            min_pixels: 1 << 16,
            max_pixels: 1 << 24,
            patch_size: 16,
            merge_size: 2,
            mean: [0.5; 3],
            std: [0.5; 3],
            resampler: Resampler { filter: Filter::Bicubic, weights: Weights::Bits16 },
        }
    }
}

impl QwenVl {
    /// From the object of preprocessor_config.json; what it does not say is as by default.
    ///
    /// # Errors
    /// Values of other types, out of range, or that ask for what is not implemented.
    pub fn from_config(config: &Map<String, Value>) -> Result<Self> {
        let (config, default) = (Config(config), Self::default());
        config.refuse_others(&["do_resize", "do_rescale", "do_normalize"])?;
        let min_pixels = config.whole_in("size", "shortest_edge", default.min_pixels)?;
        let max_pixels = config.whole_in("size", "longest_edge", default.max_pixels)?;
        let read = Self {
            // Older files have these.
            min_pixels: config.whole("min_pixels", 1, min_pixels)?,
            max_pixels: config.whole("max_pixels", 1, max_pixels)?,
            patch_size: config.whole("patch_size", 1, default.patch_size)?,
            merge_size: config.whole("merge_size", 1, default.merge_size)?,
            mean: config.channels("image_mean", default.mean)?,
            std: config.channels("image_std", default.std)?,
            resampler: Resampler { filter: config.filter(default.resampler.filter)?, ..default.resampler },
        };
        read.check()?;
        Ok(read)
    }

    /// Refuses what cannot be computed with.
    fn check(&self) -> Result<()> {
        if self.patch_size == 0 || self.patch_size > 1 << 10 {
            return Err(Error::config("patch_size", "is not within 1 and 1024"));
        }
        if self.merge_size == 0 || self.merge_size > 1 << 6 {
            return Err(Error::config("merge_size", "is not within 1 and 64"));
        }
        if self.min_pixels == 0 || self.max_pixels < self.min_pixels || self.max_pixels > 1 << 30 {
            return Err(Error::config(
                "size",
                "has a longest_edge below its shortest_edge, or above 2^30, or one of 0",
            ));
        }
        Ok(())
    }

    /// How a picture of this size is cut.
    pub(crate) fn cut(&self, width: u32, height: u32) -> Result<Cut> {
        self.check()?;
        let (w, h) = (f64::from(width), f64::from(height));
        if w.max(h) / w.min(h) > MAX_ASPECT_RATIO {
            return Err(Error::TooNarrow { width, height });
        }
        let grid = Grid { patch: self.patch_size, merge: self.merge_size };
        let block = f64::from(grid.block());
        let rounded = |side: f64| (side / block).round_ties_even() * block;
        let (least, most) = (f64::from(self.min_pixels), f64::from(self.max_pixels));
        let area = rounded(w) * rounded(h);
        let (w, h) = if area > most {
            let beta = (h * w / most).sqrt();
            let down = |side: f64| ((side / beta / block).floor() * block).max(block);
            (down(w), down(h))
        } else if area < least {
            let beta = (least / (h * w)).sqrt();
            let up = |side: f64| (side * beta / block).ceil() * block;
            (up(w), up(h))
        } else {
            (rounded(w), rounded(h))
        };
        if w == 0.0 || h == 0.0 {
            // Only with a min_pixels of less than a block.
            return Err(Error::TooFewPatches {
                width,
                height,
                patches: u64::from(self.min_pixels) / u64::from(grid.patch).pow(2),
            });
        }
        // At most 200 to 1, and at most about 2^30 pixels: far below 2^32 a side.
        Ok(Cut::whole((width, height), (w as u32, h as u32), grid))
    }
}
