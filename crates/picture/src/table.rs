//! Tables of learned positions, fitted to another grid.

use crate::{Error, Result};

/// How a table is fitted. All are bilinear, and all follow the references in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TableResize {
    /// `F.interpolate(mode="bilinear", align_corners=False, antialias=True)` of PyTorch: the middles of cells lie on
    /// each other, and the triangle gets wider when the grid shrinks. SigLIP 2 with free aspect ratios, LFM2-VL. (To a
    /// grid of one column PyTorch 2.11 gives something else, which is no interpolation; no family has one.)
    Antialiased,
    /// The corners lie on each other, and the triangle stays one cell wide: Qwen3-VL and Qwen3.5.
    AlignedCorners,
    /// As `Antialiased` without `antialias`: the triangle stays one cell wide. PaddleOCR-VL.
    AlignedMiddles,
}

/// What one cell of the result is made of along one side: cells of the table and their weights.
type Taps = Vec<(usize, f32)>;

/// `table`, `[height][width][depth]`, at `[to_height][to_width][depth]`.
///
/// # Errors
/// A side of 0, or a length of `table` other than its shape.
pub fn resize_table(
    table: &[f32],
    height: usize,
    width: usize,
    depth: usize,
    to_height: usize,
    to_width: usize,
    how: TableResize,
) -> Result<Vec<f32>> {
    let whole = height.checked_mul(width).and_then(|cells| cells.checked_mul(depth)) == Some(table.len());
    let fits = to_height.checked_mul(to_width).and_then(|cells| cells.checked_mul(depth)).is_some();
    if !whole || !fits || table.is_empty() || to_height == 0 || to_width == 0 {
        return Err(Error::Table { values: table.len(), height, width, depth, to_height, to_width });
    }
    let taps = match how {
        TableResize::Antialiased => antialiased,
        TableResize::AlignedCorners => aligned_corners,
        TableResize::AlignedMiddles => aligned_middles,
    };
    let (rows, columns) = (taps(height, to_height), taps(width, to_width));
    // [height][to_width][depth]
    let mut narrow = Vec::with_capacity(height * to_width * depth);
    for row in table.chunks_exact(width * depth) {
        for taps in &columns {
            add_weighted(&mut narrow, row, depth, taps);
        }
    }
    let mut out = Vec::with_capacity(to_height * to_width * depth);
    for taps in &rows {
        add_weighted(&mut out, &narrow, to_width * depth, taps);
    }
    Ok(out)
}

/// Appends the weighted sum of those pieces of `from`, `[..][size]`, that the taps name.
fn add_weighted(out: &mut Vec<f32>, from: &[f32], size: usize, taps: &Taps) {
    let begin = out.len();
    out.resize(begin + size, 0.0);
    for &(cell, weight) in taps {
        for (sum, value) in out[begin..].iter_mut().zip(&from[cell * size..]) {
            *sum += weight * value;
        }
    }
}

/// The taps for each of `to` cells, from a side of `from` cells; what is f32 and what f64 is as in PyTorch's
/// `_compute_weights_aa`.
fn antialiased(from: usize, to: usize) -> Vec<Taps> {
    let scale = from as f32 / to as f32;
    let support = scale.max(1.0);
    let narrow = 1.0 / support;
    let cells = |cell: usize| {
        let center = (f64::from(scale) * (cell as f64 + 0.5)) as f32;
        // Truncated; below zero it saturates.
        let first = (f64::from(center - support) + 0.5) as usize;
        let end = ((f64::from(center + support) + 0.5) as usize).min(from);
        let at = |x: usize| ((f64::from(x as f32 - center) + 0.5) * f64::from(narrow)) as f32;
        let mut taps: Taps = (first..end).map(|x| (x, (1.0 - at(x).abs()).max(0.0))).collect();
        let sum: f32 = taps.iter().map(|tap| tap.1).sum();
        taps.iter_mut().for_each(|tap| tap.1 /= sum);
        taps
    };
    (0..to).map(cells).collect()
}

/// The two taps for each of `to` cells, from a side of `from` cells.
fn aligned_corners(from: usize, to: usize) -> Vec<Taps> {
    (0..to).map(|cell| two_taps(cell as f32 * (from - 1) as f32 / (to - 1).max(1) as f32, from)).collect()
}

/// The two taps for each of `to` cells, from a side of `from` cells. Beyond the outermost middles there is their cell
/// alone.
fn aligned_middles(from: usize, to: usize) -> Vec<Taps> {
    let scale = from as f32 / to as f32;
    (0..to).map(|cell| two_taps((scale * (cell as f32 + 0.5) - 0.5).max(0.0), from)).collect()
}

/// The cells on both sides of a place, within a side of `from` cells.
fn two_taps(at: f32, from: usize) -> Taps {
    let part = at - at.floor();
    let first = at.floor() as usize;
    vec![(first, 1.0 - part), ((first + 1).min(from - 1), part)]
}
