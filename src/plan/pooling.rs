//! Passes of several texts, of which nothing is remembered: each is read alone, and becomes one row.

use super::builder::Builder;
use super::{Activation, Extent, Grid, Mlp, Norm, Stage, Value};
use crate::blocks::BLOCK;
use crate::error::Result;
use crate::kernels::State;
use crate::layout::{BufferId, Control, Scratch, stride};
use crate::weights::Matrix;

impl Builder<'_> {
    /// The pass is of several texts, whose rows see those of their own text alone: all of them, or (not `both`) those
    /// before them.
    pub fn texts(&mut self, both: bool) {
        let spans = self.layout.reserve(Control::Spans, u64::from(self.sizes.rows) * 8);
        self.spans = Some((spans, both));
    }

    /// What stands for each text, f32 `[texts, stride(D)]`: the mean of the rows that the host names. They are normed,
    /// the result where it is of one row each (`several` says otherwise). From here on there is a row for each text.
    ///
    /// `standardised`: what is subtracted from each mean, and what it is multiplied by then, `[D]` each.
    pub fn pool(&mut self, norm: Option<&Norm>, several: bool, standardised: Option<[BufferId; 2]>) -> Result<Value> {
        self.complete()?;
        let (before, behind) = if several { (norm, None) } else { (None, norm) };
        if let Some(norm) = before {
            self.renorm(norm)?;
        }
        let stream = self.stream()?;
        self.stage(Stage::Head);
        self.state = self.layout.reserve(Control::Last, State::BYTES as u64);
        let taken = self.layout.reserve(Control::Taken, u64::from(self.sizes.rows) * 8);
        let (d, row) = (stream.width, stride(stream.width));
        let to = self.scratch(if behind.is_some() { Scratch::Block } else { Scratch::Pooled }, row);
        let chosen = self.select.choose("pool", &[])?;
        let mut overrides = vec![("D", d as f64), ("STRIDE", row as f64)];
        overrides.extend(standardised.map(|_| ("STANDARDISED", 1.0)));
        let [bias, factor] = standardised.unwrap_or([self.zeros; 2]);
        let operands = vec![
            ("h", stream.h.into()),
            ("taken", taken.into()),
            ("bias", bias.into()),
            ("factor", factor.into()),
            ("y", to.into()),
        ];
        let grid =
            Grid::of(Extent::Rows { per: 1 }, Extent::Fixed((row as u32 / 4).div_ceil(chosen.variant.workgroup[0])));
        self.push("pool", chosen, overrides, operands, grid, 0);
        self.streamed(to, d);
        let Some(norm) = behind else { return Ok(self.made(to)) };
        let pooled = self.scratch(Scratch::Pooled, row);
        let h = self.stream()?.h;
        self.norm_step(norm, h, d, ("f32", vec![("y", pooled.into())]), false)?;
        Ok(self.made(pooled))
    }

    /// A product of what stands for each text, f32 `[texts, stride(N)]`, and its tanh where `tanh`. Products take turns
    /// between two buffers.
    pub fn dense(&mut self, matrix: &Matrix, tanh: bool, x: Value) -> Result<Value> {
        let first = self.layout.find(&Scratch::Pooled.into()) == Some(x.buffer);
        let x = self.given(&format!("{}_input", matrix.name), x, matrix)?;
        let row = stride(matrix.n);
        let to = self.scratch(if first { Scratch::Scores } else { Scratch::Pooled }, row);
        let y = if tanh { self.scratch(Scratch::GateUp, row) } else { to };
        let y = self.linear_to(matrix, x, y, row)?;
        if !tanh {
            return Ok(y);
        }
        let chosen = self.select.choose("activate", &[("out", "f32")])?;
        let kb = matrix.n.div_ceil(BLOCK);
        let mut overrides = vec![("F", matrix.n as f64), ("KB", kb as f64), ("GSTRIDE", row as f64)];
        overrides.extend(Mlp { gated: false, ..Mlp::gated(Activation::Tanh) }.overrides());
        let operands =
            vec![("gu", y.into()), ("factors", self.zeros.into()), ("at", self.zeros.into()), ("y", to.into())];
        let grid = Grid::of(Extent::Fixed((kb as u32).div_ceil(8)), Extent::Rows { per: 1 });
        self.push(&format!("{}.tanh", matrix.name), chosen, overrides, operands, grid, 0);
        Ok(self.made(to))
    }
}
