//! The operations of which an architecture's forward pass is made: each appends the steps of one operation, for a prefill pass or a decode step.

use super::{Act, Bindings, BufferId, Chosen, Extent, Grid, Lane, Layout, Mlp, Norm, Overrides, Plan, Role, Selector, Step};
use crate::error::{Error, Result};
use crate::kernels::{State, Variant};
use crate::sample::{FILTER_ROUNDS, MAX_TOP_LOGPROBS, SLICES, Sampling};
use crate::weights::{BLOCK, Matrix, Part};

/// Sizes that the plan is made for.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Most rows of a pass: the prefill chunk; 1 in decode.
    pub rows: u32,
    /// Positions that the cache holds, C.
    pub capacity: u32,
    /// Token ids that the ring holds between two readbacks.
    pub ring: u32,
}

/// Where the sums of a product go.
pub(super) struct Sums {
    pub y: BufferId,
    /// f32 between its rows.
    pub stride: usize,
    /// They are added to what is there.
    pub add: bool,
    /// They become `cap tanh(y / cap)`; 0: they stay.
    pub cap: f64,
}

/// What a plan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Up to `Sizes::rows` rows of a prompt.
    Prefill,
    /// Up to [`SHORT`] rows of a prompt: too few to fill a GPU with tiles of rows, each row's keys are dealt out as in decode.
    Short,
    /// Up to [`FEW`] rows of a prompt: each weight is read once for all of them, as in decode.
    Few,
    /// One row, and the token after it.
    Decode,
}

/// Most rows of [`Pass::Few`].
pub const FEW: u32 = 8;
/// Most rows of [`Pass::Short`].
pub const SHORT: u32 = 64;

/// Buffers that every architecture shares, by their labels in the layout.
pub mod labels {
    /// State of the decode loop.
    pub const STATE: &str = "state";
    /// State of a prefill pass.
    pub const PREFILL: &str = "prefill.state";
    /// Token ids of a prefill pass.
    pub const TOKENS: &str = "tokens";
    /// Sampling parameters.
    pub const SAMPLING: &str = "sampling";
    /// Sampled token ids between two readbacks.
    pub const RING: &str = "ring";
    /// Logits of the last row.
    pub const LOGITS: &str = "logits";
    /// Of each token whether it is in the prompt, how often in the answer, and its bias.
    pub const TALLIES: &str = "sample.tallies";
    /// The likeliest tokens of each step between two readbacks.
    pub const LIKELIEST: &str = "sample.likeliest";
    /// The log probabilities of the token of each step, and of those.
    pub const LOGPROBS: &str = "sample.logprobs";
    /// What unused bindings are bound to.
    pub const ZEROS: &str = "zeros";
    /// What outputs that nobody reads are bound to.
    pub const UNUSED: &str = "unused";
    /// cos and sin by position, of the model's n-th rotary positions.
    pub fn rotations(n: usize) -> String {
        if n == 0 { "rotations".into() } else { format!("rotations.{n}") }
    }
}

/// Builds the plan of one pass.
pub struct Builder<'a> {
    pub(super) layout: &'a mut Layout,
    pub(super) select: &'a Selector,
    pub(super) sizes: Sizes,
    pub(super) pass: Pass,
    state: BufferId,
    /// What a binding that a model does not need is bound to.
    pub(super) zeros: BufferId,
    /// What an output that nobody reads is bound to.
    unused: BufferId,
    pub(super) plan: Plan,
    /// A block's result that has yet to be normed and added to the residual stream: its norm, the result, its width.
    pending: Option<(Norm, BufferId, usize)>,
    /// Whether the residual stream is in the second of its two buffers.
    swapped: bool,
}

/// Rows from which there are enough to fill any GPU with one group of lanes each.
const MANY_ROWS: usize = 16_384;

/// Most blocks of a row that a product with a norm of its own has room for (shaders/common/normed.wgsl). Wider models take a norm dispatch.
const PROLOGUE_BLOCKS: usize = 128;

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

pub(super) fn weight_bindings(part: &Part) -> Bindings {
    [Some(("wq", part.wq)), part.ws.map(|ws| ("ws", ws))].into_iter().flatten().collect()
}

const STATE_BYTES: u64 = State::BYTES as u64;

impl<'a> Builder<'a> {
    /// A builder for a pass.
    pub fn new(layout: &'a mut Layout, select: &'a Selector, sizes: Sizes, pass: Pass) -> Self {
        let state = layout.shared(if pass == Pass::Decode { labels::STATE } else { labels::PREFILL }, STATE_BYTES, Role::State);
        // As much as the largest uniform wants.
        let zeros = layout.shared(labels::ZEROS, 2048, Role::State);
        let unused = layout.shared(labels::UNUSED, 16, Role::Activation);
        Self { layout, select, sizes, pass, state, zeros, unused, plan: Plan::default(), pending: None, swapped: false }
    }

    pub(super) fn decode(&self) -> bool {
        self.pass == Pass::Decode
    }

    /// The finished plan.
    pub fn finish(self) -> Plan {
        self.plan
    }

    /// A scratch buffer of `rows` rows of `row` words, shared by all layers and by both plans.
    pub fn scratch(&mut self, label: &str, row: usize) -> BufferId {
        self.layout.shared(label, u64::from(self.sizes.rows) * row as u64 * 4, Role::Activation)
    }

    /// The residual stream: f32 `[T, stride(D)]`.
    pub fn residual(&mut self, d: usize) -> BufferId {
        self.scratch("residual", stride(d))
    }

    pub(super) fn per_row(&self, per: u32) -> Extent {
        if self.decode() { Extent::Fixed(1) } else { Extent::Rows { per } }
    }

    /// Where the producer of `matrix`'s input writes: in the fast lane int8 if every part of the matrix is quantized, in lane f16 halves for
    /// decode, f32 otherwise.
    pub(super) fn act(&mut self, label: &str, matrix: &Matrix) -> Act {
        let kb = matrix.kb();
        match self.select.lane() {
            _ if self.on_matrices(matrix) => Act::F16(self.scratch(&format!("{label}.f16"), kb * BLOCK / 2)),
            Lane::Fast if matrix.quantized() => Act::Q8(self.scratch(&format!("{label}.q8"), kb * BLOCK / 4), self.scratch(&format!("{label}.scales"), kb * 2)),
            Lane::F16 if self.decode() => Act::F16(self.scratch(&format!("{label}.f16"), kb * BLOCK / 2)),
            _ => Act::F32(self.scratch(&format!("{label}.f32"), kb * BLOCK)),
        }
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

    /// The bias of a product, as its override and its binding.
    fn bias(&self, matrix: &Matrix) -> ((&'static str, f64), (&'static str, BufferId)) {
        (("BIAS", f64::from(u8::from(matrix.bias.is_some()))), ("bias", matrix.bias.unwrap_or(self.zeros)))
    }

    pub(super) fn push(&mut self, name: &str, chosen: Chosen, overrides: Overrides, mut bindings: Bindings, grid: Grid, bytes: u64) {
        let Chosen { variant, mut reason, choice } = chosen;
        if let Some(note) = bindings.iter().find(|(name, _)| *name == "wq").and_then(|(_, wq)| self.layout.note_of(*wq)) {
            reason = format!("{reason}; {note}");
        }
        if variant.bindings.iter().any(|b| b.name == "state") && bindings.iter().all(|(n, _)| *n != "state") {
            bindings.push(("state", self.state));
        }
        self.plan.steps.push(Step { name: name.to_owned(), variant, overrides, bindings, grid, bytes, key_bytes: 0, reason, choice });
    }

    /// Gathers the embeddings of this pass's tokens, times `scale`, into `h`, `[T, stride(D)]`.
    pub fn embed(&mut self, name: &str, table: &Matrix, h: BufferId, scale: f64) -> Result<()> {
        self.gather(name, table, h, if scale == 1.0 { vec![] } else { vec![("SCALE", scale)] })
    }

    /// Adds the learned embeddings of this pass's positions to `h`.
    pub fn embed_positions(&mut self, name: &str, table: &Matrix, h: BufferId) -> Result<()> {
        self.gather(name, table, h, vec![("ADD", 1.0), ("POSITIONS", 1.0)])
    }

    fn gather(&mut self, name: &str, table: &Matrix, h: BufferId, how: Overrides) -> Result<()> {
        // In decode the token id is word 1 of the state, where the sampler put it.
        let (tokens, at) =
            if self.decode() { (self.state, 1.0) } else { (self.layout.shared(labels::TOKENS, u64::from(self.sizes.rows) * 4, Role::State), 0.0) };
        for part in &table.parts {
            let chosen = self.select.choose("embed", &[("weight", part.kind.axis())])?;
            let mut bindings = vec![("tokens", tokens), ("wq", part.wq), ("h", h)];
            bindings.extend(part.ws.map(|ws| ("ws", ws)));
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

    /// The norm of `h` in the form that `consumer` reads. With `last`, only the pass's last row, as row 0.
    fn norm(&mut self, norm: &Norm, h: BufferId, consumer: &Matrix, last: bool) -> Result<Act> {
        self.complete(h)?;
        let h = self.stream(h, consumer.k);
        let out = self.act("x", consumer);
        self.norm_as(norm, h, consumer.k, out, last)?;
        Ok(out)
    }

    pub(super) fn norm_as(&mut self, norm: &Norm, h: BufferId, d: usize, out: Act, last: bool) -> Result<()> {
        self.norm_step(norm, h, d, (out.axis(), out.outputs()), last)
    }

    fn norm_step(&mut self, norm: &Norm, h: BufferId, d: usize, (out, outputs): (&str, Bindings), last: bool) -> Result<()> {
        let grid = if last { Grid::folded(1) } else { Grid(self.per_row(1), Extent::Fixed(1)) };
        let chosen = self.select.choose("norm", &[("out", out)])?;
        let mut bindings = vec![("h", h), ("nw", norm.weight), ("nb", norm.bias.unwrap_or(self.zeros))];
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

    /// `h += norm(y)`, both `[T, stride(D)]`. In decode it waits for the next product that norms its own input, and becomes part of its prologue.
    pub fn add_norm(&mut self, norm: &Norm, y: BufferId, h: BufferId, d: usize) -> Result<()> {
        self.complete(h)?;
        if self.decode() && self.select.lane() != Lane::F16 && !norm.center {
            self.pending = Some((norm.clone(), y, d));
            return Ok(());
        }
        self.norm_step(norm, y, d, ("add", vec![("y", h)]), false)
    }

    /// Adds what waits to the residual stream `h`, by a dispatch of its own.
    pub(super) fn complete(&mut self, h: BufferId) -> Result<()> {
        match self.pending.take() {
            Some((norm, y, d)) => {
                let h = self.stream(h, d);
                self.norm_step(&norm, y, d, ("add", vec![("y", h)]), false)
            }
            None => Ok(()),
        }
    }

    /// Where the residual stream `h` is now.
    pub(super) fn stream(&mut self, h: BufferId, d: usize) -> BufferId {
        if self.swapped { self.layout.shared("residual.2", stride(d) as u64 * 4, Role::Activation) } else { h }
    }

    /// What a product that norms its own input reads and writes besides: what waits to be added to the residual stream, if anything does.
    fn prologue(&mut self, norm: &Norm, h: BufferId, d: usize) -> (Overrides, Bindings) {
        let from = self.stream(h, d);
        let mut overrides = vec![("D", d as f64), ("EPS", norm.eps)];
        let (block, sum) = match self.pending.take() {
            Some((_, block, _)) => {
                overrides.push(("POST", 1.0));
                self.swapped = !self.swapped;
                (block, self.stream(h, d))
            }
            None => (self.zeros, self.unused),
        };
        (overrides, vec![("h", from), ("nw", norm.weight), ("block", block), ("sum", sum)])
    }

    /// `h` itself in the form that `consumer` reads. Halves may not hold the residual stream: lane f16 reads it as it is.
    pub fn unnormed(&mut self, name: &str, h: BufferId, consumer: &Matrix) -> Result<Act> {
        self.complete(h)?;
        let h = self.stream(h, consumer.k);
        if self.select.lane() != Lane::Fast || !consumer.quantized() || self.on_matrices(consumer) {
            return Ok(Act::F32(h));
        }
        let out = self.act("x", consumer);
        self.quantize(name, h, consumer.kb(), out)?;
        Ok(out)
    }

    pub(super) fn quantize(&mut self, name: &str, x: BufferId, kb: usize, out: Act) -> Result<()> {
        let chosen = self.select.choose("quantize", &[])?;
        let mut bindings = vec![("x", x)];
        bindings.extend(out.outputs());
        let grid = Grid(Extent::Fixed((kb as u32).div_ceil(8)), self.per_row(1));
        self.push(name, chosen, vec![("KB", kb as f64)], bindings, grid, 0);
        Ok(())
    }

    /// `y = W x (+ bias)`, or `y += W x (+ bias)`. `y` has rows of `y_stride` f32.
    pub fn linear(&mut self, matrix: &Matrix, x: Act, y: BufferId, y_stride: usize, add: bool) -> Result<()> {
        let kernel = match self.pass {
            Pass::Decode => "matvec",
            Pass::Few => "matvec_rows",
            Pass::Prefill | Pass::Short if self.on_matrices(matrix) => "matmul_subgroup",
            Pass::Prefill | Pass::Short => "matmul",
        };
        self.product(kernel, matrix, x, Sums { y, stride: y_stride, add, cap: 0.0 })
    }

    pub(super) fn product(&mut self, kernel: &'static str, matrix: &Matrix, x: Act, sums: Sums) -> Result<()> {
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
            bindings.push(("y", y));
            bindings.extend(x.inputs());
            if kernel != "matmul_subgroup" {
                let (set, bound) = self.bias(matrix);
                overrides.push(set);
                bindings.push(bound);
            }
            self.push(&matrix.name, chosen, overrides, bindings, grid, part.kind.bytes((part.rows * kb) as u64));
        }
        Ok(())
    }

    /// `y = W norm(h) (+ bias)`. In decode the norm, and the quantization of its result, are the product's own prologue.
    pub fn norm_linear(&mut self, norm: &Norm, h: BufferId, matrix: &Matrix, y: BufferId, y_stride: usize) -> Result<()> {
        if !self.fuses_norm(norm, matrix.kb()) {
            let x = self.norm(norm, h, matrix, false)?;
            return self.linear(matrix, x, y, y_stride, false);
        }
        // A sum that was written is read by the parts after the first.
        if matrix.parts.len() > 1 || !norm.with_post {
            self.complete(h)?;
        }
        for part in &matrix.parts {
            let chosen = self.select.choose_product("norm_matvec", &[("weight", part.kind.axis()), ("act", self.act_axis(part))], matrix.k, part.rows)?;
            let mut overrides = part_overrides(matrix, part);
            let (set, bound) = self.bias(matrix);
            let (prologue, streams) = self.prologue(norm, h, matrix.k);
            overrides.extend(prologue);
            overrides.push(set);
            let grid = Grid::folded((part.rows as u32).div_ceil(chosen.variant.tile[0]));
            let mut bindings = weight_bindings(part);
            bindings.extend(streams);
            bindings.extend([("y", y), bound]);
            self.push(&matrix.name, chosen, overrides, bindings, grid, part.kind.bytes((part.rows * matrix.kb()) as u64));
        }
        Ok(())
    }

    /// The inner part of a feed-forward network, `act(gate) * up` or `act(up)` of `up norm(h)` (gate rows first; without a norm, of `up h`), in
    /// the form that `consumer` (the down product) reads. With gates and RMSNorm one dispatch in decode.
    pub fn mlp(&mut self, name: &str, norm: Option<&Norm>, h: BufferId, up: &Matrix, mlp: Mlp, consumer: &Matrix) -> Result<Act> {
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
            let out = self.act("act", consumer);
            let axes = [("weight", part.kind.axis()), ("act", self.act_axis(part)), ("out", out.axis())];
            let chosen = self.select.choose_product("norm_gated", &axes, up.k, part.rows)?;
            if !norm.with_post {
                self.complete(h)?;
            }
            let (mut overrides, streams) = self.prologue(norm, h, up.k);
            overrides.extend([("KB", up.kb() as f64), ("F", f as f64)]);
            overrides.extend(mlp.activation.to_override());
            let mut bindings = weight_bindings(part);
            bindings.extend(streams);
            bindings.extend(out.outputs());
            self.push(&up.name, chosen, overrides, bindings, Grid::folded((f as u32).div_ceil(32)), part.kind.bytes((part.rows * up.kb()) as u64));
            return Ok(out);
        }
        let products = self.scratch("gate_up", up.n);
        let x = match norm {
            Some(norm) => self.norm(norm, h, up, false)?,
            None => self.unnormed(&format!("{name}_input"), h, up)?,
        };
        self.linear(up, x, products, up.n, false)?;
        self.activate(&format!("{}.activate", up.name), products, mlp, up.n, consumer)
    }

    /// The `act` axis of a product with `part` that makes its own activations.
    fn act_axis(&self, part: &Part) -> &'static str {
        if self.select.lane() == Lane::Fast && part.kind.quantized() { "q8" } else { "f32" }
    }

    /// `act(gate) * up` of `gate_up` (`[T, 2 F]`, gates first), or `act` of `[T, F]`, in the form that `consumer` (the down product) reads.
    fn activate(&mut self, name: &str, gate_up: BufferId, mlp: Mlp, row: usize, consumer: &Matrix) -> Result<Act> {
        let out = self.act("act", consumer);
        let chosen = self.select.choose("activate", &[("out", out.axis())])?;
        let kb = consumer.kb();
        let mut overrides = vec![("F", consumer.k as f64), ("KB", kb as f64), ("GSTRIDE", row as f64)];
        overrides.extend(mlp.activation.to_override());
        overrides.extend((!mlp.gated).then_some(("GATED", 0.0)));
        let mut bindings = vec![("gu", gate_up)];
        bindings.extend(out.outputs());
        let grid = Grid(Extent::Fixed((kb as u32).div_ceil(8)), self.per_row(1));
        self.push(name, chosen, overrides, bindings, grid, 0);
        Ok(out)
    }

    /// The logits of the last row, `[V]` f32, which stay on the GPU: `head norm(h)`, and `cap tanh(l / cap)` of them where `cap` is not 0. So many
    /// rows each with a prologue of their own would cost more than the norm's dispatch.
    pub fn head(&mut self, norm: &Norm, h: BufferId, head: &Matrix, cap: f64) -> Result<()> {
        let x = self.norm(norm, h, head, true)?;
        let logits = self.layout.shared(labels::LOGITS, head.n as u64 * 4, Role::Activation);
        self.product("matvec", head, x, Sums { y: logits, stride: head.n, add: false, cap })
    }

    /// What sampling reads: the logits, the parameters, and the candidates among which `advance` decides.
    fn sampled(&mut self, vocab: usize) -> (BufferId, BufferId, BufferId) {
        (
            self.layout.shared(labels::LOGITS, vocab as u64 * 4, Role::Activation),
            self.layout.shared(labels::SAMPLING, Sampling::BYTES as u64, Role::State),
            self.layout.shared("sample.candidates", u64::from(SLICES) * 8, Role::Activation),
        )
    }

    /// What only penalties, bias and log probabilities need, in this order: penalties and bias, which come before sampling, and log probabilities,
    /// of which the last step comes right before `advance`.
    pub fn sample_extras(&mut self, vocab: usize) -> Result<()> {
        let (logits, params, cand) = self.sampled(vocab);
        let words = |n: usize| n as u64 * 4;
        let ring = self.sizes.ring as usize;
        let tallies = self.layout.shared(labels::TALLIES, words(2 * vocab), Role::State);
        let raw = self.layout.shared("sample.raw", words(vocab), Role::Activation);
        let sums = self.layout.shared("sample.sums", words(2 * SLICES as usize), Role::Activation);
        let tops = self.layout.shared("sample.tops", words(2 * SLICES as usize * MAX_TOP_LOGPROBS), Role::Activation);
        let ids = self.layout.shared(labels::LIKELIEST, words(ring * MAX_TOP_LOGPROBS), Role::State);
        let logprobs = self.layout.shared(labels::LOGPROBS, words(ring * (MAX_TOP_LOGPROBS + 1)), Role::State);
        let v = vec![("V", vocab as f64)];
        let wide = Grid(Extent::Fixed(SLICES), Extent::Fixed(1));
        let chosen = self.select.choose("penalize", &[])?;
        let bindings = vec![("params", params), ("logits", logits), ("tallies", tallies), ("raw", raw)];
        self.push("sample.penalize", chosen, v.clone(), bindings, wide, 3 * words(vocab));
        let chosen = self.select.choose("logprobs", &[])?;
        self.push("sample.logprobs", chosen, v, vec![("params", params), ("raw", raw), ("sums", sums), ("tops", tops)], wide, words(vocab));
        let chosen = self.select.choose("logprobs_append", &[])?;
        let bindings = vec![("params", params), ("cand", cand), ("raw", raw), ("sums", sums), ("tops", tops), ("ids", ids), ("logprobs", logprobs)];
        self.push("sample.logprobs_append", chosen, vec![], bindings, Grid::folded(1), 0);
        Ok(())
    }

    /// Samples from the logits, appends the token to the ring and advances the decode loop's state.
    pub fn sample(&mut self, vocab: usize) -> Result<()> {
        let (logits, params, cand) = self.sampled(vocab);
        let ring = self.layout.shared(labels::RING, u64::from(self.sizes.ring) * 4, Role::State);
        let part = self.layout.shared("sample.max", u64::from(SLICES) * 4, Role::Activation);
        let thr = self.layout.shared("sample.threshold", 16, Role::Activation);
        let search = self.layout.shared("sample.search", 32, Role::State);
        let tallies = self.layout.shared("sample.bins", u64::from(SLICES) * 256 * 8, Role::Activation);
        let v = vec![("V", vocab as f64)];
        let wide = Grid(Extent::Fixed(SLICES), Extent::Fixed(1));
        let one = Grid::folded(1);
        let bytes = vocab as u64 * 4;
        let chosen = self.select.choose("logit_stats", &[])?;
        self.push("sample.stats", chosen, v.clone(), vec![("params", params), ("logits", logits), ("part", part)], wide, bytes);
        for round in 0..FILTER_ROUNDS {
            let chosen = self.select.choose("tally", &[])?;
            let bindings = vec![("params", params), ("logits", logits), ("part", part), ("search", search), ("tallies", tallies)];
            self.push(&format!("sample.tally.{round}"), chosen, v.clone(), bindings, wide, bytes);
            let chosen = self.select.choose("narrow", &[])?;
            let bindings = vec![("params", params), ("tallies", tallies), ("search", search)];
            self.push(&format!("sample.narrow.{round}"), chosen, v.clone(), bindings, one, u64::from(SLICES) * 256 * 8);
        }
        let chosen = self.select.choose("threshold", &[])?;
        self.push("sample.threshold", chosen, v.clone(), vec![("params", params), ("part", part), ("search", search), ("thr", thr)], one, 0);
        let chosen = self.select.choose("pick", &[])?;
        self.push("sample.pick", chosen, v, vec![("params", params), ("logits", logits), ("thr", thr), ("cand", cand)], wide, bytes);
        let chosen = self.select.choose("advance", &[])?;
        self.push("sample.advance", chosen, vec![], vec![("params", params), ("cand", cand), ("ring", ring)], one, 0);
        Ok(())
    }
}

/// Elements of an f32 row of width `d`: padded to whole blocks.
pub const fn stride(d: usize) -> usize {
    d.div_ceil(BLOCK) * BLOCK
}
