//! The operations of which an architecture's forward pass is made: each appends the steps of one operation, for a
//! prefill pass or a decode step.

use super::product::{Sums, weight_bindings};
use super::{
    Act, Adapters, Chosen, Extent, FEW, Grid, Lane, Norm, Overrides, Pass, Plan, Room, Selector, Stage, Step, Value,
};
use crate::base::numbers;
use crate::blocks::BLOCK;
use crate::error::{Error, Result};
use crate::kernels::State;
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

/// The residual stream: f32 `[T, stride(D)]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    /// As the last step that wrote to it has left it.
    pub h: Value,
    /// D.
    pub width: usize,
}

/// What has yet to be added to the residual stream.
pub(super) enum Pending {
    /// A block's result, once normed.
    Block { norm: Norm, block: Value },
    /// What a product makes, which is part of `stage`.
    Product { matrix: Matrix, x: Act, stage: Stage },
}

/// Builds the plan of one pass.
pub struct Builder<'a> {
    pub(super) layout: &'a mut Layout,
    pub(super) select: &'a Selector,
    pub(super) sizes: Sizes,
    pub(super) pass: Pass,
    stage: Stage,
    pub(super) state: BufferId,
    /// What a binding that a model does not need is bound to.
    pub(super) zeros: BufferId,
    pub(super) plan: Plan,
    pub(super) stream: Option<Stream>,
    pub(super) pending: Option<Pending>,
    /// Where the texts of a pass of several begin and end, and whether rows see what comes after them.
    pub(super) spans: Option<(BufferId, bool)>,
    /// What rows may have added to products.
    pub(super) adapters: Option<&'a Adapters>,
    /// Features of a tower's intermediate layers that are kept: number, value, width once joined.
    pub(super) joined: Vec<(usize, Value, usize)>,
    /// Where a prompt may have rows in place of tokens: 1, and for each layer behind which rows are added one more.
    rows: u32,
    /// Whether the host says where each row is on the axes of positions.
    pub(super) axes: bool,
    /// Whether steps of one row are a draft model's.
    drafts_for_another: bool,
    /// The steps of [`Stage::Settle`].
    settling: Vec<Step>,
}

/// Most blocks of a row that a product with a norm of its own has room for. Wider models take a norm dispatch.
const PROLOGUE_BLOCKS: usize = numbers::PROLOGUE_BLOCKS as usize;
/// Most blocks of a row that a product has room for which norms four rows.
const ROWS_PROLOGUE_BLOCKS: usize = numbers::ROWS_PROLOGUE_BLOCKS as usize;

const STATE_BYTES: u64 = State::BYTES as u64;

impl<'a> Builder<'a> {
    /// A builder for a pass.
    pub fn new(layout: &'a mut Layout, select: &'a Selector, sizes: Sizes, pass: Pass) -> Self {
        let state = layout.reserve(
            if pass == Pass::Decode || pass.is_step_of_rows() { Control::Decode } else { Control::Prefill },
            STATE_BYTES,
        );
        // As much as the largest uniform wants.
        let zeros = layout.reserve(Control::Zeros, 8 * u64::from(numbers::HEAD_ROOM));
        let (plan, stage) = (Plan::default(), Stage::Embed);
        Self {
            layout,
            select,
            sizes,
            pass,
            stage,
            state,
            zeros,
            plan,
            stream: None,
            pending: None,
            spans: None,
            adapters: None,
            joined: Vec::new(),
            rows: 0,
            axes: false,
            drafts_for_another: false,
            settling: Vec::new(),
        }
    }

    /// A prompt may have rows in place of tokens, and further rows that are added behind the first `deepstack` layers.
    #[must_use]
    pub fn with_rows(self, deepstack: usize) -> Self {
        Self { rows: 1 + deepstack as u32, axes: true, ..self }
    }

    /// Steps of one row are a draft model's.
    #[must_use]
    pub fn as_drafter(self) -> Self {
        Self { drafts_for_another: true, ..self }
    }

    /// Whether this is a draft model's step.
    pub(super) fn drafts_for_another(&self) -> bool {
        self.decode() && self.drafts_for_another
    }

    /// Whether a prompt may have rows in place of tokens.
    pub(super) fn has_rows(&self) -> bool {
        self.rows > 0
    }

    /// Whether it is the step of one row.
    pub(super) fn decode(&self) -> bool {
        self.pass == Pass::Decode
    }

    /// The rows of a decode step: 1, or as many as a token and its drafts are. None of a pass over a prompt.
    pub(super) fn step_rows(&self) -> Option<u32> {
        self.pass.step_rows()
    }

    /// Whether each row of this step runs the products of a single row: in lane exact, which promises the same numbers.
    pub(super) fn each(&self) -> bool {
        self.pass.is_step_of_rows() && self.select.lane() == Lane::Exact
    }

    /// Whether products compute their own input (norm, quantization), as they do for one row.
    fn fuses(&self) -> bool {
        self.decode() || self.each()
    }

    /// The override of kernels that ask where a row is: a step's may be of several sequences.
    pub(super) fn apart(&self) -> Option<(&'static str, f64)> {
        self.pass.is_step_of_rows().then_some(("APART", 1.0))
    }

    /// The overrides and the grid of a product of one row, `n` wide, in a step of several.
    pub(super) fn each_row(&self, grid: Grid, n: usize) -> (Grid, Overrides) {
        if self.each() {
            (grid.deep(self.pass.rows(self.sizes)), vec![("EACH", 1.0), ("NSTRIDE", n as f64)])
        } else {
            (grid, Vec::new())
        }
    }

    /// What comes now is part of that.
    pub fn stage(&mut self, stage: Stage) {
        self.stage = stage;
    }

    /// Appends what is part of `stage`, which is not that of what comes now.
    pub(super) fn within<T>(&mut self, stage: Stage, append: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let now = std::mem::replace(&mut self.stage, stage);
        let appended = append(self);
        self.stage = now;
        appended
    }

    /// From here on only the pass's last row goes on, by the steps of a decode step: what comes is for its logits
    /// alone. Of `beside`, f32 `[T, width]`, its last row is what is handed back.
    pub fn tail(&mut self, beside: Option<(Value, usize)>) -> Result<Option<Value>> {
        // Each row of a step has logits.
        if self.step_rows().is_some() {
            return Ok(beside.map(|(value, _)| value));
        }
        self.complete()?;
        let Stream { h, width } = self.stream()?;
        self.pass = Pass::Decode;
        self.state = self.layout.reserve(Control::Last, STATE_BYTES);
        let to = self.layout.reserve(Scratch::ResidualSum, stride(width) as u64 * 4);
        self.last_row("tail", h, width, to)?;
        self.streamed(to, width);
        let Some((value, width)) = beside else { return Ok(None) };
        let to = self.layout.reserve(Scratch::PerLayerLast, stride(width) as u64 * 4);
        self.last_row("tail.per_layer", value, width, to)?;
        Ok(Some(self.made(to)))
    }

    /// Copies a row of f32 as an embedding is: the number of the row is the token.
    fn last_row(&mut self, name: &str, from: Value, width: usize, to: BufferId) -> Result<()> {
        let chosen = self.select.choose("embed", &[("weight", "f32")])?;
        let operands = vec![("wq", from.into()), ("tokens", self.state.into()), ("h", to.into())];
        self.push(name, chosen, copies(width, self.sizes.rows, 1), operands, Grid::folded(1), 0);
        Ok(())
    }

    /// The step that was pushed last is one of [`Stage::Settle`], which come at the plan's end.
    pub(super) fn settles(&mut self) {
        self.settling.extend(self.plan.steps.pop().map(|step| Step { stage: Stage::Settle, ..step }));
    }

    /// The finished plan.
    pub fn finish(mut self) -> Plan {
        self.plan.steps.append(&mut self.settling);
        self.plan
    }

    /// A scratch buffer of `rows` rows of `row` words.
    pub(super) fn scratch(&mut self, what: Scratch, row: usize) -> BufferId {
        self.layout.reserve(what, u64::from(self.sizes.rows.max(FEW)) * row as u64 * 4)
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

    /// Where the producer of `matrix`'s input writes: in the fast lane int8 if every part of the matrix is quantized,
    /// in lane f16 halves, but for the few rows for which each weight is read once, f32 otherwise.
    pub(super) fn room(&mut self, what: fn(Form) -> Scratch, matrix: &Matrix) -> Room {
        let kb = matrix.kb();
        match self.select.lane() {
            _ if self.on_matrices(matrix) => Room::F16(self.scratch(what(Form::F16), kb * BLOCK / 2)),
            Lane::Fast if matrix.quantized() => self.room_q8(what, kb, 1),
            Lane::F16 if self.pass != Pass::Few && !self.pass.is_step_of_rows() => {
                Room::F16(self.scratch(what(Form::F16), kb * BLOCK / 2))
            }
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

    /// Whether a product with rows of `kb` blocks norms its own input; in lane f16 in f32, as the residual stream may
    /// exceed halves before that.
    pub(super) fn fuses_norm(&self, norm: &Norm, kb: usize) -> bool {
        self.fuses() && !norm.center && kb <= PROLOGUE_BLOCKS
    }

    /// Whether products of this step may norm its rows: with eight that takes longer than a dispatch.
    fn fuses_rows(&self) -> bool {
        self.pass == Pass::Four && self.select.lane() == Lane::Fast
    }

    /// Whether the product `kernel` of four rows with `matrix` norms its own input. `axes`: those beside the types of
    /// weights and activations.
    pub(super) fn fuses_norm_of_rows(
        &self,
        kernel: &str,
        norm: &Norm,
        matrix: &Matrix,
        axes: &[(&'static str, &'static str)],
    ) -> bool {
        let offered =
            |part: &Part| self.select.offers(kernel, &[&[("weight", part.kind.axis()), ("act", "q8")], axes].concat());
        self.fuses_rows()
            && !norm.center
            && matrix.kb() <= ROWS_PROLOGUE_BLOCKS
            && self.adapts(matrix).is_none()
            && matrix.parts.iter().all(offered)
    }

    /// Whether a product makes its input's gated norm itself: of int8 alone, as what every workgroup makes has to be
    /// kept by it.
    pub(super) fn fuses_gated_norm(&self, matrix: &Matrix) -> bool {
        let small = matrix.kb() <= PROLOGUE_BLOCKS && matrix.k.is_multiple_of(BLOCK);
        self.decode()
            && self.select.lane() == Lane::Fast
            && small
            && matrix.quantized()
            && matrix.bias.is_none()
            && self.adapts(matrix).is_none()
    }

    pub(super) fn push(
        &mut self,
        name: &str,
        chosen: Chosen,
        overrides: Overrides,
        mut operands: Operands,
        grid: Grid,
        bytes: u64,
    ) {
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
        if let Some(note) = bindings.iter().find(|(name, _)| *name == "wq").and_then(|(_, wq)| self.layout.note_of(*wq))
        {
            reason = format!("{reason}; {note}");
        }
        let (stage, name) = (self.stage, name.to_owned());
        self.plan.steps.push(Step {
            stage,
            name,
            variant,
            overrides,
            bindings,
            reads,
            grid,
            bytes,
            key_bytes: 0,
            reason,
            choice,
        });
    }

    /// The residual stream begins: the embeddings of this pass's tokens, times `scale`.
    pub fn embed(&mut self, name: &str, table: &Matrix, scale: f64) -> Result<()> {
        let h = self.scratch(Scratch::Residual, stride(table.k));
        self.gather(name, table, h.into(), if scale == 1.0 { vec![] } else { vec![("SCALE", scale)] })?;
        self.streamed(h, table.k);
        self.place_rows(0)?;
        Ok(())
    }

    /// Rows of the residual stream become those that the host has given in place of embeddings, as if these were a
    /// table of `[T]` and their places its tokens; behind layers those of a further table are added. Of a step, which
    /// has tokens alone, and of plans for prompts of tokens nothing.
    pub fn place_rows(&mut self, behind: usize) -> Result<()> {
        let (rows, tables) = (self.sizes.rows, self.rows);
        if behind as u32 >= tables || self.step_rows().is_some() {
            return Ok(());
        }
        self.complete()?;
        let Stream { h, width } = self.stream()?;
        let values = self.layout.reserve(Control::Embedded, u64::from(tables * rows) * stride(width) as u64 * 4);
        let places = self.layout.reserve(Control::EmbeddedAt, u64::from(tables * rows) * 4);
        let chosen = self.select.choose("embed", &[("weight", "f32")])?;
        let operands = vec![("wq", values.into()), ("tokens", places.into()), ("h", h.into())];
        let grid = Grid::of(self.per_row(1), Extent::Fixed(1));
        let mut how = copies(width, tables * rows, behind * rows as usize);
        how.extend((behind > 0).then_some(("ADD", 1.0)));
        self.push("embedded", chosen, how, operands, grid, 0);
        self.streamed(h.buffer, width);
        Ok(())
    }

    /// Adds the learned embeddings of this pass's positions to the residual stream.
    pub fn embed_positions(&mut self, name: &str, table: &Matrix) -> Result<()> {
        // In a pass of several texts each begins at 0: the host gives every row's position.
        if self.spans.is_some() {
            return self.embed_more(name, table, Control::Positions);
        }
        let h = self.stream()?.h;
        self.gather(name, table, h.into(), vec![("ADD", 1.0), ("POSITIONS", 1.0)])?;
        self.streamed(h.buffer, table.k);
        Ok(())
    }

    /// Adds rows of a table to the residual stream, by numbers of which the host gives one for each row of texts.
    pub fn embed_more(&mut self, name: &str, table: &Matrix, numbers: Control) -> Result<()> {
        let h = self.stream()?.h;
        let numbers = self.layout.reserve(numbers, u64::from(self.sizes.rows) * 4);
        self.gather_from(name, table, h.into(), vec![("ADD", 1.0)], (numbers, 0.0))?;
        self.streamed(h.buffer, table.k);
        Ok(())
    }

    pub(super) fn gather(&mut self, name: &str, table: &Matrix, h: Operand, how: Overrides) -> Result<()> {
        // In decode the token id is word 1 of the state, where the sampler put it.
        let tokens = match self.pass {
            Pass::Decode => (self.state, 1.0),
            Pass::Four | Pass::Eight => (self.drafts(), 0.0),
            _ => (self.layout.reserve(Control::Tokens, u64::from(self.sizes.rows) * 4), 0.0),
        };
        self.gather_from(name, table, h, how, tokens)
    }

    fn gather_from(
        &mut self,
        name: &str,
        table: &Matrix,
        h: Operand,
        how: Overrides,
        (tokens, at): (BufferId, f64),
    ) -> Result<()> {
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
            overrides.extend(self.apart());
            let grid = Grid::of(self.per_row(1), Extent::Fixed(1));
            self.push(name, chosen, overrides, bindings, grid, part.kind.bytes(kb as u64));
        }
        Ok(())
    }

    /// The norm of the residual stream in the form that `consumer` reads. With `last`, only the pass's last row, as row
    /// 0.
    pub(super) fn norm(&mut self, norm: &Norm, consumer: &Matrix, last: bool) -> Result<Act> {
        self.complete()?;
        let out = self.room(Scratch::Input, consumer);
        self.norm_as(norm, out, last)
    }

    /// The norm of the residual stream into `out`, in its form. With `last`, only the pass's last row, as row 0.
    pub(super) fn norm_as(&mut self, norm: &Norm, out: Room, last: bool) -> Result<Act> {
        let Stream { h, width } = self.stream()?;
        self.norm_step(norm, h, width, (out.axis(), out.outputs()), last)?;
        Ok(self.filled(out))
    }

    pub(super) fn norm_step(
        &mut self,
        norm: &Norm,
        h: Value,
        d: usize,
        (out, outputs): (&str, Operands),
        last: bool,
    ) -> Result<()> {
        let grid = if last { Grid::folded(1) } else { Grid::of(self.per_row(1), Extent::Fixed(1)) };
        let chosen = self.select.choose("norm", &[("out", out)])?;
        let mut bindings: Operands =
            vec![("h", h.into()), ("nw", norm.weight.into()), ("nb", norm.bias.unwrap_or(self.zeros).into())];
        bindings.extend(outputs);
        let mut overrides = vec![
            ("D", d as f64),
            ("KB", d.div_ceil(BLOCK) as f64),
            ("STRIDE", stride(d) as f64),
            ("EPS", norm.eps),
            ("LAST", f64::from(u8::from(last && !self.decode()))),
        ];
        overrides.extend(norm.center.then_some(("CENTER", 1.0)));
        overrides.extend((out == "add" && norm.scaled).then_some(("SCALED", 1.0)));
        self.push(&norm.name, chosen, overrides, bindings, grid, d as u64 * 4);
        Ok(())
    }

    /// Adds what a product makes of `x` to the residual stream: `h += W x (+ bias)`, or `h += norm(W x (+ bias))`. In
    /// decode that norm waits for the next product that norms its own input, and becomes part of its prologue.
    pub fn add(&mut self, matrix: &Matrix, x: Act, norm: Option<Norm>) -> Result<()> {
        let width = stride(matrix.n);
        let Some(norm) = norm else {
            self.complete()?;
            if self.may_open(matrix, x) {
                self.pending = Some(Pending::Product { matrix: matrix.clone(), x, stage: self.stage });
                return Ok(());
            }
            return self.add_product(matrix, x);
        };
        self.complete()?;
        let y = self.scratch(Scratch::Block, width);
        let block = self.linear_to(matrix, x, y, width)?;
        self.add_normed(norm, block)
    }

    /// Adds what a product makes of `x` to the residual stream, now.
    fn add_product(&mut self, matrix: &Matrix, x: Act) -> Result<()> {
        let h = self.stream()?.h;
        let sums = Sums { y: h.buffer, stride: stride(matrix.n), add: true, cap: 0.0 };
        self.product(self.linear_kernel(matrix), matrix, x, sums)?;
        self.streamed(h.buffer, matrix.n);
        Ok(())
    }

    /// Adds the norm of a block's result to the residual stream.
    pub(super) fn add_normed(&mut self, norm: Norm, block: Value) -> Result<()> {
        let waits = (self.fuses() || self.fuses_rows()) && !norm.center;
        self.pending = Some(Pending::Block { norm, block });
        if waits { Ok(()) } else { self.complete() }
    }

    /// The residual stream becomes its own norm, in its other buffer.
    pub fn renorm(&mut self, norm: &Norm) -> Result<()> {
        self.complete()?;
        let Stream { h, width } = self.stream()?;
        let [first, other] =
            [Scratch::Residual, Scratch::ResidualSum].map(|buffer| self.scratch(buffer, stride(width)));
        let to = if h.buffer == first { other } else { first };
        self.norm_step(norm, h, width, ("f32", vec![("y", to.into())]), false)?;
        self.streamed(to, width);
        Ok(())
    }

    /// Adds what waits to the residual stream, by a dispatch of its own.
    pub fn complete(&mut self) -> Result<()> {
        let (norm, block) = match self.pending.take() {
            None => return Ok(()),
            Some(Pending::Block { norm, block }) => (norm, block),
            Some(Pending::Product { matrix, x, stage }) => {
                return self.within(stage, |b| b.add_product(&matrix, x));
            }
        };
        let Stream { h, width } = self.stream()?;
        self.norm_step(&norm, block, width, ("add", vec![("y", h.into())]), false)?;
        self.streamed(h.buffer, width);
        Ok(())
    }

    /// Pushes a step that norms its own input, the residual stream, and adds what waits to it, if anything does.
    #[expect(clippy::too_many_arguments, reason = "a step's parts, and the norm")]
    pub(super) fn push_normed(
        &mut self,
        name: &str,
        norm: &Norm,
        chosen: Chosen,
        mut overrides: Overrides,
        mut bindings: Operands,
        grid: Grid,
        bytes: u64,
    ) -> Result<()> {
        let Stream { h, width } = self.stream()?;
        overrides.extend([("D", width as f64), ("EPS", norm.eps)]);
        overrides.extend(norm.plain.then_some(("PLAIN", 1.0)));
        let waiting = self.pending.take();
        // The completed sum goes to the other buffer, as other workgroups still read this one.
        let (block, sum) = match &waiting {
            Some(Pending::Product { .. }) => {
                return Err(Error::internal(format!("{name}: a product waits for a norm that this one does itself")));
            }
            Some(Pending::Block { block, norm }) => {
                overrides.push(("POST", 1.0));
                overrides.extend(norm.scaled.then_some(("SCALED", 1.0)));
                let other = self.scratch(Scratch::ResidualSum, stride(width));
                let first = self.scratch(Scratch::Residual, stride(width));
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

    /// The residual stream itself in the form that `consumer` reads. Halves may not hold it: lane f16 reads it as it
    /// is.
    pub fn unnormed(&mut self, name: &str, consumer: &Matrix) -> Result<Act> {
        self.complete()?;
        let h = self.stream()?.h;
        self.given(name, h, consumer)
    }

    /// Rows of f32 in the form that `consumer` reads.
    pub(super) fn given(&mut self, name: &str, h: Value, consumer: &Matrix) -> Result<Act> {
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
        let grid = Grid::of(Extent::Fixed((kb as u32).div_ceil(8)), self.per_row(1));
        self.push(name, chosen, vec![("KB", kb as f64)], bindings, grid, 0);
        Ok(self.filled(out))
    }

    /// The logits of the last row, or of each of a step's, f32 `[T, V]`, which stay on the GPU: l = `head norm(h)`, and
    /// where `cap` is not 0 `cap tanh(l / cap)`. With several rows a prologue in each would cost more than the norm's
    /// dispatch.
    pub fn head(&mut self, norm: &Norm, head: &Matrix, cap: f64) -> Result<Value> {
        self.stage(Stage::Head);
        let rows = self.step_rows().unwrap_or(1);
        let x = self.norm(norm, head, rows == 1)?;
        let logits = self.layout.reserve(Scratch::Logits, u64::from(rows) * head.n as u64 * 4);
        self.product(
            if rows == 1 { "matvec" } else { "matvec_rows" },
            head,
            x,
            Sums { y: logits, stride: head.n, add: false, cap },
        )
    }
}

/// What has the kernel of embeddings copy rows of f32, `[rows][stride(width)]`: their numbers stand from `at` on where
/// tokens do.
pub(super) fn copies(width: usize, rows: u32, at: usize) -> Overrides {
    let numbers = [
        ("D", width),
        ("KB", width.div_ceil(BLOCK)),
        ("STRIDE", stride(width)),
        ("ROW0", 0),
        ("ROWS", rows as usize),
        ("TOKEN_AT", at),
    ];
    numbers.map(|(name, n)| (name, n as f64)).to_vec()
}

fn buffer_of(operand: Operand) -> BufferId {
    match operand {
        Operand::Buffer(buffer) | Operand::Value(Value { buffer, .. }) => buffer,
    }
}
