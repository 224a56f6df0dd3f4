//! What layers remember of a sequence: how keys and values are held, and the shapes of buffers.

use serde::{Deserialize, Serialize};

use super::Sizes;
use crate::base::numbers::FEW_ROWS;
use crate::blocks::BLOCK;
use crate::error::{Error, Result};

/// How the cache holds keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kv {
    /// f32.
    F32,
    /// Halves, two in a word.
    F16,
    /// int8, with an f32 scale for each 32 of a head.
    Q8,
}

impl Kv {
    /// The type of that name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "f32" => Ok(Self::F32),
            "f16" => Ok(Self::F16),
            "q8" => Ok(Self::Q8),
            other => Err(Error::bad_option(format!("kv {other:?} does not exist; use f32, f16 or q8"))),
        }
    }

    /// Its name, and the value of the `kv` axis.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Q8 => "q8",
        }
    }

    /// The buffers of a layer's cache, by their bindings, and the bytes of what they hold of a head of `e` elements at
    /// a position.
    pub fn buffers(self, e: usize) -> Vec<(&'static str, u64)> {
        let (eight, block) = (e.next_multiple_of(8) as u64, e.next_multiple_of(BLOCK) as u64);
        match self {
            Self::F32 => vec![("kc", eight * 4), ("vc", eight * 4)],
            Self::F16 => vec![("kc", eight * 2), ("vc", eight * 2)],
            Self::Q8 => {
                vec![("kc", block), ("vc", block), ("ks", block / BLOCK as u64 * 4), ("vs", block / BLOCK as u64 * 4)]
            }
        }
    }
}

/// What one buffer holds of a sequence, of which each has a slot in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateShape {
    /// Rows that grow with the text: keys or values.
    Rows(Rows),
    /// A recurrent state: of fixed size, changed by every token. It cannot be cut back.
    Recurrent {
        /// Bytes of one sequence; a multiple of 16.
        bytes: u64,
    },
}

/// `[heads][positions]` rows, position p in slot p % positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// Key/value heads.
    pub heads: u32,
    /// Positions that it holds.
    pub positions: u32,
    /// Bytes of a row: what one head has of one position.
    pub row: u64,
    /// Positions that the model needs at one time; `None`: all.
    pub window: Option<u32>,
}

impl Rows {
    /// Positions that a cache of `sizes` holds for a layer with a window: the window's and those of a pass, or of a
    /// step with drafts, beside it.
    pub(crate) fn positions(sizes: Sizes, window: Option<u32>) -> u32 {
        window.map_or(sizes.capacity, |w| {
            w.saturating_add(sizes.rows.max(FEW_ROWS)).next_multiple_of(64).min(sizes.capacity)
        })
    }

    /// Bytes of one sequence.
    pub const fn bytes(&self) -> u64 {
        self.heads as u64 * self.positions as u64 * self.row
    }

    /// Rows of a head that hold something when `n` positions from 0 on are used.
    pub const fn used(&self, n: u32) -> u32 {
        if n < self.positions { n } else { self.positions }
    }

    /// The shape of a packed copy: room for the first `n` positions only.
    pub const fn cut(self, n: u32) -> Self {
        Self { positions: self.used(n), ..self }
    }
}

impl StateShape {
    /// Bytes of one sequence.
    pub const fn bytes(&self) -> u64 {
        match self {
            Self::Rows(rows) => rows.bytes(),
            Self::Recurrent { bytes } => *bytes,
        }
    }

    /// The shape in buffers of other `sizes`.
    pub(crate) fn grown(self, sizes: Sizes) -> Self {
        match self {
            Self::Rows(rows) => Self::Rows(Rows { positions: Rows::positions(sizes, rows.window), ..rows }),
            whole => whole,
        }
    }
}
