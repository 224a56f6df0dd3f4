//! Products of adapted matrices: beside `W x`, `B (A x)` of the adapter that each row has.

use indexmap::IndexMap;

use super::builder::{Operand, Operands};
use super::product::Sums;
use super::{Act, Builder, Extent, Grid, Norm, Overrides, Value};
use crate::base::numbers::FEW_ROWS;
use crate::blocks::BLOCK;
use crate::error::Result;
use crate::layout::{BufferId, Control, Scratch};
use crate::weights::Matrix;

/// What the adapters of a session add to one matrix `[N, K]`: all of them have the same room, zeros where they do not
/// touch it.
#[derive(Debug, Clone, Copy)]
pub struct Adapted {
    /// `[adapters][tensors columns, K]`: A of each tensor that the matrix is made of, in rows of whole blocks.
    pub a: BufferId,
    /// `[adapters][N, columns]`: B.
    pub b: BufferId,
    /// `[adapters][N]` of (vec4 of `A x` that belongs to the row, bits of what its sum is multiplied by).
    pub at: BufferId,
    /// Columns of B, a multiple of 4: the largest rank.
    pub columns: usize,
    /// Rows of A: columns of B for each tensor.
    pub ranks: usize,
}

/// What a session's adapters add to its matrices, by the matrices' names.
#[derive(Debug, Clone, Default)]
pub struct Adapters {
    /// The matrices.
    pub matrices: IndexMap<String, Adapted>,
    /// Whether A and B are halves rather than f32.
    pub halves: bool,
}

/// What the narrow product reads.
pub(super) enum Input<'a> {
    /// Activations as they are.
    Act(Act),
    /// The residual stream, which is normed.
    Normed(&'a Norm),
}

impl<'a> Builder<'a> {
    /// The rows of this pass may have these adapters.
    #[must_use]
    pub fn adapted(mut self, adapters: Option<&'a Adapters>) -> Self {
        self.adapters = adapters;
        self
    }

    /// What adapters add to a matrix, if they add anything.
    pub(super) fn adapts(&self, matrix: &Matrix) -> Option<(Adapted, &'static str)> {
        let adapters = self.adapters?;
        adapters.matrices.get(&matrix.name).map(|adapted| (*adapted, if adapters.halves { "f16" } else { "f32" }))
    }

    /// Adds what adapters make of a product's input to its sums, which are there already.
    pub(super) fn adapt(&mut self, matrix: &Matrix, input: Input<'_>, sums: Sums) -> Result<()> {
        let Some((adapted, weight)) = self.adapts(matrix) else { return Ok(()) };
        let Adapted { a, b, at, columns, ranks } = adapted;
        let voices = self.layout.reserve(Control::Voices, u64::from(FEW_ROWS) * 16);
        let narrow = self.scratch(Scratch::Narrow, ranks);
        let kb = matrix.kb();
        let (act, mut bindings, more): (_, Operands, Overrides) = match input {
            Input::Act(act @ (Act::F16(_) | Act::Q8(..))) => (act.axis(), act.inputs(), Vec::new()),
            Input::Act(act) => (act.axis(), [act.inputs(), vec![("nw", self.zeros.into())]].concat(), Vec::new()),
            Input::Normed(norm) => {
                let h = self.stream()?;
                let more = vec![("NORMED", 1.0), ("D", h.width as f64), ("EPS", norm.eps)];
                ("f32", vec![("x", h.h.into()), ("nw", norm.weight.into())], more)
            }
        };
        let size = if weight == "f16" { 2 } else { 4 };
        let rows = self.per_row(1);
        let chosen = self.select.choose("lora_a", &[("weight", weight), ("act", act)])?;
        bindings.extend([("wq", a.into()), ("voices", voices.into()), ("t", Operand::from(narrow))]);
        let overrides =
            [vec![("KB", kb as f64), ("RANKS", ranks as f64)], more, self.apart().into_iter().collect()].concat();
        let bytes = (ranks * kb * BLOCK * size) as u64;
        self.push(
            &format!("{}.lora_a", matrix.name),
            chosen,
            overrides,
            bindings,
            Grid::of(Extent::Fixed(ranks as u32 / 4), rows),
            bytes,
        );

        let t: Value = self.made(narrow);
        let chosen = self.select.choose("lora_b", &[("weight", weight)])?;
        let per = chosen.variant.workgroup[0];
        let sizes = [("N", matrix.n), ("COLUMNS", columns), ("RANKS", ranks), ("NSTRIDE", sums.stride)]
            .map(|(name, n)| (name, n as f64));
        let overrides = [&sizes[..], &self.apart().into_iter().collect::<Vec<_>>()].concat();
        let bindings =
            vec![("b", b.into()), ("at", at.into()), ("t", t.into()), ("voices", voices.into()), ("y", sums.y.into())];
        let grid = Grid::of(Extent::Fixed((matrix.n as u32).div_ceil(per)), rows);
        self.push(
            &format!("{}.lora_b", matrix.name),
            chosen,
            overrides,
            bindings,
            grid,
            (matrix.n * (columns * size + 8)) as u64,
        );
        Ok(())
    }
}
