//! Qwen3-VL and Qwen3.5: one crop, in patches of 16 pixels that are joined by 2 x 2. PaddleOCR-VL and GLM-OCR: the same
//! with patches of 14 pixels, and with other sizes of small pictures.

use serde_json::{Map, Value};

use crate::config::Config;
use crate::cut::{Cut, Grid};
use crate::{Error, Filter, Resampler, Result, Weights};

/// The parameters of preprocessor_config.json. The defaults are those of published files, not of the processor's class.
#[derive(Debug, Clone, PartialEq)]
pub struct QwenVl {
    /// The fewest pixels after resizing (`size.shortest_edge`, an area despite its name), of all frames.
    pub min_pixels: u32,
    /// The most (`size.longest_edge`).
    pub max_pixels: u32,
    /// As how many frames a picture's pixels count.
    pub frames: u32,
    /// Pixels a patch, along a side.
    pub patch_size: u32,
    /// Patches a prompt row, along a side.
    pub merge_size: u32,
    /// What becomes of a side shorter than a block before anything else.
    pub short_sides: ShortSides,
    pub mean: [f32; 3],
    pub std: [f32; 3],
    pub resampler: Resampler,
}

/// What becomes of a side shorter than a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShortSides {
    /// Nothing.
    Kept,
    /// It is made a block, and the other side longer by as much, to the nearest pixel.
    Enlarged,
    /// So are both at once, but for a part of a pixel.
    EnlargedTogether,
}

/// How many times as long as wide a picture may be.
const MAX_ASPECT_RATIO: f64 = 200.0;

impl Default for QwenVl {
    fn default() -> Self {
        Self {
            min_pixels: 1 << 16,
            max_pixels: 1 << 24,
            frames: 1,
            patch_size: 16,
            merge_size: 2,
            short_sides: ShortSides::Kept,
            mean: [0.5; 3],
            std: [0.5; 3],
            resampler: Resampler { filter: Filter::Bicubic, weights: Weights::Bits16 },
        }
    }
}

impl QwenVl {
    /// PaddleOCR-VL's, with the limits of the first one (0.9B).
    pub fn paddle_ocr() -> Self {
        Self {
            min_pixels: 147_384,
            max_pixels: 2_822_400,
            patch_size: 14,
            short_sides: ShortSides::Enlarged,
            ..Self::default()
        }
    }

    /// GLM-OCR's, with the limits that are published: a picture's pixels count twice, as those of two frames.
    pub fn glm_ocr() -> Self {
        Self {
            min_pixels: 12_544,
            max_pixels: 9_633_792,
            frames: 2,
            patch_size: 14,
            short_sides: ShortSides::EnlargedTogether,
            mean: [0.481_454_66, 0.457_827_5, 0.408_210_73],
            std: [0.268_629_54, 0.261_302_6, 0.275_777_1],
            ..Self::default()
        }
    }

    /// From the object of preprocessor_config.json; what it does not say is as by default.
    ///
    /// # Errors
    /// The errors of [`QwenVl::with_config`].
    pub fn from_config(config: &Map<String, Value>) -> Result<Self> {
        Self::default().with_config(config)
    }

    /// With what the object of preprocessor_config.json says.
    ///
    /// # Errors
    /// Values of other types, out of range, or that ask for what is not implemented.
    pub fn with_config(self, config: &Map<String, Value>) -> Result<Self> {
        let config = Config(config);
        config.refuse_others(&["do_resize", "do_rescale", "do_normalize"])?;
        // Older files have the second name, within `size` or beside it.
        let area = |names: [&'static str; 2], default| {
            let in_size = names.into_iter().try_fold(default, |area, name| config.whole_in("size", name, area))?;
            config.whole(names[1], 1, in_size)
        };
        let read = Self {
            min_pixels: area(["shortest_edge", "min_pixels"], self.min_pixels)?,
            max_pixels: area(["longest_edge", "max_pixels"], self.max_pixels)?,
            patch_size: config.whole("patch_size", 1, self.patch_size)?,
            merge_size: config.whole("merge_size", 1, self.merge_size)?,
            mean: config.channels("image_mean", self.mean)?,
            std: config.channels("image_std", self.std)?,
            resampler: Resampler { filter: config.filter(self.resampler.filter)?, ..self.resampler },
            ..self
        };
        // Of others that is how films are read.
        if read.frames != 1 && config.whole("temporal_patch_size", 1, read.frames)? != read.frames {
            return Err(Error::config("temporal_patch_size", format!("is not {}", read.frames)));
        }
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
        if self.frames == 0 || self.min_pixels == 0 || self.max_pixels < self.min_pixels || self.max_pixels > 1 << 30 {
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
        let grid = Grid { patch: self.patch_size, merge: self.merge_size };
        let block = f64::from(grid.block());
        let (mut w, mut h) = (f64::from(width), f64::from(height));
        match self.short_sides {
            ShortSides::Enlarged => {
                if h < block {
                    (w, h) = ((w * block / h).round_ties_even(), block);
                }
                if w < block {
                    (w, h) = (block, (h * block / w).round_ties_even());
                }
            }
            ShortSides::EnlargedTogether if h < block || w < block => {
                let scale = (block / h).max(block / w);
                (w, h) = ((w * scale).trunc(), (h * scale).trunc());
            }
            ShortSides::EnlargedTogether | ShortSides::Kept => {}
        }
        if w.max(h) / w.min(h) > MAX_ASPECT_RATIO {
            return Err(Error::TooNarrow { width, height });
        }
        let rounded = |side: f64| (side / block).round_ties_even() * block;
        let [least, most] = [self.min_pixels, self.max_pixels].map(|area| f64::from(area) / f64::from(self.frames));
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
                patches: u64::from(self.min_pixels / self.frames) / u64::from(grid.patch).pow(2),
            });
        }
        // At most 200 to 1, and at most about 2^30 pixels: far below 2^32 a side.
        Ok(Cut::whole((width, height), (w as u32, h as u32), grid))
    }
}
