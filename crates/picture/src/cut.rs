//! How a picture is cut, and the pixels of the crops.

use std::rc::Rc;

use crate::{Error, Picture, Resampler, Result};

/// What a picture of one size becomes: known before any pixel is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The picture's width and height in pixels.
    pub size: (u32, u32),
    /// What crops are taken from; a later one may be made from an earlier one.
    pub canvases: Vec<Canvas>,
    /// In the order in which the prompt has them.
    pub crops: Vec<Crop>,
    /// Tiles side by side and one below the other; 0 and 0 of a picture that has none.
    pub tiles: (u32, u32),
}

/// A resized picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Canvas {
    /// The canvas that it is made from, by its index; none means the picture itself.
    pub from: Option<usize>,
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
}

/// What the encoder reads at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crop {
    pub place: Place,
    /// An index into [`Cut::canvases`].
    pub canvas: usize,
    /// The upper left corner on the canvas, in pixels.
    pub x: u32,
    pub y: u32,
    /// In pixels.
    pub width: u32,
    pub height: u32,
    /// The grid, in patches.
    pub wide: u32,
    pub high: u32,
    /// Rows of the prompt: what the projector gives.
    pub prompt_rows: u32,
}

/// What of the picture a crop shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// All of it, and there is no other crop.
    Whole,
    /// A tile; rows and columns count from 0.
    Tile { row: u32, column: u32 },
    /// All of it, beside the tiles.
    Thumbnail,
}

impl Crop {
    /// Patches in the grid.
    pub fn patches(&self) -> usize {
        self.wide as usize * self.high as usize
    }
}

/// How patches become rows of the prompt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    /// Pixels a patch, along a side.
    pub patch: u32,
    /// Patches a row of the prompt, along a side.
    pub merge: u32,
}

impl Grid {
    /// Pixels a row of the prompt, along a side.
    pub fn block(self) -> u32 {
        self.patch * self.merge
    }

    /// A crop whose sides are whole blocks.
    pub fn crop(self, place: Place, canvas: usize, (x, y): (u32, u32), (width, height): (u32, u32)) -> Crop {
        let prompt_rows = (width / self.block()) * (height / self.block());
        Crop { place, canvas, x, y, width, height, wide: width / self.patch, high: height / self.patch, prompt_rows }
    }
}

impl Cut {
    /// A cut whose one crop is the whole picture at `to` pixels.
    pub(crate) fn whole(size: (u32, u32), to: (u32, u32), grid: Grid) -> Self {
        let canvases = vec![Canvas { from: None, width: to.0, height: to.1 }];
        Self { size, canvases, crops: vec![grid.crop(Place::Whole, 0, (0, 0), to)], tiles: (0, 0) }
    }

    /// The tiles of `side` pixels that the canvas has, row by row.
    pub(crate) fn tiles_of(canvas: usize, (columns, rows): (u32, u32), side: u32, grid: Grid) -> Vec<Crop> {
        let tile =
            |row, column| grid.crop(Place::Tile { row, column }, canvas, (column * side, row * side), (side, side));
        (0..rows).flat_map(|row| (0..columns).map(move |column| tile(row, column))).collect()
    }

    /// Rows of the prompt, of all crops; texts between them not counted.
    pub fn prompt_rows(&self) -> u64 {
        self.crops.iter().map(|crop| u64::from(crop.prompt_rows)).sum()
    }

    /// The pixels of each crop, in the order of [`Self::crops`]: the picture itself where a crop is all of it, at its
    /// own size.
    ///
    /// # Errors
    /// A picture of another size than the cut's; a canvas of more than [`Picture::MAX_PIXELS`].
    pub fn crops_of(&self, picture: &Rc<Picture>, resampler: Resampler) -> Result<Vec<Rc<Picture>>> {
        let (width, height) = self.size;
        let is_of = |picture: &Picture, width, height| (picture.width(), picture.height()) == (width, height);
        if (picture.width(), picture.height()) != self.size {
            return Err(Error::OtherSize { width, height, got_width: picture.width(), got_height: picture.height() });
        }
        let mut canvases: Vec<Rc<Picture>> = Vec::with_capacity(self.canvases.len());
        for canvas in &self.canvases {
            let from = canvas.from.and_then(|index| canvases.get(index)).unwrap_or(picture);
            canvases.push(if is_of(from, canvas.width, canvas.height) {
                from.clone()
            } else {
                Rc::new(resampler.resize(from, canvas.width, canvas.height)?)
            });
        }
        let crops = self.crops.iter().map(|&Crop { canvas, x, y, width, height, .. }| {
            let canvas = &canvases[canvas];
            Ok::<_, Error>(if is_of(canvas, width, height) && (x, y) == (0, 0) {
                canvas.clone()
            } else {
                Rc::new(canvas.part(x, y, width, height)?)
            })
        });
        crops.collect()
    }
}
