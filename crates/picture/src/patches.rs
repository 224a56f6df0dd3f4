//! A crop's pixels as rows of numbers, one for each patch.

use crate::{Error, Picture, Result};

/// The order of numbers inside a patch. A wrong one gives fluent nonsense, not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// `[row][column][channel]`: linear patch embeddings of Hugging Face (LFM2-VL, Gemma 4).
    RowColumnChannel,
    /// `[channel][row][column]`: convolutions (Qwen, SmolVLM), and all patch embeddings in GGUF files.
    ChannelRowColumn,
}

/// The order of a crop's patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PatchOrder {
    /// Row by row.
    Raster,
    /// Blocks of this many patches a side, row by row, and row by row in each block: what a merger joins is
    /// consecutive.
    Merged(u32),
}

/// What becomes of a byte.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Normalize {
    /// `(byte / 255 - mean) / std` of each channel, computed as `(byte - 255 mean) / (255 std)` in f32.
    MeanStd { mean: [f32; 3], std: [f32; 3] },
    /// `2 (byte / 255 - 0.5)`, in this order in f32.
    Doubled,
}

impl Normalize {
    /// For each channel what becomes of each byte.
    pub fn numbers(self) -> [[f32; 256]; 3] {
        std::array::from_fn(|channel| {
            std::array::from_fn(|byte| {
                let byte = byte as f32;
                match self {
                    Self::MeanStd { mean, std } => (byte - mean[channel] * 255.0) / (std[channel] * 255.0),
                    Self::Doubled => 2.0 * (byte * (1.0 / 255.0) - 0.5),
                }
            })
        })
    }
}

/// The order in which the patches of a grid of `wide` x `high` stand, as indices into raster order. Also the order of
/// the rows of a table of positions.
///
/// # Errors
/// A grid that is not whole blocks.
pub fn patch_order(wide: u32, high: u32, order: PatchOrder) -> Result<Vec<usize>> {
    let block = match order {
        PatchOrder::Raster => 1,
        PatchOrder::Merged(block) => block,
    };
    if block == 0 || !wide.is_multiple_of(block) || !high.is_multiple_of(block) {
        return Err(Error::NotWhole { width: wide, height: high, block });
    }
    let (wide, high, block) = (wide as usize, high as usize, block as usize);
    let mut order = Vec::with_capacity(wide * high);
    for top in (0..high).step_by(block) {
        for left in (0..wide).step_by(block) {
            for row in top..top + block {
                order.extend((left..left + block).map(|column| row * wide + column));
            }
        }
    }
    Ok(order)
}

/// The patches of `crop`, `[n][size * size * 3]`.
///
/// # Errors
/// Sides of the crop that are not whole patches, or not whole blocks of patches.
pub fn patches(
    crop: &Picture,
    size: u32,
    order: PatchOrder,
    element: Element,
    normalize: Normalize,
) -> Result<Vec<f32>> {
    let (width, height) = (crop.width(), crop.height());
    if size == 0 || !width.is_multiple_of(size) || !height.is_multiple_of(size) {
        return Err(Error::NotWhole { width, height, block: size });
    }
    let numbers = normalize.numbers();
    let wide = (width / size) as usize;
    let size_in_pixels = size as usize;
    let mut out = Vec::with_capacity(crop.pixels().len());
    for patch in patch_order(width / size, height / size, order)? {
        let (top, left) = (patch / wide * size_in_pixels, patch % wide * size_in_pixels);
        let rows = (top..top + size_in_pixels).map(|y| &crop.row(y)[left * 3..(left + size_in_pixels) * 3]);
        match element {
            Element::RowColumnChannel => {
                for row in rows {
                    out.extend(
                        row.chunks_exact(3)
                            .flat_map(|pixel| [0, 1, 2].map(|channel| numbers[channel][usize::from(pixel[channel])])),
                    );
                }
            }
            Element::ChannelRowColumn => {
                for (channel, numbers) in numbers.iter().enumerate() {
                    for row in rows.clone() {
                        out.extend(row.chunks_exact(3).map(|pixel| numbers[usize::from(pixel[channel])]));
                    }
                }
            }
        }
    }
    Ok(out)
}
