//! A decoded picture.

use crate::{Error, Result};

/// Red, green and blue in bytes, row by row from the top, without padding: `[height][width][3]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    pixels: Vec<u8>,
    width: u32,
    height: u32,
    key: Option<String>,
}

impl Picture {
    /// The most pixels that a picture may have.
    pub const MAX_PIXELS: u64 = 100_000_000;

    /// A picture of `pixels`, `[height][width][3]`.
    ///
    /// # Errors
    /// A side of 0, more than [`Self::MAX_PIXELS`], a length other than three bytes a pixel.
    pub fn new(pixels: Vec<u8>, width: u32, height: u32) -> Result<Self> {
        let expected = 3 * Self::checked_size(width, height)? as u64;
        if pixels.len() as u64 != expected {
            return Err(Error::WrongLength { width, height, bytes: pixels.len(), expected });
        }
        Ok(Self::made(pixels, width, height))
    }

    /// A picture of `pixels` with an alpha, `[height][width][4]`, on white.
    ///
    /// # Errors
    /// As [`Self::new`], of four bytes a pixel.
    pub fn from_rgba(pixels: &[u8], width: u32, height: u32) -> Result<Self> {
        let expected = 4 * Self::checked_size(width, height)? as u64;
        if pixels.len() as u64 != expected {
            return Err(Error::WrongLength { width, height, bytes: pixels.len(), expected });
        }
        let on_white = |x: u8, alpha: u8| {
            let (x, alpha) = (u32::from(x), u32::from(alpha));
            ((x * alpha + 255 * (255 - alpha) + 127) / 255) as u8
        };
        let mut opaque = vec![0; pixels.len() / 4 * 3];
        for (opaque, &[red, green, blue, alpha]) in opaque.as_chunks_mut().0.iter_mut().zip(pixels.as_chunks().0) {
            *opaque = [red, green, blue];
            if alpha < 255 {
                *opaque = opaque.map(|x| on_white(x, alpha));
            }
        }
        Ok(Self::made(opaque, width, height))
    }

    /// The number of pixels of a picture of this size, if there can be one; at most 1e8, so three times as many bytes
    /// fit into 32 bits.
    pub(crate) fn checked_size(width: u32, height: u32) -> Result<usize> {
        if width == 0 || height == 0 {
            return Err(Error::Empty { width, height });
        }
        let pixels = u64::from(width) * u64::from(height);
        if pixels > Self::MAX_PIXELS {
            return Err(Error::TooLarge { width, height });
        }
        Ok(pixels as usize)
    }

    /// A picture whose length is right by how it was made.
    pub(crate) fn made(pixels: Vec<u8>, width: u32, height: u32) -> Self {
        debug_assert_eq!(pixels.len(), width as usize * height as usize * 3);
        Self { pixels, width, height, key: None }
    }

    /// The picture with a key that no other picture has, so that none has to be made of its pixels.
    #[must_use]
    pub fn with_key(self, key: String) -> Self {
        Self { key: Some(key), ..self }
    }

    /// What tells the picture from all others, where it was given.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Pixels from left to right.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Pixels from top to bottom.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// `[height][width][3]`.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The bytes of the row `y`, `[width][3]`; none below the picture.
    pub(crate) fn row(&self, y: usize) -> &[u8] {
        let bytes = self.width as usize * 3;
        self.pixels.get(y * bytes..(y + 1) * bytes).unwrap_or_default()
    }

    /// The part of `width` x `height` pixels whose upper left corner is at `x`, `y`.
    ///
    /// # Errors
    /// A part that is empty or not within the picture.
    pub fn part(&self, x: u32, y: u32, width: u32, height: u32) -> Result<Self> {
        let pixels = Self::checked_size(width, height)?;
        let fits = |from: u32, size: u32, side: u32| from.checked_add(size).is_some_and(|end| end <= side);
        if !fits(x, width, self.width) || !fits(y, height, self.height) {
            return Err(Error::Outside { x, y, width, height, of_width: self.width, of_height: self.height });
        }
        let mut part = Vec::with_capacity(pixels * 3);
        let (left, bytes) = (x as usize * 3, width as usize * 3);
        for row in y..y + height {
            part.extend_from_slice(&self.row(row as usize)[left..left + bytes]);
        }
        Ok(Self::made(part, width, height))
    }
}
