//! LFM2-VL: one crop of 64 to 256 prompt rows, or tiles of 512 pixels and a thumbnail.

use serde_json::{Map, Value};

use crate::config::{Config, multiple};
use crate::cut::{Canvas, Cut, Grid, Place};
use crate::{Error, Filter, Resampler, Result, Weights};

/// The parameters of preprocessor_config.json.
#[derive(Debug, Clone, PartialEq)]
pub struct Lfm2Vl {
    /// Pixels a tile, along a side; whole prompt rows.
    pub tile_size: u32,
    /// The fewest tiles of a picture that is cut.
    pub min_tiles: u32,
    /// The most.
    pub max_tiles: u32,
    /// A picture with fewer prompt rows is enlarged.
    pub min_image_tokens: u32,
    /// A picture with more prompt rows is made smaller.
    pub max_image_tokens: u32,
    /// A picture is cut if it has more than this times `max_image_tokens`.
    pub max_pixels_tolerance: f64,
    /// Pixels a patch, along a side.
    pub patch_size: u32,
    /// Patches a prompt row, along a side.
    pub downsample_factor: u32,
    /// Whether the whole picture comes after its tiles.
    pub use_thumbnail: bool,
    /// Whether large pictures are cut.
    pub do_image_splitting: bool,
    pub mean: [f32; 3],
    pub std: [f32; 3],
    pub resampler: Resampler,
}

impl Default for Lfm2Vl {
    fn default() -> Self {
        Self {
            tile_size: 512,
            min_tiles: 2,
            max_tiles: 10,
            min_image_tokens: 64,
            max_image_tokens: 256,
            max_pixels_tolerance: 2.0,
            patch_size: 16,
            downsample_factor: 2,
            use_thumbnail: true,
            do_image_splitting: true,
            mean: [0.5; 3],
            std: [0.5; 3],
            resampler: Resampler { filter: Filter::Bilinear, weights: Weights::Bits16 },
        }
    }
}

impl Lfm2Vl {
    /// From the object of preprocessor_config.json; what it does not say is as by default.
    ///
    /// # Errors
    /// Values of other types, out of range, or that ask for what is not implemented.
    pub fn from_config(config: &Map<String, Value>) -> Result<Self> {
        let (config, default) = (Config(config), Self::default());
        config.refuse_others(&["do_resize", "do_rescale", "do_normalize"])?;
        let read = Self {
            tile_size: config.whole("tile_size", 1, default.tile_size)?,
            min_tiles: config.whole("min_tiles", 1, default.min_tiles)?,
            max_tiles: config.whole("max_tiles", 1, default.max_tiles)?,
            min_image_tokens: config.whole("min_image_tokens", 1, default.min_image_tokens)?,
            max_image_tokens: config.whole("max_image_tokens", 1, default.max_image_tokens)?,
            max_pixels_tolerance: config.number("max_pixels_tolerance", default.max_pixels_tolerance)?,
            patch_size: config.whole("encoder_patch_size", 1, default.patch_size)?,
            downsample_factor: config.whole("downsample_factor", 1, default.downsample_factor)?,
            use_thumbnail: config.flag("use_thumbnail", default.use_thumbnail)?,
            do_image_splitting: config.flag("do_image_splitting", default.do_image_splitting)?,
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
            return Err(Error::config("encoder_patch_size", "is not within 1 and 1024"));
        }
        if self.downsample_factor == 0 || self.downsample_factor > 1 << 6 {
            return Err(Error::config("downsample_factor", "is not within 1 and 64"));
        }
        if self.min_tiles == 0 || self.max_tiles < self.min_tiles || self.max_tiles > 1 << 10 {
            return Err(Error::config("max_tiles", "is less than min_tiles, or more than 1024"));
        }
        if self.min_image_tokens == 0
            || self.max_image_tokens < self.min_image_tokens
            || self.max_image_tokens > 1 << 20
        {
            return Err(Error::config(
                "max_image_tokens",
                "is less than min_image_tokens, or more than 1048576, or min_image_tokens is 0",
            ));
        }
        if self.tile_size > 1 << 14 {
            return Err(Error::config("tile_size", "is more than 16384"));
        }
        multiple("tile_size", self.tile_size, self.grid().block())
    }

    fn grid(&self) -> Grid {
        Grid { patch: self.patch_size, merge: self.downsample_factor }
    }

    /// How a picture of this size is cut.
    pub(crate) fn cut(&self, width: u32, height: u32) -> Result<Cut> {
        self.check()?;
        let size = (width, height);
        let whole = self.fitted(width, height)?;
        let splits = self.do_image_splitting && (self.min_tiles, self.max_tiles) != (1, 1);
        if !splits || !self.is_large(width, height) {
            return Ok(Cut::whole(size, whole, self.grid()));
        }
        let (columns, rows) = self.tiles(width, height);
        let side = self.tile_size;
        let mut cut = Cut::whole(size, (columns * side, rows * side), self.grid());
        if (columns, rows) == (1, 1) {
            return Ok(cut);
        }
        cut.tiles = (columns, rows);
        cut.crops = Cut::tiles_of(0, cut.tiles, side, self.grid());
        if self.use_thumbnail {
            let thumbnail = self.grid().crop(Place::Thumbnail, 1, (0, 0), whole);
            // The reference pads all crops to as many patches, and fails on a thumbnail that has more.
            let most = (u64::from(self.max_image_tokens) * u64::from(self.downsample_factor).pow(2))
                .max(u64::from(side / self.patch_size).pow(2));
            if thumbnail.patches() as u64 > most {
                return Err(Error::TooNarrow { width, height });
            }
            cut.canvases.push(Canvas { from: None, width: whole.0, height: whole.1 });
            cut.crops.push(thumbnail);
        }
        Ok(cut)
    }

    /// Pixels of `tokens` prompt rows.
    fn pixels(&self, tokens: u32) -> f64 {
        f64::from(tokens) * f64::from(self.grid().block()).powi(2)
    }

    /// Whether a picture is cut rather than made smaller.
    fn is_large(&self, width: u32, height: u32) -> bool {
        let block = f64::from(self.grid().block());
        // Of one patch at least, where fitted() has one block.
        let rounded = |side: u32| ((f64::from(side) / block).round_ties_even() * block).max(f64::from(self.patch_size));
        rounded(width) * rounded(height) > self.pixels(self.max_image_tokens) * self.max_pixels_tolerance
    }

    /// The size in whole blocks that has as many prompt rows as are allowed, as far as a block at least to each side
    /// lets it.
    fn fitted(&self, width: u32, height: u32) -> Result<(u32, u32)> {
        let block = f64::from(self.grid().block());
        let (w, h) = (f64::from(width), f64::from(height));
        let rounded = |side: f64| ((side / block).round_ties_even() * block).max(block);
        let (least, most) = (self.pixels(self.min_image_tokens), self.pixels(self.max_image_tokens));
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
        // A picture of 1e8 x 1 gets wider still.
        let side = |side: f64| {
            if side <= f64::from(u32::MAX) { Ok(side as u32) } else { Err(Error::TooNarrow { width, height }) }
        };
        Ok((side(w)?, side(h)?))
    }

    /// Tiles side by side and one below the other: of all grids with as many tiles as are allowed the one whose aspect
    /// ratio is nearest. Of equally near ones a later, larger one, if the picture has more than half of its pixels.
    fn tiles(&self, width: u32, height: u32) -> (u32, u32) {
        let ratio = f64::from(width) / f64::from(height);
        let area = f64::from(width) * f64::from(height);
        let (mut best, mut nearest) = ((1, 1), f64::INFINITY);
        for tiles in self.min_tiles..=self.max_tiles {
            for columns in (1..=tiles).filter(|columns| tiles.is_multiple_of(*columns)) {
                let rows = tiles / columns;
                let distance = (ratio - f64::from(columns) / f64::from(rows)).abs();
                let half = 0.5 * f64::from(self.tile_size).powi(2) * f64::from(tiles);
                if distance < nearest {
                    (best, nearest) = ((columns, rows), distance);
                } else if distance == nearest && area > half {
                    best = (columns, rows);
                }
            }
        }
        best
    }
}
