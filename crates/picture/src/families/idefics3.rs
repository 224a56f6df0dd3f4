//! Idefics 3, SmolVLM, Granite-Docling: square tiles of one size, and the whole picture as one more.

use serde_json::{Map, Value};

use crate::config::Config;
use crate::cut::{Canvas, Crop, Cut, Grid, Place};
use crate::{Error, Filter, Resampler, Result, Weights};

/// The parameters of preprocessor_config.json and, of patches, of config.json. The defaults are those of SmolVLM 256M
/// and 500M.
#[derive(Debug, Clone, PartialEq)]
pub struct Idefics3 {
    /// Pixels of the longer side before tiles are cut (`size.longest_edge`).
    pub longest_edge: u32,
    /// Pixels a tile, along a side (`max_image_size.longest_edge`). Those on the right and below that are no whole
    /// patch are not read.
    pub tile_size: u32,
    /// Pixels a patch, along a side.
    pub patch_size: u32,
    /// Patches a prompt row, along a side.
    pub scale_factor: u32,
    /// Whether pictures are cut.
    pub do_image_splitting: bool,
    pub mean: [f32; 3],
    pub std: [f32; 3],
    pub resampler: Resampler,
}

/// Whatever the configuration says, no side gets longer than that before tiles are cut.
const MAX_SIDE: u32 = 4096;

impl Default for Idefics3 {
    fn default() -> Self {
        Self {
            longest_edge: 2048,
            tile_size: 512,
            patch_size: 16,
            scale_factor: 4,
            do_image_splitting: true,
            mean: [0.5; 3],
            std: [0.5; 3],
            resampler: Resampler { filter: Filter::Lanczos3, weights: Weights::Bits16 },
        }
    }
}

impl Idefics3 {
    /// From the object of preprocessor_config.json; what it does not say is as by default. `patch_size` and
    /// `scale_factor` come from the model.
    ///
    /// # Errors
    /// Values of other types, out of range, or that ask for what is not implemented.
    pub fn from_config(config: &Map<String, Value>, patch_size: u32, scale_factor: u32) -> Result<Self> {
        let (config, default) = (Config(config), Self::default());
        config.refuse_others(&["do_resize", "do_rescale", "do_normalize"])?;
        let read = Self {
            longest_edge: config.whole_in("size", "longest_edge", default.longest_edge)?,
            tile_size: config.whole_in("max_image_size", "longest_edge", default.tile_size)?,
            patch_size,
            scale_factor,
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
        if self.longest_edge == 0 {
            return Err(Error::config("size", "has a longest_edge of 0"));
        }
        if self.patch_size == 0 || self.patch_size > 1 << 10 || self.scale_factor == 0 || self.scale_factor > 1 << 6 {
            return Err(Error::config(
                "patch_size",
                "is not within 1 and 1024, or the model's scale_factor is not within 1 and 64",
            ));
        }
        if self.tile_size > 1 << 14 {
            return Err(Error::config("max_image_size", "has a longest_edge above 16384"));
        }
        let side = self.tile_size / self.patch_size;
        if side == 0 || !side.is_multiple_of(self.scale_factor) {
            let (tile, patch, scale) = (self.tile_size, self.patch_size, self.scale_factor);
            return Err(Error::config(
                "max_image_size",
                format!("is {tile}: {side} patches of {patch} pixels, not a multiple of {scale}, which are a row"),
            ));
        }
        Ok(())
    }

    /// A tile that begins there.
    fn tile(&self, place: Place, canvas: usize, at: (u32, u32)) -> Crop {
        let read = self.tile_size / self.patch_size * self.patch_size;
        Grid { patch: self.patch_size, merge: self.scale_factor }.crop(place, canvas, at, (read, read))
    }

    /// How a picture of this size is cut.
    pub(crate) fn cut(&self, width: u32, height: u32) -> Result<Cut> {
        self.check()?;
        let side = self.tile_size;
        let first = self.first_size(width, height);
        // 0 < tiles: both sides are at least 1.
        let up = if self.do_image_splitting { whole_tiles(first, side) } else { (side, side) };
        let mut canvases = vec![
            Canvas { from: None, width: first.0, height: first.1 },
            Canvas { from: Some(0), width: up.0, height: up.1 },
        ];
        if up == (side, side) {
            return Ok(Cut {
                size: (width, height),
                canvases,
                crops: vec![self.tile(Place::Whole, 1, (0, 0))],
                tiles: (0, 0),
            });
        }
        let (columns, rows) = (up.0 / side, up.1 / side);
        let tile = |row, column| self.tile(Place::Tile { row, column }, 1, (column * side, row * side));
        let mut crops: Vec<Crop> =
            (0..rows).flat_map(|row| (0..columns).map(move |column| tile(row, column))).collect();
        canvases.push(Canvas { from: Some(1), width: side, height: side });
        crops.push(self.tile(Place::Thumbnail, 2, (0, 0)));
        Ok(Cut { size: (width, height), canvases, crops, tiles: (columns, rows) })
    }

    /// The size with a longer side of `longest_edge`, of [`MAX_SIDE`] at most. The other side is even, until it is made
    /// smaller a second time.
    fn first_size(&self, width: u32, height: u32) -> (u32, u32) {
        let ratio = f64::from(width) / f64::from(height);
        let even = |side: f64| (side as u32).next_multiple_of(2).max(1);
        let longest = self.longest_edge;
        let (w, h) = if width >= height {
            (longest, even(f64::from(longest) / ratio))
        } else {
            (even(f64::from(longest) * ratio), longest)
        };
        let (h, w) = (h.max(1), w.max(1));
        let ratio = f64::from(w) / f64::from(h);
        if w >= h && w > MAX_SIDE {
            (MAX_SIDE, ((f64::from(MAX_SIDE) / ratio) as u32).max(1))
        } else if h > w && h > MAX_SIDE {
            (((f64::from(MAX_SIDE) * ratio) as u32).max(1), MAX_SIDE)
        } else {
            (w, h)
        }
    }
}

/// The longer side up to whole tiles, then the other one, scaled as the longer one was, too.
fn whole_tiles((width, height): (u32, u32), side: u32) -> (u32, u32) {
    let ratio = f64::from(width) / f64::from(height);
    if width >= height {
        let width = width.next_multiple_of(side);
        (width, ((f64::from(width) / ratio) as u32).next_multiple_of(side))
    } else {
        let height = height.next_multiple_of(side);
        (((f64::from(height) * ratio) as u32).next_multiple_of(side), height)
    }
}
