//! Products: of rows with a matrix, with a norm before them, a bias, and in a feed-forward network the activation
//! behind them.

use super::adapter::Input;
use super::builder::{Operand, Operands};
use super::{Act, Builder, Chosen, Extent, Grid, Lane, Mlp, Norm, Overrides, Pass, Room, Value};
use crate::base::numbers::SLICE_BLOCKS;
use crate::blocks::BLOCK;
use crate::error::{Error, Result};
use crate::kernels::Variant;
use crate::layout::{BufferId, Scratch};
use crate::weights::{Matrix, Part};

/// Where the sums of a product go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sums {
    pub y: BufferId,
    /// f32 between its rows.
    pub stride: usize,
    /// Whether they are added to the contents of `y`.
    pub add: bool,
    /// Sums become `cap tanh(y / cap)`; 0: no cap.
    pub cap: f64,
}

/// What activations are multiplied by.
#[derive(Debug, Clone, Copy)]
pub(super) enum Factors {
    /// The sigmoid of the last of each row's f32, whose number is the second field.
    LastOf(Value, usize),
    /// Numbers, of which each row has `each` f32: from where the `i`-th of a buffer says.
    Numbers { value: Value, each: usize, from: (BufferId, usize) },
}

/// Rows from which there are enough to fill any GPU with one group of lanes each.
const MANY_ROWS: usize = 16_384;

/// Rows of a matrix from which on a prefill workgroup covers 128 of them: below, there would be too few workgroups.
const WIDE_ROWS: usize = 8192;

/// Groups of lanes that share a row: as many as have a block each for few rows, which otherwise leave the GPU waiting
/// for loads.
fn split(variant: &Variant, kb: usize, rows: usize) -> u32 {
    let lanes = variant.lanes.max(1);
    let groups = (variant.workgroup[0] / lanes).clamp(1, 4);
    let mut split = 1;
    while rows < MANY_ROWS && split < groups && ((lanes * split) as usize) < kb {
        split *= 2;
    }
    split
}

fn part_overrides(matrix: &Matrix, part: &Part) -> Overrides {
    vec![("KB", matrix.kb() as f64), ("N", part.rows as f64), ("ROW0", part.row0 as f64)]
}

pub(super) fn weight_bindings(part: &Part) -> Operands {
    [Some(("wq", part.wq.into())), part.ws.map(|ws| ("ws", ws.into()))].into_iter().flatten().collect()
}

impl Builder<'_> {
    /// Whether a product of prefill runs on matrix units, which write whole tiles.
    pub(super) fn on_matrices(&self, matrix: &Matrix) -> bool {
        let whole = |part: &Part| part.rows.is_multiple_of(64) && part.row0.is_multiple_of(16);
        matches!(self.pass, Pass::Prefill | Pass::Short)
            && self.select.matrices()
            && self.sizes.rows.is_multiple_of(64)
            && matrix.bias.is_none()
            && matrix.parts.iter().all(|part| {
                whole(part) && self.matrix_product(part, "f32").is_ok() && self.matrix_product(part, "f16").is_ok()
            })
    }

    fn matrix_product(&self, part: &Part, act: &str) -> Result<Chosen> {
        let span = if part.rows >= WIDE_ROWS && part.rows.is_multiple_of(128) { "n128" } else { "n64" };
        self.select.choose("matmul_subgroup", &[("weight", part.kind.axis()), ("act", act), ("span", span)])
    }

    /// Adds the product of a gated norm to the residual stream; the norm has these overrides and operands.
    pub(super) fn gated_product(
        &mut self,
        matrix: &Matrix,
        norm: &[(&'static str, f64)],
        operands: &[(&'static str, Operand)],
    ) -> Result<()> {
        self.complete()?;
        let h = self.stream()?.h;
        for part in &matrix.parts {
            let axes = [("weight", part.kind.axis()), ("act", "q8")];
            let chosen = self.select.choose_product("gated_matvec", &axes, matrix.k, part.rows)?;
            let sizes = [("KB", matrix.kb() as f64), ("N", part.rows as f64), ("ROW0", part.row0 as f64)];
            let grid = Grid::folded((part.rows as u32).div_ceil(chosen.variant.tile[0]));
            let mut bindings = weight_bindings(part);
            bindings.extend(operands);
            bindings.push(("y", h.buffer.into()));
            self.push(
                &matrix.name,
                chosen,
                [norm, &sizes].concat(),
                bindings,
                grid,
                part.kind.bytes((part.rows * matrix.kb()) as u64),
            );
        }
        self.streamed(h.buffer, matrix.n);
        Ok(())
    }

    /// The bias of a product, as its override and its binding.
    fn bias(&self, matrix: &Matrix) -> ((&'static str, f64), (&'static str, Operand)) {
        (("BIAS", f64::from(u8::from(matrix.bias.is_some()))), ("bias", matrix.bias.unwrap_or(self.zeros).into()))
    }

    pub(super) fn linear_kernel(&self, matrix: &Matrix) -> &'static str {
        match self.pass {
            Pass::Decode => "matvec",
            Pass::Few | Pass::Four | Pass::Eight => "matvec_rows",
            Pass::Prefill | Pass::Short if self.on_matrices(matrix) => "matmul_subgroup",
            Pass::Prefill | Pass::Short => "matmul",
        }
    }

    /// `W x (+ bias)` in rows of `y_stride` f32.
    pub(super) fn linear_to(&mut self, matrix: &Matrix, x: Act, y: BufferId, y_stride: usize) -> Result<Value> {
        self.product(self.linear_kernel(matrix), matrix, x, Sums { y, stride: y_stride, add: false, cap: 0.0 })
    }

    /// Queries, keys and values of a row that is in that form: f32 `[T, N]`.
    pub fn qkv(&mut self, matrix: &Matrix, x: Act) -> Result<Value> {
        let y = self.scratch(Scratch::Qkv, matrix.n);
        self.linear_to(matrix, x, y, matrix.n)
    }

    pub(super) fn product(&mut self, kernel: &'static str, matrix: &Matrix, x: Act, sums: Sums) -> Result<Value> {
        let Sums { y, stride: y_stride, add, cap } = sums;
        for part in &matrix.parts {
            let axes = [("weight", part.kind.axis()), ("act", x.axis())];
            let kernel = if self.each() { "matvec" } else { kernel };
            let chosen = match kernel {
                "matvec" => self.select.choose_product(kernel, &axes, matrix.k, part.rows)?,
                "matvec_rows" => self.select.choose(kernel, &axes)?,
                "matmul_subgroup" => self.matrix_product(part, x.axis())?,
                _ => {
                    let span = match x.axis() {
                        "q8" if part.rows >= WIDE_ROWS => "n128",
                        "f32" | "f16" if part.rows >= WIDE_ROWS && self.pass == Pass::Prefill => "n128",
                        // Few tiles of rows: as many workgroups as possible, each with all of K shared out.
                        "q8" if self.pass == Pass::Short => "n32",
                        _ => "n64",
                    };
                    self.select.choose(kernel, &[axes[0], axes[1], ("span", span)])?
                }
            };
            let kb = matrix.kb();
            let mut overrides = part_overrides(matrix, part);
            overrides.push(("ADD", f64::from(u8::from(add))));
            overrides.extend((cap != 0.0).then_some(("SOFTCAP", cap)));
            if kernel != "matvec" {
                overrides.push(("NSTRIDE", y_stride as f64));
            }
            if kernel == "matvec_rows" && self.pass.is_step_of_rows() {
                overrides.push(("T", f64::from(self.pass.rows(self.sizes))));
            }
            let tile = chosen.variant.tile;
            let grid = if kernel.starts_with("matmul") {
                Grid::of(Extent::Fixed((part.rows as u32).div_ceil(tile[0])), Extent::Rows { per: tile[1] })
            } else {
                // Lanes share what is in workgroup memory at a time.
                let sliced = kernel == "matvec" && x.axis() == "f32" && part.kind.quantized();
                let kb = if sliced { kb.min(SLICE_BLOCKS as usize) } else { kb };
                let split = split(chosen.variant, kb, part.rows);
                overrides.push(("SPLIT", f64::from(split)));
                let (grid, each) = self.each_row(Grid::folded((part.rows as u32).div_ceil(tile[0] / split)), y_stride);
                overrides.extend(each);
                if kernel == "matvec_rows" { grid.deep(self.pass.rows(self.sizes).div_ceil(tile[1])) } else { grid }
            };
            let mut bindings = weight_bindings(part);
            bindings.push(("y", y.into()));
            bindings.extend(x.inputs());
            if kernel != "matmul_subgroup" {
                let (set, bound) = self.bias(matrix);
                overrides.push(set);
                bindings.push(bound);
            }
            self.push(&matrix.name, chosen, overrides, bindings, grid, part.kind.bytes((part.rows * kb) as u64));
        }
        self.adapt(matrix, Input::Act(x), sums)?;
        Ok(self.made(y))
    }

    /// Queries, keys and values of the normed residual stream, `W norm(h) (+ bias)`: f32 `[T, N]`. In decode the norm,
    /// and the quantization of its result, are the product's own prologue.
    pub fn norm_qkv(&mut self, norm: &Norm, matrix: &Matrix) -> Result<Value> {
        self.norm_linear(norm, matrix, Scratch::Qkv)
    }

    /// As [`Builder::norm_qkv`], for any matrix, into the scratch buffer `to`.
    pub fn norm_linear(&mut self, norm: &Norm, matrix: &Matrix, to: Scratch) -> Result<Value> {
        let of_rows = self.fuses_norm_of_rows("norm_rows", norm, matrix, &[]);
        if !of_rows && !self.fuses_norm(norm, matrix.kb()) {
            let x = self.norm(norm, matrix, false)?;
            let y = self.scratch(to, matrix.n);
            return self.linear_to(matrix, x, y, matrix.n);
        }
        // A sum that was written is read by the parts after the first.
        if matrix.parts.len() > 1 || !norm.with_post {
            self.complete()?;
        }
        let y = self.scratch(to, matrix.n);
        for part in &matrix.parts {
            let axes = [("weight", part.kind.axis()), ("act", self.act_axis(part))];
            let mut overrides = part_overrides(matrix, part);
            let (set, bound) = self.bias(matrix);
            overrides.push(set);
            let groups = |per: u32| Grid::folded((part.rows as u32).div_ceil(per));
            let (chosen, grid) = if of_rows {
                let chosen = self.select.choose("norm_rows", &axes)?;
                let split = split(chosen.variant, matrix.kb(), part.rows);
                overrides.extend([("NSTRIDE", matrix.n as f64), ("SPLIT", f64::from(split))]);
                let grid = groups(chosen.variant.tile[0] / split);
                (chosen, grid)
            } else {
                let chosen = self.select.choose_product("norm_matvec", &axes, matrix.k, part.rows)?;
                let (grid, each) = self.each_row(groups(chosen.variant.tile[0]), matrix.n);
                overrides.extend(each);
                (chosen, grid)
            };
            let mut bindings = weight_bindings(part);
            bindings.extend([("y", y.into()), bound]);
            self.push_normed(
                &matrix.name,
                norm,
                chosen,
                overrides,
                bindings,
                grid,
                part.kind.bytes((part.rows * matrix.kb()) as u64),
            )?;
        }
        // Whatever waited to be added to the residual stream has been by now.
        self.adapt(matrix, Input::Normed(norm), Sums { y, stride: matrix.n, add: true, cap: 0.0 })?;
        Ok(self.made(y))
    }

    /// The inner part of a feed-forward network, `act(gate) * up` or `act(up)` of `up norm(h)` (gate rows first;
    /// without a norm, of `up h`), in the form that `consumer` (the down product) reads. With gates and RMSNorm one
    /// dispatch in decode.
    pub fn mlp(&mut self, name: &str, norm: Option<&Norm>, up: &Matrix, mlp: Mlp, consumer: &Matrix) -> Result<Act> {
        let f = consumer.k;
        if up.n != if mlp.gated { 2 * f } else { f } {
            return Err(Error::internal(format!("{} has {} rows, the down product reads {f}", up.name, up.n)));
        }
        // What adapters add comes before the activation.
        if let (Some(norm), Some(_)) = (norm, self.adapts(up)) {
            let gate_up = self.norm_linear(norm, up, Scratch::GateUp)?;
            return self.activate(&format!("{}.activate", up.name), gate_up, mlp, None, consumer);
        }
        // Gates and up rows of one output must lie in one buffer.
        if let (Some(norm), [part]) = (norm, &up.parts[..])
            && mlp.gated
            && up.bias.is_none()
            && self.fuses_norm(norm, up.kb())
        {
            let out = self.room(Scratch::Activation, consumer);
            let axes = [("weight", part.kind.axis()), ("act", self.act_axis(part)), ("out", out.axis())];
            let chosen = self.select.choose_product("norm_gated", &axes, up.k, part.rows)?;
            if !norm.with_post {
                self.complete()?;
            }
            let mut overrides = vec![("KB", up.kb() as f64), ("F", f as f64)];
            overrides.extend(mlp.overrides());
            let mut bindings = weight_bindings(part);
            bindings.extend(out.outputs());
            bindings.extend((out.axis() == "f32").then_some(("beside", self.zeros.into())));
            let bytes = part.kind.bytes((part.rows * up.kb()) as u64);
            let (grid, each) = self.each_row(Grid::folded((f as u32).div_ceil(32)), 0);
            overrides.extend(each.into_iter().filter(|(name, _)| *name == "EACH"));
            self.push_normed(&up.name, norm, chosen, overrides, bindings, grid, bytes)?;
            return Ok(self.filled(out));
        }
        // For several rows the product quantizes its output, and reads the quantized norm or makes it.
        if let [part] = &up.parts[..]
            && self.pass.is_step_of_rows()
            && mlp.gated
            && up.bias.is_none()
            && self.adapts(up).is_none()
            && self.select.lane() == Lane::Fast
            && part.kind.quantized()
            && consumer.quantized()
        {
            let out = self.room(Scratch::Activation, consumer);
            let open = norm.map(|norm| self.open_norm(norm, up)).transpose()?.flatten();
            let normed = norm.filter(|norm| {
                open.is_none() && self.fuses_norm_of_rows("norm_gated_rows", norm, up, &[("out", "q8")])
            });
            let kernel = if normed.is_some() { "norm_gated_rows" } else { "gated_rows" };
            let chosen = self.select.choose(kernel, &[("weight", part.kind.axis()), ("act", "q8"), ("out", "q8")])?;
            let mut overrides = vec![("KB", up.kb() as f64), ("F", f as f64)];
            overrides.extend(mlp.overrides());
            let mut bindings = weight_bindings(part);
            bindings.extend(out.outputs());
            let grid = Grid::folded((f as u32).div_ceil(chosen.variant.tile[0]));
            let bytes = part.kind.bytes((part.rows * up.kb()) as u64);
            if let Some(norm) = normed {
                if !norm.with_post {
                    self.complete()?;
                }
                self.push_normed(&up.name, norm, chosen, overrides, bindings, grid, bytes)?;
            } else {
                let (x, factors) = match open {
                    Some(open) => open,
                    None => (self.mlp_input(name, norm, up)?, Vec::new()),
                };
                bindings.extend(x.inputs());
                overrides.extend(factors);
                overrides.push(("T", f64::from(self.pass.rows(self.sizes))));
                self.push(&up.name, chosen, overrides, bindings, grid, bytes);
            }
            return Ok(self.filled(out));
        }
        let x = self.mlp_input(name, norm, up)?;
        let products = self.scratch(Scratch::GateUp, up.n);
        let gate_up = self.linear_to(up, x, products, up.n)?;
        self.activate(&format!("{}.activate", up.name), gate_up, mlp, None, consumer)
    }

    /// What `up` reads where it does not norm its own input.
    fn mlp_input(&mut self, name: &str, norm: Option<&Norm>, up: &Matrix) -> Result<Act> {
        match norm {
            Some(norm) => self.norm(norm, up, false),
            None => self.unnormed(&format!("{name}_input"), up),
        }
    }

    /// The `act` axis of a product with `part` that makes its own activations.
    pub(super) fn act_axis(&self, part: &Part) -> &'static str {
        if self.select.lane() == Lane::Fast && part.kind.quantized() { "q8" } else { "f32" }
    }

    /// `act(gate) * up` of `gate_up` (`[T, 2 F]`, gates first), or `act` of `[T, F]`, in the form that `consumer` (the
    /// down product) reads, times `factors`.
    pub(super) fn activate(
        &mut self,
        name: &str,
        gate_up: Value,
        mlp: Mlp,
        factors: Option<Factors>,
        consumer: &Matrix,
    ) -> Result<Act> {
        let out = self.room(Scratch::Activation, consumer);
        let k = consumer.k;
        self.activate_as(name, gate_up, mlp, factors, (k, mlp.products() * k, out))
    }

    /// As [`Builder::activate`], for rows of `k` values that are `row` f32 apart, into `out` in its form.
    pub(super) fn activate_as(
        &mut self,
        name: &str,
        gate_up: Value,
        mlp: Mlp,
        factors: Option<Factors>,
        (k, row, out): (usize, usize, Room),
    ) -> Result<Act> {
        let chosen = self.select.choose("activate", &[("out", out.axis())])?;
        let kb = k.div_ceil(BLOCK);
        let mut overrides = vec![("F", k as f64), ("KB", kb as f64), ("GSTRIDE", row as f64)];
        overrides.extend(mlp.overrides());
        let (factors, at): (Operand, Operand) = match factors {
            None => (self.zeros.into(), self.zeros.into()),
            Some(Factors::LastOf(value, each)) => {
                overrides.push(("FACTOR", each as f64));
                (value.into(), self.zeros.into())
            }
            Some(Factors::Numbers { value, each, from: (at, i) }) => {
                overrides.extend([("BESIDE", each as f64), ("AT", i as f64)]);
                (value.into(), at.into())
            }
        };
        let mut bindings: Operands = vec![("gu", gate_up.into()), ("factors", factors), ("at", at)];
        bindings.extend(out.outputs());
        let grid = Grid::of(Extent::Fixed((kb as u32).div_ceil(8)), self.per_row(1));
        self.push(name, chosen, overrides, bindings, grid, 0);
        Ok(self.filled(out))
    }
}
