//! Passes over a picture's patches: from numbers that the host gives to rows that stand in a prompt in place of tokens.

use super::builder::{Builder, Stream, copies};
use super::{Activation, Extent, Grid, Mlp, Norm, Overrides, Stage, Value};
use crate::error::{Error, Result};
use crate::kernels::State;
use crate::layout::{Control, Scratch, stride};
use crate::weights::Matrix;

/// How a patch's pixels become its numbers.
#[derive(Debug, Clone, Copy)]
pub struct PatchShape {
    /// Pixels of a side.
    pub side: usize,
    /// How often each channel is there.
    pub frames: usize,
    /// Whether numbers come channel by channel, and not pixel by pixel.
    pub by_channel: bool,
}

impl PatchShape {
    /// Numbers of a patch.
    pub fn numbers(self) -> usize {
        3 * self.side * self.side * self.frames
    }
}

impl Builder<'_> {
    /// The residual stream begins: the sum of what `matrices`, `[D, P]`, make of the patches that the host gives, and,
    /// with `placed`, the row of positions that it gives for each. Where rotations have axes, it says where each patch
    /// is.
    pub fn patches(&mut self, shape: PatchShape, matrices: &[Matrix], placed: bool) -> Result<()> {
        let (matrix, further) = matrices.split_first().ok_or_else(|| Error::internal("patches without a product"))?;
        let d = matrix.n;
        self.axes = true;
        let input = self.given_patches(shape)?;
        let x = self.given("patches.input", input, matrix)?;
        let h = self.scratch(Scratch::Residual, stride(d));
        let made = self.linear_to(matrix, x, h, stride(d))?;
        if placed {
            self.add_patch_positions(made, d)?;
        } else {
            self.streamed(h, d);
        }
        for matrix in further {
            let x = self.given("patches.input", input, matrix)?;
            self.add(matrix, x, None)?;
        }
        Ok(())
    }

    /// As [`Builder::patches`] with one matrix, and norms: `before` of the patches, `after` of the product, `last` of
    /// the sum with positions.
    pub fn normed_patches(
        &mut self,
        shape: PatchShape,
        matrix: &Matrix,
        [before, after, last]: [&Norm; 3],
    ) -> Result<()> {
        let d = matrix.n;
        let input = self.given_patches(shape)?;
        self.streamed(input.buffer, matrix.k);
        let x = self.norm(before, matrix, false)?;
        let h = self.scratch(Scratch::Residual, stride(d));
        self.linear_to(matrix, x, h, stride(d))?;
        self.streamed(h, d);
        self.renorm(after)?;
        let made = self.stream()?.h;
        self.add_patch_positions(made, d)?;
        self.renorm(last)
    }

    /// The patches that the host gives: as their numbers, f32 `[T, stride(P)]`, or as pixels, of which a stage of its
    /// own makes these.
    fn given_patches(&mut self, shape: PatchShape) -> Result<Value> {
        let (rows, row) = (u64::from(self.sizes.rows), stride(shape.numbers()));
        let PatchShape { side, frames, by_channel } = shape;
        let pixels = self.layout.reserve(Control::Pixels, (rows * 3 * (side * side) as u64).next_multiple_of(4));
        let starts = self.layout.reserve(Control::PatchStarts, (1 + rows) * 4);
        let numbers = self.layout.reserve(Control::PixelNumbers, 3 * 256 * 4);
        let patches = self.layout.reserve(Control::Patches, rows * row as u64 * 4);
        let chosen = self.select.choose("pixels", &[])?;
        let overrides = vec![
            ("SIDE", side as f64),
            ("FRAMES", frames as f64),
            ("BY_CHANNEL", f64::from(u8::from(by_channel))),
            ("STRIDE", row as f64),
        ];
        let operands = vec![
            ("pixels", pixels.into()),
            ("starts", starts.into()),
            ("numbers", numbers.into()),
            ("y", patches.into()),
        ];
        let grid = Grid::of(self.per_row(1), Extent::Fixed((row as u32).div_ceil(chosen.variant.workgroup[0])));
        self.within(Stage::Pixels, |b| {
            b.push("pixels", chosen, overrides, operands, grid, 0);
            Ok(b.made(patches))
        })
    }

    /// Adds the row of positions that the host gives for each patch: what comes out is the residual stream.
    fn add_patch_positions(&mut self, made: Value, d: usize) -> Result<()> {
        let positions = self.layout.reserve(Control::PatchPositions, u64::from(self.sizes.rows) * stride(d) as u64 * 4);
        // As embeddings of positions: row t's token is its number in the pass.
        let chosen = self.select.choose("embed", &[("weight", "f32")])?;
        let mut overrides = copies(d, self.sizes.rows, 0);
        overrides.extend([("ADD", 1.0), ("POSITIONS", 1.0)]);
        let operands = vec![("wq", positions.into()), ("tokens", self.zeros.into()), ("h", made.into())];
        self.push("positions", chosen, overrides, operands, Grid::of(self.per_row(1), Extent::Fixed(1)), 0);
        self.streamed(made.buffer, d);
        Ok(())
    }

    /// Rows of the residual stream, in the order that the host says, become wider ones: `each` neighbours of it one,
    /// side by side or, where they are `interleaved`, number by number. From here on there are fewer rows. With a
    /// number, they are only kept under it, and the stream goes on ([`Builder::rejoin`]).
    pub fn join(&mut self, each: usize, interleaved: bool, kept: Option<usize>) -> Result<()> {
        self.complete()?;
        let stream = self.stream()?;
        let d = stream.width;
        let order = self.layout.reserve(Control::PatchOrder, u64::from(self.sizes.rows) * 4);
        let to = self.scratch(kept.map_or(Scratch::Block, Scratch::Joined), stride(d));
        let chosen = self.select.choose("embed", &[("weight", "f32")])?;
        // Without room between the rows that become one.
        let next = if each > 1 { d } else { stride(d) };
        let mut overrides: Overrides = copies(d, self.sizes.rows, 0)
            .into_iter()
            .map(|(name, n)| (name, if name == "STRIDE" { next as f64 } else { n }))
            .collect();
        overrides.extend(interleaved.then_some(("EACH", each as f64)));
        let operands = vec![("wq", stream.h.into()), ("tokens", order.into()), ("h", to.into())];
        self.push("join", chosen, overrides, operands, Grid::of(self.per_row(1), Extent::Fixed(1)), 0);
        if let Some(kept) = kept {
            self.joined.push((kept, self.made(to), each * d));
            return Ok(());
        }
        self.streamed(to, each * d);
        self.stage(Stage::Head);
        self.state = self.layout.reserve(Control::Last, State::BYTES as u64);
        Ok(())
    }

    /// Rows of the residual stream become what a product makes of them.
    pub fn remake(&mut self, matrix: &Matrix) -> Result<()> {
        let x = self.unnormed(&format!("{}.input", matrix.name), matrix)?;
        let [first, other] =
            [Scratch::Residual, Scratch::ResidualSum].map(|buffer| self.scratch(buffer, stride(matrix.n)));
        let to = if self.stream()?.h.buffer == first { other } else { first };
        self.linear_to(matrix, x, to, stride(matrix.n))?;
        self.streamed(to, matrix.n);
        Ok(())
    }

    /// The residual stream is what was kept under that number.
    pub fn rejoin(&mut self, kept: usize) -> Result<()> {
        let (_, h, width) = self
            .joined
            .iter()
            .find(|(number, ..)| *number == kept)
            .copied()
            .ok_or_else(|| Error::internal("rows that were not kept"))?;
        self.stream = Some(Stream { h, width });
        Ok(())
    }

    /// What a network of two products makes of the residual stream, normed where it is: f32 `[T, stride(N)]`, in a
    /// buffer of that number.
    pub fn project(
        &mut self,
        norm: Option<&Norm>,
        up: &Matrix,
        mlp: Mlp,
        (down, number): (&Matrix, Option<usize>),
    ) -> Result<Value> {
        let name = number.map_or("projector".into(), |number| format!("deepstack.{number}"));
        let x = self.mlp(&name, norm, up, mlp, down)?;
        let row = stride(down.n);
        let y = self.scratch(number.map_or(Scratch::Pooled, Scratch::Deepstack), row);
        self.linear_to(down, x, y, row)
    }

    /// What a gated network makes of the residual stream, which is normed and goes through that activation before: f32
    /// `[T, stride(N)]`.
    pub fn project_gated(
        &mut self,
        (norm, before): (&Norm, Activation),
        up: &Matrix,
        mlp: Mlp,
        down: &Matrix,
    ) -> Result<Value> {
        self.renorm(norm)?;
        let Stream { h, width } = self.stream()?;
        let out = self.room(Scratch::Activation, up);
        let before = Mlp { gated: false, ..Mlp::gated(before) };
        let x = self.activate_as("projector.activate", h, before, None, (width, stride(width), out))?;
        let products = self.scratch(Scratch::GateUp, up.n);
        let gate_up = self.linear_to(up, x, products, up.n)?;
        let x = self.activate(&format!("{}.activate", up.name), gate_up, mlp, None, down)?;
        let row = stride(down.n);
        let y = self.scratch(Scratch::Pooled, row);
        self.linear_to(down, x, y, row)
    }

    /// What one product makes of the residual stream, normed where it is: f32 `[T, stride(N)]`.
    pub fn project_once(&mut self, norm: Option<&Norm>, matrix: &Matrix) -> Result<Value> {
        let x = match norm {
            Some(norm) => self.norm(norm, matrix, false)?,
            None => {
                self.complete()?;
                let h = self.stream()?.h;
                self.given("projector.input", h, matrix)?
            }
        };
        let row = stride(matrix.n);
        let y = self.scratch(Scratch::Pooled, row);
        self.linear_to(matrix, x, y, row)
    }
}
