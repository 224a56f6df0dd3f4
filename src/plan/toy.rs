//! The layer that no model has.

use super::builder::Operands;
use super::{Builder, Extent, Grid, Norm, Room};
use crate::base::numbers::FEW_ROWS;
use crate::blocks::BLOCK;
use crate::error::Result;
use crate::layout::{Form, Name, Scratch, StateShape, stride};

impl Builder<'_> {
    /// `h += |S| - 1/2`, where S is the running sum of `norm(h)` over the text, modulo 2.
    pub fn running_sum(&mut self, name: &str, layer: usize, norm: &Norm) -> Result<()> {
        self.complete()?;
        let d = self.stream()?.width;
        let room = self.scratch(Scratch::Input(Form::F32), d.div_ceil(BLOCK) * BLOCK);
        self.norm_as(norm, Room::F32(room), false)?;
        let (x, h) = (self.made(room), self.stream()?.h);
        let bytes = (d as u64 * 4).next_multiple_of(16);
        let s = self.layout.state(layer, "s", StateShape::Recurrent { bytes }, self.sizes.slots);
        let kept = self.layout.reserve(Name::State(layer, "kept"), 2 * u64::from(FEW_ROWS) * d as u64 * 4);
        let mut overrides = vec![("D", d as f64), ("STRIDE", stride(d) as f64)];
        overrides.extend(self.apart());
        overrides.extend(self.drafts_for_another().then_some(("DRAFTER", 1.0)));
        let bindings: Operands = vec![("x", x.into()), ("h", h.into()), ("s", s.into()), ("kept", kept.into())];
        let grid = |rows| Grid::of(Extent::Fixed((d as u32).div_ceil(64)), rows);
        if self.pass.is_step_of_rows() || self.drafts_for_another() {
            let settle = self.select.choose("sum_settle", &[])?;
            let state_and_rows: Operands = vec![("s", s.into()), ("kept", kept.into())];
            let columns = grid(Extent::Fixed(1));
            self.push(&format!("{name}.settle"), settle, vec![("D", d as f64)], state_and_rows, columns, bytes);
            self.settles();
        }
        let chosen = self.select.choose("running_sum", &[])?;
        let rows = if self.pass.is_step_of_rows() { self.per_row(1) } else { Extent::Fixed(1) };
        self.push(name, chosen, overrides, bindings, grid(rows), bytes);
        self.streamed(h.buffer, d);
        Ok(())
    }
}
