//! Pixtral's processor, as LightOnOCR has it: one crop, no longer than a longest edge, in whole rows of the prompt.

use serde_json::{Map, Value};

use crate::config::Config;
use crate::cut::{Cut, Grid};
use crate::{Error, Filter, Resampler, Result, Weights};

/// The parameters of preprocessor_config.json and, of patches, of config.json. The defaults are LightOnOCR's.
#[derive(Debug, Clone, PartialEq)]
pub struct Pixtral {
    /// The most pixels of a side (`size.longest_edge`), until sides become whole rows of the prompt.
    pub longest_edge: u32,
    /// The most rows of the prompt: pictures that would have more are made smaller. The processor has no such limit.
    pub max_rows: u32,
    /// Pixels a patch, along a side.
    pub patch_size: u32,
    /// Patches a prompt row, along a side.
    pub merge_size: u32,
    pub mean: [f32; 3],
    pub std: [f32; 3],
    pub resampler: Resampler,
}

impl Default for Pixtral {
    fn default() -> Self {
        Self {
            longest_edge: 1540,
            max_rows: u32::MAX,
            patch_size: 14,
            merge_size: 2,
            mean: [0.481_454_66, 0.457_827_5, 0.408_210_73],
            std: [0.268_629_54, 0.261_302_6, 0.275_777_1],
            resampler: Resampler { filter: Filter::Bicubic, weights: Weights::Bits16 },
        }
    }
}

impl Pixtral {
    /// With what the object of preprocessor_config.json says. Its `patch_size` is that of a patch or that of a row of
    /// the prompt: sides are multiples of the latter either way.
    ///
    /// # Errors
    /// Values of other types, out of range, or that ask for what is not implemented.
    pub fn with_config(self, config: &Map<String, Value>) -> Result<Self> {
        let config = Config(config);
        config.refuse_others(&["do_resize", "do_rescale", "do_normalize"])?;
        if config.flag("do_center_crop", false)? {
            return Err(Error::config("do_center_crop", "is true: only false is implemented"));
        }
        let patch = config.side("patch_size", self.patch_size)?;
        if patch != self.patch_size && patch != self.patch_size * self.merge_size {
            return Err(Error::config("patch_size", format!("is {patch}, but the model's is {}", self.patch_size)));
        }
        let read = Self {
            longest_edge: config.whole_in("size", "longest_edge", self.longest_edge)?,
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
        if self.patch_size == 0 || self.patch_size > 1 << 10 || self.merge_size == 0 || self.merge_size > 1 << 6 {
            return Err(Error::config(
                "patch_size",
                "is not within 1 and 1024, or the model's spatial_merge_size is not within 1 and 64",
            ));
        }
        if self.longest_edge == 0 || self.longest_edge > 1 << 14 {
            return Err(Error::config("size", "has a longest_edge that is not within 1 and 16384"));
        }
        if self.max_rows == 0 {
            return Err(Error::config("size", "leaves no row of the prompt"));
        }
        Ok(())
    }

    /// How a picture of this size is cut.
    pub(crate) fn cut(&self, width: u32, height: u32) -> Result<Cut> {
        self.check()?;
        let grid = Grid { patch: self.patch_size, merge: self.merge_size };
        let (block, longest) = (f64::from(grid.block()), f64::from(self.longest_edge));
        let (mut w, mut h) = (f64::from(width), f64::from(height));
        let ratio = (h / longest).max(w / longest);
        if ratio > 1.0 {
            (w, h) = ((w / ratio).floor(), (h / ratio).floor());
        }
        if w == 0.0 || h == 0.0 {
            return Err(Error::TooNarrow { width, height });
        }
        let (mut wide, mut high) = ((w / block).ceil(), (h / block).ceil());
        let most = f64::from(self.max_rows);
        if wide * high > most {
            let smaller = (w * h / most).sqrt();
            (wide, high) = ((w / smaller).floor().clamp(1.0, most), (h / smaller).floor().clamp(1.0, most));
        }
        // At most 2^14 pixels and a block of 2^16 a side.
        Ok(Cut::whole((width, height), ((wide * block) as u32, (high * block) as u32), grid))
    }
}
