//! Products whose inputs and outputs are clamped to limits, which were learned with the weights, and the halves of a
//! layer that are made of them.

use super::builder::Builder;
use super::{Act, Attention, Extent, Grid, Mlp, Norm, Room, Value};
use crate::blocks::BLOCK;
use crate::error::{Error, Result};
use crate::layout::{BufferId, Form, Scratch, stride};
use crate::weights::Matrix;

/// A product that reads and gives numbers between limits.
pub struct Limited {
    pub matrix: Matrix,
    /// f32 `[4]`: the lowest and the highest number that it reads, and those that it gives.
    pub limits: BufferId,
}

/// Where the limits of what a product reads stand, and those of what it gives.
const READ: usize = 0;
const GIVEN: usize = 2;

/// Columns of rows: how many, from which on, and f32 between rows.
#[derive(Clone, Copy)]
struct Columns {
    n: usize,
    at: usize,
    stride: usize,
}

impl Builder<'_> {
    /// The attention of the normed residual stream by products for queries, keys and values of their own; its norm is
    /// added.
    pub fn limited_attention(
        &mut self,
        name: &str,
        norm: &Norm,
        [q, k, v, o]: [&Limited; 4],
        shape: Attention,
        post: Norm,
    ) -> Result<()> {
        let x = self.normed_f32(norm, &q.matrix)?;
        let row = shape.heads.qkv();
        let qkv = self.scratch(Scratch::Qkv, row);
        let rows = self.side_by_side(x, [q, k, v].into_iter(), qkv, row)?;
        let Act::F32(mixed) = self.attention(name, rows, Attention { as_f32: true, ..shape }, &o.matrix)? else {
            return Err(Error::internal(format!("{name}: outputs of attention that are not f32")));
        };
        self.add_limited(mixed, o, post)
    }

    /// The feed-forward network of the normed residual stream, of three limited products; its norm is added.
    pub fn limited_mlp(&mut self, norm: &Norm, [gate, up, down]: [&Limited; 3], mlp: Mlp, post: Norm) -> Result<()> {
        let x = self.normed_f32(norm, &gate.matrix)?;
        let (f, row) = (down.matrix.k, gate.matrix.n + up.matrix.n);
        let gate_up = self.scratch(Scratch::GateUp, row);
        let made = self.side_by_side(x, [gate, up].into_iter(), gate_up, row)?;
        let room = Room::F32(self.scratch(Scratch::Activation(Form::F32), f.div_ceil(BLOCK) * BLOCK));
        let Act::F32(activated) = self.activate_as(
            &format!("{}.activate", gate.matrix.name),
            made,
            mlp,
            None,
            (f, mlp.products() * f, room),
        )?
        else {
            return Err(Error::internal(format!("{}: activations that are not f32", gate.matrix.name)));
        };
        self.add_limited(activated, down, post)
    }

    /// The norm of the residual stream as f32: each product behind it clamps it to its own limits.
    fn normed_f32(&mut self, norm: &Norm, of: &Matrix) -> Result<Value> {
        self.complete()?;
        let room = Room::F32(self.scratch(Scratch::Input(Form::F32), of.kb() * BLOCK));
        match self.norm_as(norm, room, false)? {
            Act::F32(x) => Ok(x),
            _ => Err(Error::internal(format!("{}: a norm that is not f32", norm.name))),
        }
    }

    /// What products make of the same rows, side by side in rows of `row` f32.
    fn side_by_side<'m>(
        &mut self,
        x: Value,
        of: impl Iterator<Item = &'m Limited>,
        to: BufferId,
        row: usize,
    ) -> Result<Value> {
        let mut at = 0;
        for of in of {
            self.limited(x, of, to, Columns { n: of.matrix.n, at, stride: row })?;
            at += of.matrix.n;
        }
        if at == row {
            Ok(self.made(to))
        } else {
            Err(Error::internal(format!("products of {at} rows, of {row} numbers")))
        }
    }

    /// Adds the norm of what a product makes of those rows to the residual stream.
    fn add_limited(&mut self, x: Value, of: &Limited, post: Norm) -> Result<()> {
        let to = self.scratch(Scratch::Block, stride(of.matrix.n));
        let block = self.limited(x, of, to, Columns { n: of.matrix.n, at: 0, stride: stride(of.matrix.n) })?;
        self.add_normed(post, block)
    }

    /// What a product makes of rows of f32, both within its limits.
    fn limited(
        &mut self,
        x: Value,
        Limited { matrix, limits }: &Limited,
        to: BufferId,
        columns: Columns,
    ) -> Result<Value> {
        let (name, k) = (&matrix.name, matrix.kb() * BLOCK);
        let input = self.scratch(Scratch::Limited, k);
        let x = self.clamp(
            &format!("{name}.read"),
            (x, k),
            (*limits, READ),
            input,
            Columns { n: matrix.k, at: 0, stride: k },
            k,
        )?;
        let x = self.given(&format!("{name}.input"), x, matrix)?;
        let sums = self.scratch(Scratch::Unlimited, stride(matrix.n));
        let made = self.linear_to(matrix, x, sums, stride(matrix.n))?;
        self.clamp(&format!("{name}.given"), (made, stride(matrix.n)), (*limits, GIVEN), to, columns, columns.n)
    }

    /// Columns of rows between two limits; behind them zeros, so that `room` columns are written.
    fn clamp(
        &mut self,
        name: &str,
        (x, each): (Value, usize),
        (limits, at): (BufferId, usize),
        to: BufferId,
        columns: Columns,
        room: usize,
    ) -> Result<Value> {
        let chosen = self.select.choose("clamp", &[])?;
        let Columns { n, at: column, stride } = columns;
        let overrides =
            [("N", n), ("XSTRIDE", each), ("YSTRIDE", stride), ("COLUMN", column), ("ROOM", room), ("AT", at)];
        let grid = Grid::of(Extent::Fixed((room as u32).div_ceil(chosen.variant.workgroup[0])), self.per_row(1));
        let operands = vec![("x", x.into()), ("limits", limits.into()), ("y", to.into())];
        self.push(name, chosen, overrides.map(|(name, n)| (name, n as f64)).to_vec(), operands, grid, 0);
        Ok(self.made(to))
    }
}
