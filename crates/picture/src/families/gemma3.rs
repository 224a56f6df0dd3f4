//! Gemma 3: one square of one size, whatever the picture's own.

use serde_json::{Map, Value};

use crate::config::Config;
use crate::cut::{Cut, Grid};
use crate::{Error, Filter, Resampler, Result, Weights};

/// The parameters of preprocessor_config.json, and of patches those of config.json.
#[derive(Debug, Clone, PartialEq)]
pub struct Gemma3 {
    /// Pixels of the square, along a side.
    pub side: u32,
    /// Pixels a patch, along a side.
    pub patch_size: u32,
    /// Patches a prompt row, along a side.
    pub merge: u32,
    pub mean: [f32; 3],
    pub std: [f32; 3],
    pub resampler: Resampler,
}

impl Default for Gemma3 {
    fn default() -> Self {
        let resampler = Resampler { filter: Filter::Bilinear, weights: Weights::Bits16 };
        Self { side: 896, patch_size: 14, merge: 4, mean: [0.5; 3], std: [0.5; 3], resampler }
    }
}

impl Gemma3 {
    /// What the object of preprocessor_config.json says of pixels; the sizes are the model's.
    ///
    /// # Errors
    /// Values of other types, out of range, or that ask for what is not implemented: pan and scan, another size than
    /// the model's.
    pub fn with_config(self, config: &Map<String, Value>) -> Result<Self> {
        let config = Config(config);
        config.refuse_others(&["do_resize", "do_rescale", "do_normalize"])?;
        if config.flag("do_pan_and_scan", false)? {
            return Err(Error::config("do_pan_and_scan", "is true: only false is implemented"));
        }
        let size = |side| config.whole_in("size", side, self.side);
        if (size("height")?, size("width")?) != (self.side, self.side) {
            return Err(Error::config("size", format!("is not the model's {0} x {0}", self.side)));
        }
        let read = Self {
            mean: config.channels("image_mean", self.mean)?,
            std: config.channels("image_std", self.std)?,
            resampler: Resampler { filter: config.filter(self.resampler.filter)?, ..self.resampler },
            ..self
        };
        read.check()?;
        Ok(read)
    }

    /// Refuses what cannot be computed with.
    fn check(&self) -> Result<()> {
        if self.patch_size == 0 || self.patch_size > 1 << 10 || self.merge == 0 || self.merge > 1 << 6 {
            return Err(Error::config(
                "patch_size",
                "is not within 1 and 1024, or what a row has of patches is not within 1 and 64",
            ));
        }
        if self.side == 0 || self.side > 1 << 14 || !self.side.is_multiple_of(self.patch_size * self.merge) {
            return Err(Error::config(
                "size",
                format!("is {}, not a multiple of {} up to 16384", self.side, self.patch_size * self.merge),
            ));
        }
        Ok(())
    }

    /// How a picture of this size is cut.
    pub(crate) fn cut(&self, width: u32, height: u32) -> Result<Cut> {
        self.check()?;
        Ok(Cut::whole((width, height), (self.side, self.side), Grid { patch: self.patch_size, merge: self.merge }))
    }
}
