//! Resizing of pictures, byte for byte as Pillow and PyTorch do it.
//!
//! Both use the same separable filters, widened by the factor when shrinking: a pass along the rows, rounded to bytes,
//! then one along the columns. They differ in how many bits a weight has. What is rounded where follows Pillow's
//! `src/libImaging/Resample.c` and PyTorch's `aten/src/ATen/native/cpu/UpSampleKernel.cpp`.

use std::f64::consts::PI;

use crate::{Picture, Result};

/// What a pixel of the result is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Filter {
    /// A triangle of one pixel to each side.
    Bilinear,
    /// Cubic convolution with a = -0.5, of two pixels to each side.
    Bicubic,
    /// A sinc windowed by a sinc, of three pixels to each side.
    Lanczos3,
}

/// How weights are rounded. Measured on 2,570 pictures, 3e8 bytes: bilinear results differ in 0.14 % of the bytes, by
/// one step; bicubic ones in 0.5 %, by two steps at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Weights {
    /// 22 bits behind the point, as Pillow up to 12.1 has them; later versions make some tall pictures smaller along
    /// their columns first.
    Bits22,
    /// As many bits as let the largest weight of a pass fit into 16 with its sign, as PyTorch has them for bytes on
    /// x86-64, which torchvision and the image processors of transformers use there.
    Bits16,
}

/// How pictures are resized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Resampler {
    pub filter: Filter,
    pub weights: Weights,
}

impl Filter {
    /// Pixels to each side that count, at the size of the original.
    fn support(self) -> f64 {
        match self {
            Self::Bilinear => 1.0,
            Self::Bicubic => 2.0,
            Self::Lanczos3 => 3.0,
        }
    }

    /// The weight at a distance of `x` pixels, before the weights are made to sum up to 1.
    fn at(self, x: f64) -> f64 {
        match self {
            Self::Bilinear => (1.0 - x.abs()).max(0.0),
            Self::Bicubic => {
                const A: f64 = -0.5;
                let x = x.abs();
                if x < 1.0 {
                    ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
                } else if x < 2.0 {
                    (((x - 5.0) * x + 8.0) * x - 4.0) * A
                } else {
                    0.0
                }
            }
            Self::Lanczos3 if (-3.0..3.0).contains(&x) => sinc(x) * sinc(x / 3.0),
            Self::Lanczos3 => 0.0,
        }
    }
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { (x * PI).sin() / (x * PI) }
}

/// The taps of one pass: for each pixel of the result the first pixel that counts and the weights from there on.
struct Taps {
    /// For each pixel of the result: the first pixel, and where its weights begin and end.
    spans: Vec<(usize, usize, usize)>,
    weights: Vec<i32>,
    /// Bits of a weight behind the point.
    bits: u32,
}

impl Taps {
    /// From `from` pixels to `to`, both at least 1.
    fn new(from: u32, to: u32, resampler: Resampler) -> Self {
        let scale = f64::from(from) / f64::from(to);
        let stretch = scale.max(1.0);
        let support = resampler.filter.support() * stretch;
        let narrow = 1.0 / stretch;
        let mut spans = Vec::with_capacity(to as usize);
        let mut exact: Vec<f64> = Vec::new();
        for pixel in 0..to {
            let center = (f64::from(pixel) + 0.5) * scale;
            // Truncation to integers, as the references have it; below zero it saturates.
            let first = (center - support + 0.5) as u32;
            let end = ((center + support + 0.5) as u32).min(from);
            let begin = exact.len();
            exact.extend((first..end).map(|x| resampler.filter.at((f64::from(x) - center + 0.5) * narrow)));
            let sum: f64 = exact[begin..].iter().sum();
            if sum != 0.0 {
                exact[begin..].iter_mut().for_each(|weight| *weight /= sum);
            }
            spans.push((first as usize, begin, exact.len()));
        }
        let bits = match resampler.weights {
            Weights::Bits22 => 22,
            Weights::Bits16 => {
                let largest = exact.iter().copied().fold(0.0, f64::max);
                (0..22).find(|&bits| (0.5 + largest * f64::from(1 << (bits + 1))) as i32 >= 1 << 15).unwrap_or(22)
            }
        };
        // Away from zero at a half; a weight is at most about 1, so 22 bits and a sign fit.
        let weights =
            exact.iter().map(|weight| (weight * f64::from(1 << bits) + 0.5_f64.copysign(*weight)) as i32).collect();
        Self { spans, weights, bits }
    }

    /// The pixels that count for any pixel of the result, from the first to before the last.
    fn range(&self) -> (usize, usize) {
        let first = self.spans.first().map_or(0, |span| span.0);
        let end = self.spans.last().map_or(0, |span| span.0 + span.2 - span.1);
        (first, end)
    }

    /// A sum of weighted bytes as a byte.
    fn byte(&self, sum: i32) -> u8 {
        (sum >> self.bits).clamp(0, 255) as u8
    }

    /// What sums begin with, so that [`Self::byte`] rounds.
    fn half(&self) -> i32 {
        1 << (self.bits - 1)
    }
}

/// `picture` at `width` x `height` pixels, with Pillow's arithmetic: [`Weights::Bits22`].
///
/// # Errors
/// A side of 0, or more than [`Picture::MAX_PIXELS`].
pub fn resize(picture: &Picture, width: u32, height: u32, filter: Filter) -> Result<Picture> {
    Resampler { filter, weights: Weights::Bits22 }.resize(picture, width, height)
}

impl Picture {
    /// The picture with no side longer than `side` pixels, made smaller where one is; its key then says so.
    ///
    /// # Errors
    /// As [`resize`].
    pub fn within(self, side: u32) -> Result<Self> {
        let longest = self.width().max(self.height());
        if longest <= side {
            return Ok(self);
        }
        let scaled = |pixels: u32| ((f64::from(pixels) * f64::from(side) / f64::from(longest)).round() as u32).max(1);
        let smaller = resize(&self, scaled(self.width()), scaled(self.height()), Filter::Bicubic)?;
        Ok(match self.key() {
            Some(key) => smaller.with_key(format!("{key} within {side}")),
            None => smaller,
        })
    }
}

impl Resampler {
    /// `picture` at `width` x `height` pixels. Nothing is computed along a side that stays as it is.
    ///
    /// # Errors
    /// A side of 0, or more than [`Picture::MAX_PIXELS`].
    pub fn resize(self, picture: &Picture, width: u32, height: u32) -> Result<Picture> {
        Picture::checked_size(width, height)?;
        let vertical = (height != picture.height()).then(|| Taps::new(picture.height(), height, self));
        // Only the rows that count are made narrower or wider.
        let (first, end) = vertical.as_ref().map_or((0, picture.height() as usize), Taps::range);
        let rows = if width == picture.width() {
            picture.pixels()[first * width as usize * 3..end * width as usize * 3].to_vec()
        } else {
            along_rows(picture, first, end, width, &Taps::new(picture.width(), width, self))
        };
        let pixels = match vertical {
            Some(taps) => along_columns(&rows, width as usize * 3, first, &taps),
            None => rows,
        };
        Ok(Picture::made(pixels, width, height))
    }
}

/// Rows whose pixels are made narrower or wider at once: their bytes stand side by side, so that a compiler finds vectors.
const SIDE_BY_SIDE: usize = 16;

/// The rows `first` to before `end` of the picture, each at `width` pixels: `[end - first][width][3]`.
fn along_rows(picture: &Picture, first: usize, end: usize, width: u32, taps: &Taps) -> Vec<u8> {
    let (wide, bytes) = (picture.width() as usize, width as usize * 3);
    let mut out = vec![0; (end - first) * bytes];
    // `[pixel][row]`, three bytes each.
    let mut columns = vec![[[0_u8; 3]; SIDE_BY_SIDE]; wide];
    let mut sums = [[0_i32; 3]; SIDE_BY_SIDE];
    for (block, out) in out.chunks_mut(SIDE_BY_SIDE * bytes).enumerate() {
        let rows = out.len() / bytes;
        for row in 0..rows {
            let pixels = picture.row(first + block * SIDE_BY_SIDE + row).as_chunks().0;
            columns.iter_mut().zip(pixels).for_each(|(column, pixel)| column[row] = *pixel);
        }
        for (to, &(from, begin, end)) in taps.spans.iter().enumerate() {
            sums.fill([taps.half(); 3]);
            for (column, &weight) in columns[from..].iter().zip(&taps.weights[begin..end]) {
                for (sum, &byte) in sums.as_flattened_mut().iter_mut().zip(column.as_flattened()) {
                    *sum += i32::from(byte) * weight;
                }
            }
            for (row, sum) in sums.iter().take(rows).enumerate() {
                out[row * bytes + to * 3..][..3].copy_from_slice(&sum.map(|sum| taps.byte(sum)));
            }
        }
    }
    out
}

/// Rows of `bytes` bytes, of which the first is the picture's row `first`, combined to one row for each span of `taps`.
fn along_columns(rows: &[u8], bytes: usize, first: usize, taps: &Taps) -> Vec<u8> {
    let mut out = Vec::with_capacity(taps.spans.len() * bytes);
    let mut sums = vec![0_i32; bytes];
    for &(from, begin, end) in &taps.spans {
        sums.fill(taps.half());
        for (row, &weight) in rows[(from - first) * bytes..].chunks_exact(bytes).zip(&taps.weights[begin..end]) {
            for (sum, &byte) in sums.iter_mut().zip(row) {
                *sum += i32::from(byte) * weight;
            }
        }
        out.extend(sums.iter().map(|&sum| taps.byte(sum)));
    }
    out
}
