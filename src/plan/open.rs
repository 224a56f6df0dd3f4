//! Norms that are left open in steps of eight rows: the product that adds to the residual stream leaves int8 of it times
//! the norm's weights, and sums of squares; the gated product that reads the norm multiplies what it makes by the norm's
//! factors. That is a dispatch less than with a norm between them. Products of four rows norm their own input.

use super::builder::{Operands, Pending};
use super::product::weight_bindings;
use super::{Act, Builder, Grid, Lane, Norm, Overrides, Pass, Room, Value};
use crate::blocks::BLOCK;
use crate::error::Result;
use crate::layout::{Form, Scratch};
use crate::weights::Matrix;

/// The kernel that leaves a norm open.
const KERNEL: &str = "residual_rows";

/// Most blocks of a row of a product that leaves a norm open. It has fewer workgroups than others, one for 32 rows: with
/// longer rows than this, or than there are of them, that costs more than the norm's dispatch.
const MOST_BLOCKS: usize = 128;

impl Builder<'_> {
    /// Whether a product that adds to the residual stream waits for the norm behind it, to leave that open.
    pub(super) fn may_open(&self, matrix: &Matrix, x: Act) -> bool {
        self.pass == Pass::Eight
            && self.select.lane() == Lane::Fast
            && matches!(x, Act::Q8(..))
            && matrix.kb() <= MOST_BLOCKS
            && matrix.k <= matrix.n
            && matrix.bias.is_none()
            && matrix.n.is_multiple_of(BLOCK)
            && self.adapts(matrix).is_none()
            && matrix.parts.iter().all(|part| {
                part.rows.is_multiple_of(BLOCK)
                    && part.row0.is_multiple_of(BLOCK)
                    && self.select.offers(KERNEL, &[("weight", part.kind.axis()), ("act", "q8")])
            })
    }

    /// The residual stream times the norm's weights, and the overrides of a product that multiplies what it makes of it
    /// by the norm's factors; where a product waits that leaves the norm open.
    pub(super) fn open_norm(&mut self, norm: &Norm, consumer: &Matrix) -> Result<Option<(Act, Overrides)>> {
        let simple = !(norm.center || norm.with_post || norm.scaled || norm.plain);
        let (matrix, x, stage) = match self.pending.take() {
            Some(Pending::Product { matrix, x, stage }) if simple => (matrix, x, stage),
            other => {
                self.pending = other;
                return Ok(None);
            }
        };
        let kb = consumer.kb();
        // Behind the scales stand as many sums of squares.
        let out = Room::Q8(
            self.scratch(Scratch::Input(Form::Q8), kb * BLOCK / 4),
            self.scratch(Scratch::Input(Form::Scales), 2 * kb * 2),
        );
        let h = self.stream()?.h;
        self.within(stage, |b| b.residual_rows(&matrix, x, norm, (h, out)))?;
        self.streamed(h.buffer, matrix.n);
        Ok(Some((self.filled(out), vec![("D", matrix.n as f64), ("EPS", norm.eps)])))
    }

    /// The product itself, of each of the matrix's parts.
    fn residual_rows(&mut self, matrix: &Matrix, x: Act, norm: &Norm, (h, out): (Value, Room)) -> Result<()> {
        for part in &matrix.parts {
            let chosen = self.select.choose(KERNEL, &[("weight", part.kind.axis()), ("act", "q8")])?;
            let overrides = vec![
                ("KB", matrix.kb() as f64),
                ("N", part.rows as f64),
                ("ROW0", part.row0 as f64),
                ("NSTRIDE", matrix.n as f64),
                ("T", f64::from(self.pass.rows(self.sizes))),
            ];
            let grid = Grid::folded((part.rows / BLOCK) as u32);
            let mut bindings: Operands = weight_bindings(part);
            bindings.extend(x.inputs());
            bindings.extend([("y", h.buffer.into()), ("nw", norm.weight.into())]);
            bindings.extend(out.outputs());
            let bytes = part.kind.bytes((part.rows * matrix.kb()) as u64);
            self.push(&matrix.name, chosen, overrides, bindings, grid, bytes);
        }
        Ok(())
    }
}
