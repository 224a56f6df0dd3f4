//! The operations of which an architecture's forward pass is made: each appends the steps of one operation, for a prefill pass or a decode step.

use super::{Act, Chosen, Extent, Grid, Lane, Mlp, Norm, Overrides, Pass, Plan, Room, Selector, Stage, Step, Value};
use crate::base::numbers;
use crate::blocks::BLOCK;
use crate::error::{Error, Result};
use crate::kernels::{State, Variant};
use crate::layout::{BufferId, Control, Form, Layout, Scratch, Sizes, stride};
use crate::weights::{Matrix, Part};

/// What a step reads or writes: what an earlier step of the plan has left, or a buffer that is there in its own right.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operand {
    Value(Value),
    Buffer(BufferId),
}

impl From<Value> for Operand {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl From<BufferId> for Operand {
    fn from(buffer: BufferId) -> Self {
        Self::Buffer(buffer)
    }
}

/// What a step is bound to, by the names in the shader.
pub(super) type Operands = Vec<(&'static str, Operand)>;

/// Where the sums of a product go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sums {
    pub y: BufferId,
    /// f32 between its rows.
    pub stride: usize,
    /// They are added to what is there.
    pub add: bool,
    /// They become `cap tanh(y / cap)`; 0: they stay.
    pub cap: f64,
}

/// The residual stream: f32 `[T, stride(D)]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    /// As the last step that wrote to it has left it.
    pub h: Value,
    /// D.
    pub width: usize,
}

/// A block's result that has yet to be normed and added to the residual stream.
struct Pending {
    norm: Norm,
    block: Value,
}

/// Builds the plan of one pass.
pub struct Builder<'a> {
    pub(super) layout: &'a mut Layout,
    pub(super) select: &'a Selector,
    pub(super) sizes: Sizes,
    pub(super) pass: Pass,
    stage: Stage,
    state: BufferId,
    /// What a binding that a model does not need is bound to.
    pub(super) zeros: BufferId,
    pub(super) plan: Plan,
    stream: Option<Stream>,
    pending: Option<Pending>,
}

/// Rows from which there are enough to fill any GPU with one group of lanes each.
const MANY_ROWS: usize = 16_384;

/// Most blocks of a row that a product with a norm of its own has room for. Wider models take a norm dispatch.
const PROLOGUE_BLOCKS: usize = numbers::PROLOGUE_BLOCKS as usize;

/// Rows of a matrix from which on a prefill workgroup covers 128 of them: below, there would be too few workgroups.
const WIDE_ROWS: usize = 8192;

/// Groups of lanes that share a row: as many as have a block each for few rows, which otherwise leave the GPU waiting for loads.
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

const STATE_BYTES: u64 = State::BYTES as u64;

impl<'a> Builder<'a> {
    /// A builder for a pass.
    pub fn new(layout: &'a mut Layout, select: &'a Selector, sizes: Sizes, pass: Pass) -> Self {
        let state = layout.reserve(if pass == Pass::Decode { Control::Decode } else { Control::Prefill }, STATE_BYTES);
        // As much as the largest uniform wants.
        let zeros = layout.reserve(Control::Zeros, 2048);
        Self { layout, select, sizes, pass, stage: Stage::Embed, state, zeros, plan: Plan::default(), stream: None, pending: None }
    }

    pub(super) fn decode(&self) -> bool {
        self.pass == Pass::Decode
    }

    /// What comes now is part of that.
    pub fn stage(&mut self, stage: Stage) {
        self.stage = stage;
    }

    /// The finished plan.
    pub fn finish(self) -> Plan {
        self.plan
    }

    /// A scratch buffer of `rows` rows of `row` words.
    pub(super) fn scratch(&mut self, what: Scratch, row: usize) -> BufferId {
        self.layout.reserve(what, u64::from(self.sizes.rows) * row as u64 * 4)
    }

    /// The residual stream as it is now.
    pub(super) fn stream(&self) -> Result<Stream> {
        self.stream.ok_or_else(|| Error::internal("the residual stream begins with an embedding"))
    }

    /// A step has written to the residual stream, in this buffer.
    pub(super) fn streamed(&mut self, buffer: BufferId, width: usize) {
        self.stream = Some(Stream { h: self.made(buffer), width });
    }

    /// What the last step has left in a buffer.
    pub(super) fn made(&self, buffer: BufferId) -> Value {
        Value { buffer, made: self.plan.steps.len().saturating_sub(1) }
    }

    pub(super) fn per_row(&self, per: u32) -> Extent {
        if self.decode() { Extent::Fixed(1) } else { Extent::Rows { per } }
    }

    /// Where the producer of `matrix`'s input writes: in the fast lane int8 if every part of the matrix is quantized, in lane f16 halves for
    /// decode, f32 otherwise.
    pub(super) fn room(&mut self, what: fn(Form) -> Scratch, matrix: &Matrix) -> Room {
        let kb = matrix.kb();
        match self.select.lane() {
            _ if self.on_matrices(matrix) => Room::F16(self.scratch(what(Form::F16), kb * BLOCK / 2)),
            Lane::Fast if matrix.quantized() => self.room_q8(what, kb, 1),
            Lane::F16 if self.decode() => Room::F16(self.scratch(what(Form::F16), kb * BLOCK / 2)),
            _ => Room::F32(self.scratch(what(Form::F32), kb * BLOCK)),
        }
    }

    /// Room for int8 and their scales: `each` times `kb` blocks a row.
    pub(super) fn room_q8(&mut self, what: fn(Form) -> Scratch, kb: usize, each: usize) -> Room {
        Room::Q8(self.scratch(what(Form::Q8), each * kb * BLOCK / 4), self.scratch(what(Form::Scales), each * kb * 2))
    }

    /// What the last step has left in that room.
    pub(super) fn filled(&self, room: Room) -> Act {
        room.map(|buffer| self.made(buffer))
    }

    /// Whether a product of prefill runs on matrix units, which write whole tiles.
    pub(super) fn on_matrices(&self, matrix: &Matrix) -> bool {
        let whole = |part: &Part| part.rows.is_multiple_of(64) && part.row0.is_multiple_of(16);
        matches!(self.pass, Pass::Prefill | Pass::Short)
            && self.select.matrices()
            && self.sizes.rows.is_multiple_of(64)
            && matrix.bias.is_none()
            && matrix.parts.iter().all(|part| whole(part) && self.matrix_product(part, "f32").is_ok() && self.matrix_product(part, "f16").is_ok())
    }

    fn matrix_product(&self, part: &Part, act: &str) -> Result<Chosen> {
        let span = if part.rows >= WIDE_ROWS && part.rows.is_multiple_of(128) { "n128" } else { "n64" };
        self.select.choose("matmul_subgroup", &[("weight", part.kind.axis()), ("act", act), ("span", span)])
    }

    /// Whether a product with rows of `kb` blocks norms its own input. Halves do not: before it is normed the residual stream may exceed them.
    fn fuses_norm(&self, norm: &Norm, kb: usize) -> bool {
        self.decode() && !norm.center && kb <= PROLOGUE_BLOCKS && self.select.lane() != Lane::F16
    }

    /// Whether a product makes its input's gated norm itself: of int8 alone, as what every workgroup makes has to be kept by it.
    pub(super) fn fuses_gated_norm(&self, matrix: &Matrix) -> bool {
        let small = matrix.kb() <= PROLOGUE_BLOCKS && matrix.k.is_multiple_of(BLOCK);
        self.decode() && self.select.lane() == Lane::Fast && small && matrix.quantized() && matrix.bias.is_none()
    }

    /// Adds the product of a gated norm to the residual stream; the norm has these overrides and operands.
    pub(super) fn gated_product(&mut self, matrix: &Matrix, norm: &[(&'static str, f64)], operands: &[(&'static str, Operand)]) -> Result<()> {
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
            self.push(&matrix.name, chosen, [norm, &sizes].concat(), bindings, grid, part.kind.bytes((part.rows * matrix.kb()) as u64));
        }
        self.streamed(h.buffer, matrix.n);
        Ok(())
    }

    /// The bias of a product, as its override and its binding.
    fn bias(&self, matrix: &Matrix) -> ((&'static str, f64), (&'static str, Operand)) {
        (("BIAS", f64::from(u8::from(matrix.bias.is_some()))), ("bias", matrix.bias.unwrap_or(self.zeros).into()))
    }

    pub(super) fn push(&mut self, name: &str, chosen: Chosen, overrides: Overrides, mut operands: Operands, grid: Grid, bytes: u64) {
        let Chosen { variant, mut reason, choice } = chosen;
        if variant.bindings.iter().any(|b| b.name == "state") && operands.iter().all(|(n, _)| *n != "state") {
            operands.push(("state", self.state.into()));
        }
        let mut bindings = Vec::with_capacity(operands.len());
        let mut reads = Vec::new();
        for (binding, operand) in operands {
            let buffer = match operand {
                Operand::Buffer(buffer) => buffer,
                Operand::Value(value) => {
                    reads.push(value);
                    value.buffer
                }
            };
            bindings.push((binding, buffer));
        }
        if let Some(note) = bindings.iter().find(|(name, _)| *name == "wq").and_then(|(_, wq)| self.layout.note_of(*wq)) {
            reason = format!("{reason}; {note}");
        }
        let (stage, name) = (self.stage, name.to_owned());
        self.plan.steps.push(Step { stage, name, variant, overrides, bindings, reads, grid, bytes, key_bytes: 0, reason, choice });
    }

    /// The residual stream begins: the embeddings of this pass's tokens, times `scale`.
    pub fn embed(&mut self, name: &str, table: &Matrix, scale: f64) -> Result<()> {
        let h = self.scratch(Scratch::Residual, stride(table.k));
        self.gather(name, table, h.into(), if scale == 1.0 { vec![] } else { vec![("SCALE", scale)] })?;
        self.streamed(h, table.k);
        Ok(())
    }

    /// Adds the learned embeddings of this pass's positions to the residual stream.
    pub fn embed_positions(&mut self, name: &str, table: &Matrix) -> Result<()> {
        let h = self.stream()?.h;
        self.gather(name, table, h.into(), vec![("ADD", 1.0), ("POSITIONS", 1.0)])?;
        self.streamed(h.buffer, table.k);
        Ok(())
    }

    fn gather(&mut self, name: &str, table: &Matrix, h: Operand, how: Overrides) -> Result<()> {
        // In decode the token id is word 1 of the state, where the sampler put it.
        let (tokens, at) = if self.decode() { (self.state, 1.0) } else { (self.layout.reserve(Control::Tokens, u64::from(self.sizes.rows) * 4), 0.0) };
        for (i, part) in table.parts.iter().enumerate() {
            let chosen = self.select.choose("embed", &[("weight", part.kind.axis())])?;
            // A token's row lies in one of the parts: the others leave what is there.
            let h = if i == 0 { h } else { self.made(buffer_of(h)).into() };
            let mut bindings = weight_bindings(part);
            bindings.extend([("tokens", tokens.into()), ("h", h)]);
            let kb = table.kb();
            let mut overrides = vec![
                ("D", table.k as f64),
                ("KB", kb as f64),
                ("STRIDE", stride(table.k) as f64),
                ("ROW0", part.row0 as f64),
                ("ROWS", part.rows as f64),
                ("TOKEN_AT", at),
            ];
            overrides.extend(&how);
            let grid = Grid(self.per_row(1), Extent::Fixed(1));
            self.push(name, chosen, overrides, bindings, grid, part.kind.bytes(kb as u64));
        }
        Ok(())
    }

    /// The norm of the residual stream in the form that `consumer` reads. With `last`, only the pass's last row, as row 0.
    fn norm(&mut self, norm: &Norm, consumer: &Matrix, last: bool) -> Result<Act> {
        self.complete()?;
        let out = self.room(Scratch::Input, consumer);
        self.norm_as(norm, out, last)
    }

    /// The same in that form.
    pub(super) fn norm_as(&mut self, norm: &Norm, out: Room, last: bool) -> Result<Act> {
        let Stream { h, width } = self.stream()?;
        self.norm_step(norm, h, width, (out.axis(), out.outputs()), last)?;
        Ok(self.filled(out))
    }

    fn norm_step(&mut self, norm: &Norm, h: Value, d: usize, (out, outputs): (&str, Operands), last: bool) -> Result<()> {
        let grid = if last { Grid::folded(1) } else { Grid(self.per_row(1), Extent::Fixed(1)) };
        let chosen = self.select.choose("norm", &[("out", out)])?;
        let mut bindings: Operands = vec![("h", h.into()), ("nw", norm.weight.into()), ("nb", norm.bias.unwrap_or(self.zeros).into())];
        bindings.extend(outputs);
        let mut overrides = vec![
            ("D", d as f64),
            ("KB", d.div_ceil(BLOCK) as f64),
            ("STRIDE", stride(d) as f64),
            ("EPS", norm.eps),
            ("LAST", f64::from(u8::from(last && !self.decode()))),
        ];
        overrides.extend(norm.center.then_some(("CENTER", 1.0)));
        self.push(&norm.name, chosen, overrides, bindings, grid, d as u64 * 4);
        Ok(())
    }

    /// Adds what a product makes of `x` to the residual stream: `h += W x (+ bias)`, or `h += norm(W x (+ bias))`. In decode that norm waits for
    /// the next product that norms its own input, and becomes part of its prologue.
    pub fn add(&mut self, matrix: &Matrix, x: Act, norm: Option<Norm>) -> Result<()> {
        let width = stride(matrix.n);
        let Some(norm) = norm else {
            self.complete()?;
            let h = self.stream()?.h;
            self.product(self.linear_kernel(matrix), matrix, x, Sums { y: h.buffer, stride: width, add: true, cap: 0.0 })?;
            self.streamed(h.buffer, matrix.n);
            return Ok(());
        };
        self.complete()?;
        let y = self.scratch(Scratch::Block, width);
        let block = self.linear_to(matrix, x, y, width)?;
        let waits = self.decode() && self.select.lane() != Lane::F16 && !norm.center;
        self.pending = Some(Pending { norm, block });
        if waits { Ok(()) } else { self.complete() }
    }

    /// Adds what waits to the residual stream, by a dispatch of its own.
    pub(super) fn complete(&mut self) -> Result<()> {
        let Some(Pending { norm, block }) = self.pending.take() else { return Ok(()) };
        let Stream { h, width } = self.stream()?;
        self.norm_step(&norm, block, width, ("add", vec![("y", h.into())]), false)?;
        self.streamed(h.buffer, width);
        Ok(())
    }

    /// Pushes a step that norms its own input, the residual stream, and adds what waits to it, if anything does.
    #[expect(clippy::too_many_arguments, reason = "a step's parts, and the norm")]
    fn push_normed(&mut self, name: &str, norm: &Norm, chosen: Chosen, mut overrides: Overrides, mut bindings: Operands, grid: Grid, bytes: u64) -> Result<()> {
        let Stream { h, width } = self.stream()?;
        overrides.extend([("D", width as f64), ("EPS", norm.eps)]);
        let waiting = self.pending.take();
        // What is complete goes to the other buffer, as other workgroups still read this one.
        let (block, sum) = match &waiting {
            Some(Pending { block, .. }) => {
                overrides.push(("POST", 1.0));
                let other = self.layout.reserve(Scratch::ResidualSum, stride(width) as u64 * 4);
                let first = self.layout.reserve(Scratch::Residual, stride(width) as u64 * 4);
                (Operand::Value(*block), if h.buffer == first { other } else { first })
            }
            None => (self.zeros.into(), self.layout.reserve(Scratch::Unused, 16)),
        };
        bindings.extend([("h", h.into()), ("nw", norm.weight.into()), ("block", block), ("sum", sum.into())]);
        self.push(name, chosen, overrides, bindings, grid, bytes);
        if waiting.is_some() {
            self.streamed(sum, width);
        }
        Ok(())
    }

    /// The residual stream itself in the form that `consumer` reads. Halves may not hold it: lane f16 reads it as it is.
    pub fn unnormed(&mut self, name: &str, consumer: &Matrix) -> Result<Act> {
        self.complete()?;
        let h = self.stream()?.h;
        if self.select.lane() != Lane::Fast || !consumer.quantized() || self.on_matrices(consumer) {
            return Ok(Act::F32(h));
        }
        let out = self.room(Scratch::Input, consumer);
        self.quantize(name, h, consumer.kb(), out)
    }

    pub(super) fn quantize(&mut self, name: &str, x: Value, kb: usize, out: Room) -> Result<Act> {
        let chosen = self.select.choose("quantize", &[])?;
        let mut bindings: Operands = vec![("x", x.into())];
        bindings.extend(out.outputs());
        let grid = Grid(Extent::Fixed((kb as u32).div_ceil(8)), self.per_row(1));
        self.push(name, chosen, vec![("KB", kb as f64)], bindings, grid, 0);
        Ok(self.filled(out))
    }

    fn linear_kernel(&self, matrix: &Matrix) -> &'static str {
        match self.pass {
            Pass::Decode => "matvec",
            Pass::Few => "matvec_rows",
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
            let chosen = match kernel {
                "matvec" => self.select.choose_product(kernel, &axes, matrix.k, part.rows)?,
                "matvec_rows" => self.select.choose(kernel, &axes)?,
                "matmul_subgroup" => self.matrix_product(part, x.axis())?,
                _ => {
                    let span = if x.axis() == "q8" && part.rows >= WIDE_ROWS { "n128" } else { "n64" };
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
            let tile = chosen.variant.tile;
            let grid = if kernel.starts_with("matmul") {
                Grid(Extent::Fixed((part.rows as u32).div_ceil(tile[0])), Extent::Rows { per: tile[1] })
            } else {
                let split = split(chosen.variant, kb, part.rows);
                overrides.push(("SPLIT", f64::from(split)));
                Grid::folded((part.rows as u32).div_ceil(tile[0] / split))
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
        Ok(self.made(y))
    }

    /// Queries, keys and values of the normed residual stream, `W norm(h) (+ bias)`: f32 `[T, N]`. In decode the norm, and the quantization of its
    /// result, are the product's own prologue.
    pub fn norm_qkv(&mut self, norm: &Norm, matrix: &Matrix) -> Result<Value> {
        self.norm_linear(norm, matrix, Scratch::Qkv)
    }

    /// The same of any product, to that buffer.
    pub fn norm_linear(&mut self, norm: &Norm, matrix: &Matrix, to: Scratch) -> Result<Value> {
        if !self.fuses_norm(norm, matrix.kb()) {
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
            let chosen = self.select.choose_product("norm_matvec", &axes, matrix.k, part.rows)?;
            let mut overrides = part_overrides(matrix, part);
            let (set, bound) = self.bias(matrix);
            overrides.push(set);
            let grid = Grid::folded((part.rows as u32).div_ceil(chosen.variant.tile[0]));
            let mut bindings = weight_bindings(part);
            bindings.extend([("y", y.into()), bound]);
            self.push_normed(&matrix.name, norm, chosen, overrides, bindings, grid, part.kind.bytes((part.rows * matrix.kb()) as u64))?;
        }
        Ok(self.made(y))
    }

    /// The inner part of a feed-forward network, `act(gate) * up` or `act(up)` of `up norm(h)` (gate rows first; without a norm, of `up h`), in
    /// the form that `consumer` (the down product) reads. With gates and RMSNorm one dispatch in decode.
    pub fn mlp(&mut self, name: &str, norm: Option<&Norm>, up: &Matrix, mlp: Mlp, consumer: &Matrix) -> Result<Act> {
        let f = consumer.k;
        if up.n != if mlp.gated { 2 * f } else { f } {
            return Err(Error::internal(format!("{} has {} rows, the down product reads {f}", up.name, up.n)));
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
            let bytes = part.kind.bytes((part.rows * up.kb()) as u64);
            self.push_normed(&up.name, norm, chosen, overrides, bindings, Grid::folded((f as u32).div_ceil(32)), bytes)?;
            return Ok(self.filled(out));
        }
        let x = match norm {
            Some(norm) => self.norm(norm, up, false)?,
            None => self.unnormed(&format!("{name}_input"), up)?,
        };
        let products = self.scratch(Scratch::GateUp, up.n);
        let gate_up = self.linear_to(up, x, products, up.n)?;
        self.activate(&format!("{}.activate", up.name), gate_up, mlp, None, consumer)
    }

    /// The `act` axis of a product with `part` that makes its own activations.
    fn act_axis(&self, part: &Part) -> &'static str {
        if self.select.lane() == Lane::Fast && part.kind.quantized() { "q8" } else { "f32" }
    }

    /// `act(gate) * up` of `gate_up` (`[T, 2 F]`, gates first), or `act` of `[T, F]`, in the form that `consumer` (the down product) reads. With
    /// `factors` (and f32 a row of them) times the sigmoid of each row's last.
    pub(super) fn activate(&mut self, name: &str, gate_up: Value, mlp: Mlp, factors: Option<(Value, usize)>, consumer: &Matrix) -> Result<Act> {
        let out = self.room(Scratch::Activation, consumer);
        let chosen = self.select.choose("activate", &[("out", out.axis())])?;
        let kb = consumer.kb();
        let row = mlp.products() * consumer.k;
        let mut overrides = vec![("F", consumer.k as f64), ("KB", kb as f64), ("GSTRIDE", row as f64)];
        overrides.extend(factors.map(|(_, each)| ("FACTOR", each as f64)));
        overrides.extend(mlp.overrides());
        let factors = factors.map_or(self.zeros.into(), |(value, _)| Operand::Value(value));
        let mut bindings: Operands = vec![("gu", gate_up.into()), ("factors", factors)];
        bindings.extend(out.outputs());
        let grid = Grid(Extent::Fixed((kb as u32).div_ceil(8)), self.per_row(1));
        self.push(name, chosen, overrides, bindings, grid, 0);
        Ok(self.filled(out))
    }

    /// The logits of the last row, `[V]` f32, which stay on the GPU: `head norm(h)`, and `cap tanh(l / cap)` of them where `cap` is not 0. So many
    /// rows each with a prologue of their own would cost more than the norm's dispatch.
    pub fn head(&mut self, norm: &Norm, head: &Matrix, cap: f64) -> Result<Value> {
        self.stage(Stage::Head);
        let x = self.norm(norm, head, true)?;
        let logits = self.layout.reserve(Scratch::Logits, head.n as u64 * 4);
        self.product("matvec", head, x, Sums { y: logits, stride: head.n, add: false, cap })
    }
}

fn buffer_of(operand: Operand) -> BufferId {
    match operand {
        Operand::Buffer(buffer) | Operand::Value(Value { buffer, .. }) => buffer,
    }
}
