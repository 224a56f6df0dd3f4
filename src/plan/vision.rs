//! Passes over a picture's patches: from numbers that the host gives to rows that stand in a prompt in place of tokens.

use super::builder::{Builder, Operand, Stream, copies};
use super::{Activation, Extent, Grid, Mlp, Norm, Overrides, Stage, Value};
use crate::error::{Error, Result};
use crate::kernels::State;
use crate::layout::{BufferId, Control, Form, Scratch, stride};
use crate::weights::Matrix;

impl Builder<'_> {
    /// The residual stream begins: the sum of what `matrices`, `[D, P]`, make of the patches that the host gives, f32
    /// `[T, stride(P)]`, and, with `placed`, the row of positions that it gives for each. Where rotations have axes, it
    /// says where each patch is.
    pub fn patches(&mut self, matrices: &[Matrix], placed: bool) -> Result<()> {
        let (matrix, further) = matrices.split_first().ok_or_else(|| Error::internal("patches without a product"))?;
        let d = matrix.n;
        self.axes = true;
        let input = self.given_patches(matrix.k, Scratch::Input(Form::F32))?;
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
    pub fn normed_patches(&mut self, matrix: &Matrix, [before, after, last]: [&Norm; 3]) -> Result<()> {
        let d = matrix.n;
        let input = self.given_patches(matrix.k, Scratch::GateUp)?;
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

    /// The patches that the host gives, of `k` numbers.
    fn given_patches(&mut self, k: usize, to: Scratch) -> Result<Value> {
        let patches = self.layout.reserve(Control::Patches, u64::from(self.sizes.rows) * stride(k) as u64 * 4);
        let input = self.scratch(to, stride(k));
        self.of_host("patches", patches, k, input.into(), 0.0)?;
        Ok(self.made(input))
    }

    /// Adds the row of positions that the host gives for each patch: what comes out is the residual stream.
    fn add_patch_positions(&mut self, made: Value, d: usize) -> Result<()> {
        let positions = self.layout.reserve(Control::PatchPositions, u64::from(self.sizes.rows) * stride(d) as u64 * 4);
        self.of_host("positions", positions, d, made.into(), 1.0)?;
        self.streamed(made.buffer, d);
        Ok(())
    }

    /// Copies rows that the host gives, or adds them: as embeddings of positions, row t's token is its number in the
    /// pass.
    fn of_host(&mut self, name: &str, from: BufferId, width: usize, to: Operand, add: f64) -> Result<()> {
        let chosen = self.select.choose("embed", &[("weight", "f32")])?;
        let mut overrides = copies(width, self.sizes.rows, 0);
        overrides.extend([("ADD", add), ("POSITIONS", 1.0)]);
        let operands = vec![("wq", from.into()), ("tokens", self.zeros.into()), ("h", to)];
        self.push(name, chosen, overrides, operands, Grid::of(self.per_row(1), Extent::Fixed(1)), 0);
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
