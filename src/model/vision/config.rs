//! Sizes and constants of a tower and its projector.

use std::fmt::Write as _;

use millrace_picture::{Cut, Place as CropPlace, TableResize};

use crate::model::config::{ModelConfig, NormKind, PictureAttention};
use crate::model::decoder::{NormWeights, norm_of};
use crate::plan::{Activation, Norm, PatchShape};

/// Sizes and constants of a tower and its projector.
#[derive(Debug, Clone)]
pub struct VisionConfig {
    /// The tower's layers; its name is the projector's kind, by GGUF's name.
    pub tower: ModelConfig,
    /// Side of a patch, pixels.
    pub patch: usize,
    /// Rows and columns of the table of positions.
    pub positions: [usize; 2],
    /// Patches of a side that become one row of a prompt.
    pub merge: usize,
    /// How they become one row.
    pub joining: Joining,
    /// Width of what a product makes of joined rows before the projector's; `None` where there is no such product.
    pub merged: Option<usize>,
    /// Width of what stands between the projector's products; `None` where it is one.
    pub hidden: Option<usize>,
    /// Width within a gated network behind the projector's first product, in place of its second one; what that product
    /// makes is normed before. `None` where there is no such network.
    pub gated: Option<usize>,
    /// Width of the language model that the rows are for.
    pub width: usize,
    /// What is between the projector's products.
    pub activation: Activation,
    /// The norm of what the projector reads, where there is one.
    pub norm: Option<ProjectorNorm>,
    /// Whether rows that are means have a bias subtracted and are scaled, by numbers of the file.
    pub standardised: bool,
    /// Whether the numbers of a patch come channel by channel (convolutions, and all of llama.cpp's files), and not
    /// pixel by pixel.
    pub by_channel: bool,
    /// How often each channel of a patch is there: films have more than one frame, and a picture is equal ones.
    pub frames: usize,
    /// Whether the frames' weights are two tensors.
    pub apart: bool,
    /// How a picture's positions are made of the table.
    pub table: Table,
    /// Layers behind which features have a projector of their own; the language model adds what they make to a
    /// picture's rows, behind its first layers.
    pub deepstack: Vec<usize>,
    /// How rows of one picture attend to each other in the language model, where its own file does not tell.
    pub picture_attention: Option<PictureAttention>,
    /// Whether a picture's rows are a grid on the axes of the language model's positions.
    pub grid: bool,
    /// Whether all products of layers read and give numbers between limits; with `false` those that files have limits
    /// of. `None`: no product does.
    pub limited: Option<bool>,
    /// The preprocessing of pictures.
    pub pictures: millrace_picture::Family,
    /// The tokens that stand for pictures.
    pub words: Words,
}

impl VisionConfig {
    /// A tower over patches of `patch` pixels a side, with a table of `positions`, for a language model that is `width`
    /// wide. Each patch becomes a row, by one product without a norm; patches are given channel by channel, and the
    /// table is fitted to a picture's grid.
    pub(super) fn of(
        tower: ModelConfig,
        [patch, width]: [usize; 2],
        positions: [usize; 2],
        pictures: millrace_picture::Family,
        words: Words,
    ) -> Self {
        Self {
            activation: tower.mlp.activation,
            tower,
            patch,
            positions,
            merge: 1,
            joining: Joining::Wide,
            merged: None,
            hidden: None,
            gated: None,
            width,
            norm: None,
            standardised: false,
            by_channel: true,
            frames: 1,
            apart: false,
            table: Table::Resized(TableResize::Antialiased),
            deepstack: Vec::new(),
            picture_attention: None,
            grid: false,
            limited: None,
            pictures,
            words,
        }
    }

    /// How a patch's pixels become its numbers.
    pub fn patch_shape(&self) -> PatchShape {
        PatchShape { side: self.patch, frames: self.frames, by_channel: self.by_channel }
    }

    /// Numbers of a patch.
    pub fn pixels(&self) -> usize {
        self.patch_shape().numbers()
    }

    /// Columns of the table of positions that pictures have.
    pub fn columns(&self) -> usize {
        let [_, columns] = self.positions;
        match self.table {
            Table::Resized(_) | Table::Paired | Table::None => columns,
            // The longest picture has one row of squares.
            Table::Added => columns.min(self.tower.context as usize / self.merge),
        }
    }

    /// Numbers of a row of a prompt: what takes the embedding's place, and what is added behind layers.
    pub fn row(&self) -> usize {
        self.width * (1 + self.deepstack.len())
    }
}

/// A norm of what the projector reads.
#[derive(Debug, Clone, Copy)]
pub struct ProjectorNorm {
    pub kind: NormKind,
    pub eps: f64,
    /// What is added to the file's weights.
    pub offset: f32,
    /// Whether each patch is normed by itself, before patches become rows.
    pub each: bool,
}

impl ProjectorNorm {
    /// A LayerNorm of rows.
    pub(super) fn layer(eps: f64) -> Self {
        Self { kind: NormKind::Layer, eps, offset: 0.0, each: false }
    }

    /// By its weights.
    pub(super) fn of(&self, tower: &ModelConfig, weights: &NormWeights) -> Norm {
        let center = self.kind == NormKind::Layer;
        Norm { eps: self.eps, center, ..norm_of(tower, "projector_norm".into(), weights) }
    }
}

/// How patches of a square become one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joining {
    /// Side by side.
    Wide,
    /// The first numbers of all side by side, then the second ones, and so on.
    Interleaved,
    /// Their mean.
    Mean,
}

/// How the positions of a picture's patches are made of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// It is fitted to the picture's grid.
    Resized(TableResize),
    /// Its first row is of columns, its second one of rows; each patch has the sum of both.
    Added,
    /// As `Added`, with rows for columns and for rows interleaved.
    Paired,
    /// There is none: positions are rotations alone.
    None,
}

/// The tokens around a picture's rows, by name.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    pub start: &'static str,
    /// What stands for each row.
    pub row: &'static str,
    /// What does where a vocabulary has no such token.
    pub otherwise: Option<&'static str>,
    pub end: &'static str,
    /// What stands before the rows of a tile and of the thumbnail, where pictures are cut.
    pub tile: fn(CropPlace) -> String,
    /// What the chat template prints for a picture where it has to see pictures as parts of their own type: SmolVLM's
    /// has a space before a first part that is a text, PaddleOCR-VL's puts pictures before texts.
    pub printed: Option<&'static str>,
}

impl Words {
    /// Those of pictures that are not cut: what stands before the rows, for each of them, and behind them.
    pub(super) const fn of_whole([start, row, end]: [&'static str; 3]) -> Self {
        Self { start, row, otherwise: None, end, tile: |_| String::new(), printed: None }
    }

    /// The names of the tokens that stand for a picture, each crop's rows as one.
    pub fn of(&self, cut: &Cut) -> String {
        let mut words = String::from(self.start);
        for crop in &cut.crops {
            _ = write!(words, "{}{}", (self.tile)(crop.place), self.row);
        }
        words + self.end
    }
}
