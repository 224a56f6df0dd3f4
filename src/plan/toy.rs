//! The layer that no model has.

use super::builder::Operands;
use super::{Builder, Extent, Grid, Norm, Room};
use crate::blocks::BLOCK;
use crate::error::Result;
use crate::layout::{Form, Scratch, StateShape, stride};

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
        let chosen = self.select.choose("running_sum", &[])?;
        let overrides = vec![("D", d as f64), ("STRIDE", stride(d) as f64)];
        let bindings: Operands = vec![("x", x.into()), ("h", h.into()), ("s", s.into())];
        self.push(
            name,
            chosen,
            overrides,
            bindings,
            Grid::of(Extent::Fixed((d as u32).div_ceil(64)), Extent::Fixed(1)),
            bytes,
        );
        self.streamed(h.buffer, d);
        Ok(())
    }
}
