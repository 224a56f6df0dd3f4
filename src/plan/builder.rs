//! The operations of which an architecture's forward pass is made: each appends the steps of one operation, for a prefill pass or a decode step.

use super::{BufferId, CacheShape, Chosen, Extent, Grid, Lane, Layout, Plan, Role, Selector, Step};
use crate::error::{Error, Result};
use crate::kernels::splits::Rule;
use crate::kernels::{State, Variant};
use crate::sample::{SLICES, Sampling};
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

/// Activations as the next product reads them.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    /// `[T, KB * 32]` f32.
    F32(BufferId),
    /// `[1, KB * 32]` f16.
    F16(BufferId),
    /// int8 and (scale, scale * sum) a block of 32.
    Q8(BufferId, BufferId),
}

impl Act {
    const fn axis(self) -> &'static str {
        match self {
            Self::F32(_) => "f32",
            Self::F16(_) => "f16",
            Self::Q8(..) => "q8",
        }
    }
    fn inputs(self) -> Vec<(&'static str, BufferId)> {
        match self {
            Self::F32(x) | Self::F16(x) => vec![("x", x)],
            Self::Q8(xq, xs) => vec![("xq", xq), ("xs", xs)],
        }
    }
    fn outputs(self) -> Vec<(&'static str, BufferId)> {
        match self {
            Self::F32(y) | Self::F16(y) => vec![("y", y)],
            Self::Q8(yq, ys) => vec![("yq", yq), ("ys", ys)],
        }
    }
}

/// Shape of an attention block.
#[derive(Debug, Clone, Copy)]
pub struct Heads {
    /// Query heads, H.
    pub h: usize,
    /// Key/value heads, G.
    pub g: usize,
    /// Head width, E.
    pub e: usize,
}

impl Heads {
    /// Elements of a row of queries, keys and values: `(H + 2 G) E`.
    pub const fn qkv(self) -> usize {
        (self.h + 2 * self.g) * self.e
    }
}

/// An RMSNorm or a LayerNorm.
#[derive(Debug, Clone)]
pub struct Norm {
    /// Its name in the plan.
    pub name: String,
    /// Its weights, `[D]` f32.
    pub weight: BufferId,
    /// LayerNorm's bias, `[D]` f32.
    pub bias: Option<BufferId>,
    /// LayerNorm: the mean is subtracted first.
    pub center: bool,
    /// Added to the mean square.
    pub eps: f64,
    /// Whether behind its weights stand those of the norm that comes before it, of what the block before it has made.
    pub with_post: bool,
}

/// How positions rotate queries and keys.
#[derive(Debug, Clone, Copy)]
pub struct Rotation {
    /// The number of the table of angles.
    pub table: usize,
    /// Rotated dimensions of a head.
    pub dims: usize,
    /// Pairs are (2i, 2i + 1), not (i, i + dims / 2).
    pub interleaved: bool,
}

/// An attention block.
#[derive(Debug, Clone, Copy)]
pub struct Attention {
    /// Its heads.
    pub heads: Heads,
    /// Its rotation, if positions are rotations.
    pub rope: Option<Rotation>,
    /// Norms of queries and keys before they are rotated.
    pub head_norm: Option<HeadNorms>,
    /// Of the scores, usually 1 / sqrt(E).
    pub scale: f64,
    /// Positions that a row sees, its own the last; `None`: all before it.
    pub window: Option<u32>,
    /// Scores s become `softcap tanh(s / softcap)`; 0: they stay.
    pub softcap: f64,
}

/// RMSNorms of queries and keys.
#[derive(Debug, Clone, Copy)]
pub struct HeadNorms {
    /// Weights: of single heads `[2, 256]`, of all heads together `[H E + G E]`; queries' first.
    pub weight: BufferId,
    /// Added to the mean square.
    pub eps: f64,
    /// One norm of all heads' queries, and one of all heads' keys.
    pub all: bool,
}

/// The activation of a feed-forward network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// x sigmoid(x)
    Silu,
    /// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
    GeluTanh,
}

impl Activation {
    /// The value of the kernels' ACT.
    const fn number(self) -> f64 {
        match self {
            Self::Silu => 0.0,
            Self::GeluTanh => 1.0,
        }
    }
}

/// A feed-forward network.
#[derive(Debug, Clone, Copy)]
pub struct Mlp {
    /// Its activation.
    pub activation: Activation,
    /// Whether a second product multiplies the activation.
    pub gated: bool,
}

/// Experts and how rows choose among them.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// How many there are.
    pub count: usize,
    /// How many a row uses.
    pub used: usize,
    /// Whether their weights sum to 1.
    pub normed: bool,
    /// Their activation.
    pub activation: Activation,
}

/// Constants of a pipeline, by name.
type Overrides = Vec<(&'static str, f64)>;
/// Buffers, by the names of a shader.
type Bindings = Vec<(&'static str, BufferId)>;

/// Where the sums of a product go.
struct Sums {
    y: BufferId,
    /// f32 between its rows.
    stride: usize,
    /// They are added to what is there.
    add: bool,
    /// They become `cap tanh(y / cap)`; 0: they stay.
    cap: f64,
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
    layout: &'a mut Layout,
    select: &'a Selector,
    sizes: Sizes,
    pass: Pass,
    state: BufferId,
    plan: Plan,
    /// A block's result that has yet to be normed and added to the residual stream: its norm, the result, its width.
    pending: Option<(Norm, BufferId, usize)>,
    /// Whether the residual stream is in the second of its two buffers.
    swapped: bool,
}

/// Query heads that share a workgroup of decode attention, and with it each read of the cache.
const HEADS: usize = 4;

/// The `width` axis of attention for heads of `e` elements.
pub(crate) const fn width_axis(e: usize) -> &'static str {
    match e {
        0..=64 => "e64",
        65..=128 => "e128",
        _ => "e256",
    }
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

fn part_overrides(matrix: &Matrix, part: &Part) -> Vec<(&'static str, f64)> {
    vec![("KB", matrix.kb() as f64), ("N", part.rows as f64), ("ROW0", part.row0 as f64)]
}

fn weight_bindings(part: &Part) -> Vec<(&'static str, BufferId)> {
    [Some(("wq", part.wq)), part.ws.map(|ws| ("ws", ws))].into_iter().flatten().collect()
}

/// Where a norm of single heads has its weights for keys: as shaders/attention.wgsl reads them.
pub const HEAD_NORM_ROOM: usize = 256;

fn act_override(activation: Activation) -> Option<(&'static str, f64)> {
    (activation != Activation::Silu).then_some(("ACT", activation.number()))
}

const STATE_BYTES: u64 = State::BYTES as u64;

impl<'a> Builder<'a> {
    /// A builder for a pass.
    pub fn new(layout: &'a mut Layout, select: &'a Selector, sizes: Sizes, pass: Pass) -> Self {
        let state = layout.shared(if pass == Pass::Decode { labels::STATE } else { labels::PREFILL }, STATE_BYTES, Role::State);
        Self { layout, select, sizes, pass, state, plan: Plan::default(), pending: None, swapped: false }
    }

    fn decode(&self) -> bool {
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

    fn per_row(&self, per: u32) -> Extent {
        if self.decode() { Extent::Fixed(1) } else { Extent::Rows { per } }
    }

    /// Where the producer of `matrix`'s input writes: in the fast lane int8 if every part of the matrix is quantized, in lane f16 halves for
    /// decode, f32 otherwise.
    fn act(&mut self, label: &str, matrix: &Matrix) -> Act {
        let kb = matrix.kb();
        match self.select.lane() {
            _ if self.on_matrices(matrix) => Act::F16(self.scratch(&format!("{label}.f16"), kb * BLOCK / 2)),
            Lane::Fast if matrix.quantized() => Act::Q8(self.scratch(&format!("{label}.q8"), kb * BLOCK / 4), self.scratch(&format!("{label}.scales"), kb * 2)),
            Lane::F16 if self.decode() => Act::F16(self.scratch(&format!("{label}.f16"), kb * BLOCK / 2)),
            _ => Act::F32(self.scratch(&format!("{label}.f32"), kb * BLOCK)),
        }
    }

    /// Whether a product of prefill runs on matrix units, which write whole tiles.
    fn on_matrices(&self, matrix: &Matrix) -> bool {
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

    /// What a binding that a model does not need is bound to: as much as the largest uniform wants.
    fn zeros(&mut self) -> BufferId {
        self.layout.shared(labels::ZEROS, 2048, Role::State)
    }

    /// The bias of a product, as its override and its binding.
    fn bias(&mut self, matrix: &Matrix) -> ((&'static str, f64), (&'static str, BufferId)) {
        (("BIAS", f64::from(u8::from(matrix.bias.is_some()))), ("bias", matrix.bias.unwrap_or_else(|| self.zeros())))
    }

    fn push(&mut self, name: &str, chosen: Chosen, overrides: Vec<(&'static str, f64)>, bindings: Vec<(&'static str, BufferId)>, grid: Grid, bytes: u64) {
        let Chosen { variant, mut reason, choice } = chosen;
        if let Some(note) = bindings.iter().find(|(name, _)| *name == "wq").and_then(|(_, wq)| self.layout.note_of(*wq)) {
            reason = format!("{reason}; {note}");
        }
        let mut bindings = bindings;
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

    fn gather(&mut self, name: &str, table: &Matrix, h: BufferId, how: Vec<(&'static str, f64)>) -> Result<()> {
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

    fn norm_as(&mut self, norm: &Norm, h: BufferId, d: usize, out: Act, last: bool) -> Result<()> {
        self.norm_step(norm, h, d, (out.axis(), out.outputs()), last)
    }

    fn norm_step(&mut self, norm: &Norm, h: BufferId, d: usize, (out, outputs): (&str, Vec<(&'static str, BufferId)>), last: bool) -> Result<()> {
        let grid = if last { Grid::folded(1) } else { Grid(self.per_row(1), Extent::Fixed(1)) };
        let chosen = self.select.choose("norm", &[("out", out)])?;
        let mut bindings = vec![("h", h), ("nw", norm.weight), ("nb", norm.bias.unwrap_or_else(|| self.zeros()))];
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
    fn complete(&mut self, h: BufferId) -> Result<()> {
        match self.pending.take() {
            Some((norm, y, d)) => {
                let h = self.stream(h, d);
                self.norm_step(&norm, y, d, ("add", vec![("y", h)]), false)
            }
            None => Ok(()),
        }
    }

    /// Where the residual stream `h` is now.
    fn stream(&mut self, h: BufferId, d: usize) -> BufferId {
        if self.swapped { self.layout.shared("residual.2", stride(d) as u64 * 4, Role::Activation) } else { h }
    }

    /// What a product that norms its own input reads and writes besides: with `take`, what waits to be added to the residual stream.
    fn prologue(&mut self, norm: &Norm, h: BufferId, d: usize, take: bool) -> (Overrides, Bindings) {
        let from = self.stream(h, d);
        let mut overrides = vec![("D", d as f64), ("EPS", norm.eps)];
        let (block, sum) = match self.pending.as_ref().filter(|_| take) {
            Some((_, block, _)) => {
                let block = *block;
                overrides.push(("POST", 1.0));
                self.swapped = !self.swapped;
                (block, self.stream(h, d))
            }
            None => (self.zeros(), self.layout.shared(labels::UNUSED, 16, Role::Activation)),
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

    fn quantize(&mut self, name: &str, x: BufferId, kb: usize, out: Act) -> Result<()> {
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

    fn product(&mut self, kernel: &'static str, matrix: &Matrix, x: Act, sums: Sums) -> Result<()> {
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
            let (prologue, streams) = self.prologue(norm, h, matrix.k, true);
            overrides.extend(prologue);
            overrides.push(set);
            let grid = Grid::folded((part.rows as u32).div_ceil(chosen.variant.tile[0]));
            let mut bindings = weight_bindings(part);
            bindings.extend(streams);
            bindings.extend([("y", y), bound]);
            self.push(&matrix.name, chosen, overrides, bindings, grid, part.kind.bytes((part.rows * matrix.kb()) as u64));
        }
        self.pending = None;
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
            let (mut overrides, streams) = self.prologue(norm, h, up.k, true);
            self.pending = None;
            overrides.extend([("KB", up.kb() as f64), ("F", f as f64)]);
            overrides.extend(act_override(mlp.activation));
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

    /// `h +=` the weighted sum of what the experts that each row chooses make of `norm(h)`. `up` holds `[count, 2 F]` rows, each expert's gates
    /// first, `down` `[count, D]`.
    #[expect(clippy::too_many_arguments, reason = "an operation of three matrices")]
    pub fn experts(&mut self, name: &str, norm: &Norm, h: BufferId, router: &Matrix, route: Route, up: &Matrix, down: &Matrix) -> Result<()> {
        let (d, f, used) = (up.k, down.k, route.used as u32);
        let rows = self.sizes.rows as usize;
        // The router's weights are small and its choice hard: its input is never quantized, nor halved. So few rows need more than a group of
        // lanes each, which products with a prologue do not have.
        let logits = self.scratch("router", route.count);
        let normed = self.scratch("x.f32", up.kb() * BLOCK);
        self.norm_as(norm, h, d, Act::F32(normed), false)?;
        let plain = match self.pass {
            Pass::Decode => "matvec",
            Pass::Few => "matvec_rows",
            Pass::Prefill | Pass::Short => "matmul",
        };
        self.product(plain, router, Act::F32(normed), Sums { y: logits, stride: route.count, add: false, cap: 0.0 })?;
        let chosen = self.layout.shared("chosen", rows as u64 * u64::from(used) * 8, Role::Activation);
        let kernel = self.select.choose("route", &[])?;
        let overrides =
            vec![("EXPERTS", route.count as f64), ("USED", f64::from(used)), ("STRIDE", route.count as f64), ("NORMED", f64::from(u8::from(route.normed)))];
        self.push(&format!("{name}.route"), kernel, overrides, vec![("logits", logits), ("chosen", chosen)], Grid(self.per_row(1), Extent::Fixed(1)), 0);

        let fast = self.select.lane() == Lane::Fast;
        let (quantized_in, quantized_out) = (fast && up.quantized(), fast && down.quantized());
        let x = if quantized_in {
            let kb = up.kb();
            let out = Act::Q8(self.scratch("x.q8", kb * BLOCK / 4), self.scratch("x.scales", kb * 2));
            self.quantize(&format!("{name}.quantize"), normed, kb, out)?;
            out
        } else {
            Act::F32(normed)
        };
        let kb = down.kb();
        let act = if quantized_out {
            Act::Q8(self.scratch("experts.q8", route.used * kb * BLOCK / 4), self.scratch("experts.scales", route.used * kb * 2))
        } else {
            Act::F32(self.scratch("experts.f32", route.used * kb * BLOCK))
        };
        let slots = if self.decode() { Extent::Fixed(used) } else { Extent::Slots { each: used } };
        // What a row reads of a part: of all experts a few.
        let read = |part: &Part, kb: usize| part.kind.bytes((part.rows * kb) as u64) * u64::from(used) / route.count as u64;
        for part in &up.parts {
            let axes = [("weight", part.kind.axis()), ("act", x.axis()), ("out", act.axis())];
            let kernel = self.select.choose("experts_gated", &axes)?;
            let mut overrides = vec![
                ("KB", up.kb() as f64),
                ("F", f as f64),
                ("USED", f64::from(used)),
                ("FIRST", (part.row0 / (2 * f)) as f64),
                ("COUNT", (part.rows / (2 * f)) as f64),
            ];
            overrides.extend(act_override(route.activation));
            let mut bindings = weight_bindings(part);
            bindings.push(("chosen", chosen));
            bindings.extend(x.inputs());
            bindings.extend(act.outputs());
            self.push(&up.name, kernel, overrides, bindings, Grid(Extent::Fixed((f as u32).div_ceil(32)), slots), read(part, up.kb()));
        }
        for part in &down.parts {
            let kernel = self.select.choose("experts_down", &[("weight", part.kind.axis()), ("act", act.axis())])?;
            // Groups of lanes deal out the experts.
            let groups = kernel.variant.workgroup[0] / kernel.variant.lanes.max(1);
            let split = (1 << (u32::BITS - 1 - used.leading_zeros())).min(groups);
            let overrides = vec![
                ("KB", kb as f64),
                ("N", d as f64),
                ("USED", f64::from(used)),
                ("FIRST", (part.row0 / d) as f64),
                ("COUNT", (part.rows / d) as f64),
                ("SPLIT", f64::from(split)),
                ("NSTRIDE", stride(d) as f64),
            ];
            let mut bindings = weight_bindings(part);
            bindings.extend([("chosen", chosen), ("y", h)]);
            bindings.extend(act.inputs());
            let grid = Grid(Extent::Fixed((d as u32).div_ceil(kernel.variant.tile[0] / split)), self.per_row(1));
            self.push(&down.name, kernel, overrides, bindings, grid, read(part, kb));
        }
        Ok(())
    }

    /// The `act` axis of a product with `part` that makes its own activations.
    fn act_axis(&self, part: &Part) -> &'static str {
        if self.select.lane() == Lane::Fast && part.kind.quantized() { "q8" } else { "f32" }
    }

    /// Layer `layer`'s keys and values, by their bindings, and their shape. A window needs room for itself and for a pass of rows beside it.
    fn cache(&mut self, layer: usize, heads: Heads, window: Option<u32>) -> (Vec<(&'static str, BufferId)>, CacheShape) {
        let all = self.sizes.capacity;
        let positions = window.map_or(all, |w| w.saturating_add(self.sizes.rows).next_multiple_of(64).min(all));
        let mut whole = CacheShape { heads: heads.g as u32, positions, row: 0, window };
        let mut buffers = Vec::new();
        for (name, row) in self.select.kv().buffers(heads.e) {
            buffers.push((name, self.layout.cache(&format!("cache.{layer}.{name}"), CacheShape { row, ..whole })));
            whole.row += row;
        }
        (buffers, whole)
    }

    /// RoPE of the queries and keys in `qkv` (`[T, (H + 2 G) E]`), keys and values appended to layer `layer`'s cache, and causal attention of the
    /// queries over it, in the form that `consumer` (the output product) reads. In decode one dispatch, and one that joins the cache's splits.
    pub fn attention(&mut self, name: &str, layer: usize, qkv: BufferId, shape: Attention, consumer: &Matrix) -> Result<Act> {
        let Attention { heads, rope, head_norm, scale, window, softcap } = shape;
        let kv = self.select.kv().name();
        let kb = consumer.kb();
        let width = heads.h * heads.e;
        if consumer.k != width {
            return Err(Error::internal(format!("{name}: the output product has K = {}, the heads give {width}", consumer.k)));
        }
        let (cache, cached) = self.cache(layer, heads, window);
        let rot = match rope {
            Some(rope) => self.layout.shared(&labels::rotations(rope.table), u64::from(self.sizes.capacity) * rope.dims as u64 * 4, Role::Weight),
            None => self.zeros(),
        };
        let zeros = self.zeros();
        let key_bytes = u64::from(cached.heads) * cached.row;
        let seen: Vec<_> = window.map(|w| ("WINDOW", f64::from(w))).into_iter().collect();
        let sizes = [("H", heads.h as f64), ("G", heads.g as f64), ("E", heads.e as f64), ("QSTRIDE", heads.qkv() as f64)];
        let rotation = [("ROT", rope.map_or(0.0, |r| r.dims as f64)), ("INTERLEAVED", f64::from(u8::from(rope.is_some_and(|r| r.interleaved))))];
        let mut scores = vec![("SCALE", scale)];
        scores.extend((softcap != 0.0).then_some(("SOFTCAP", softcap)));
        scores.extend(&seen);
        let with = |more: &[&[(&'static str, f64)]]| sizes.iter().copied().chain(more.concat()).collect::<Vec<_>>();
        let bound = |more: &[(&'static str, BufferId)]| [&[("qkv", qkv)], &cache[..], more].concat();
        // One row's heads are normed where they are rotated; a norm of all heads needs to see them all.
        if let Some(norm) = head_norm
            && (norm.all || !self.decode())
        {
            let chosen = self.select.choose("head_norm", &[])?;
            let Heads { h, g, e } = heads;
            let [q, q_width, k, k_width, at] = if norm.all { [1, h * e, 1, g * e, h * e] } else { [h, e, g, e, HEAD_NORM_ROOM] };
            let spans = [("QSPANS", q), ("QWIDTH", q_width), ("KSPANS", k), ("KWIDTH", k_width), ("KAT", at), ("QSTRIDE", heads.qkv())];
            let overrides = spans.iter().map(|(name, n)| (*name, *n as f64)).chain([("EPS", norm.eps)]).collect();
            let grid = Grid(Extent::Fixed((q + k) as u32), self.per_row(1));
            self.push(&format!("{name}.head_norm"), chosen, overrides, vec![("qkv", qkv), ("nw", norm.weight)], grid, 0);
        }
        let fused_norm = head_norm.filter(|norm| self.decode() && !norm.all);
        let norms: Vec<_> = fused_norm.map(|norm| [("HEAD_NORM", 1.0), ("EPS", norm.eps)]).into_iter().flatten().collect();
        let norm_weights = fused_norm.map_or(zeros, |norm| norm.weight);
        if !self.decode() {
            let chosen = self.select.choose("rope", &[("kv", kv)])?;
            let grid = Grid(self.per_row(1), Extent::Fixed((heads.h + 2 * heads.g) as u32));
            self.push(&format!("{name}.rope"), chosen, with(&[&rotation]), bound(&[("rot", rot)]), grid, 0);
        }
        if self.pass == Pass::Prefill {
            let y = self.scratch("attention.f32", kb * BLOCK);
            let chosen = self.select.choose("attention_prefill", &[("kv", kv), ("width", width_axis(heads.e))])?;
            let per = chosen.variant.tile[1].max(1);
            let grid = Grid(Extent::Fixed(heads.h as u32), Extent::Rows { per });
            self.push(name, chosen, with(&[&scores, &[("KB", kb as f64)]]), bound(&[("y", y)]), grid, key_bytes * u64::from(cached.positions));
            if self.on_matrices(consumer) {
                return Ok(Act::F32(y));
            }
            let out = self.act("attention", consumer);
            if let Act::Q8(..) = out {
                self.quantize(&format!("{name}.quantize"), y, kb, out)?;
            }
            return Ok(out);
        }
        let groups = (heads.g * (heads.h / heads.g).div_ceil(HEADS)) as u32;
        let most_keys = cached.positions.min(window.unwrap_or(u32::MAX));
        let attention = |tiles| self.select.choose("attention", &[("kv", kv), ("width", width_axis(heads.e)), ("tiles", tiles)]);
        let mut chosen = attention("one")?;
        let least = chosen.variant.tile[0];
        let rule = if self.decode() { Rule::decode(least) } else { Rule::rows(least) };
        if !self.decode() || rule.keys_a_split(most_keys, groups) > least {
            chosen = attention("many")?;
        }
        let most_rows = match self.pass {
            Pass::Decode => 1,
            Pass::Few => FEW,
            _ => SHORT.min(self.sizes.rows),
        };
        let splits = (1..=most_rows).map(|rows| u64::from(rows * rule.most_splits(most_keys, groups * rows))).max().unwrap_or(1);
        let po = self.layout.shared("attention.partial", splits * width as u64 * 4, Role::Activation);
        let ml = self.layout.shared("attention.weights", splits * heads.h as u64 * 8, Role::Activation);
        // Of several rows, `rope` has rotated the queries and appended the keys.
        let unrotated = [("ROT", 0.0), ("INTERLEAVED", 0.0), ("APPENDS", 0.0)];
        let own: &[_] = if self.decode() { &rotation } else { &unrotated };
        let mut cut = vec![("LEAST", f64::from(least))];
        if !self.decode() {
            cut.extend([("MOST", f64::from(rule.most)), ("FILL", f64::from(rule.fill))]);
        }
        let grid = match self.pass {
            Pass::Decode => Extent::Fixed(rule.most_splits(most_keys, groups)),
            _ => Extent::Splits { groups, keys: most_keys, rule },
        };
        let grid = Grid(Extent::Fixed(groups), grid);
        self.push(name, chosen, with(&[own, &scores, &cut, &norms]), bound(&[("rot", rot), ("qkn", norm_weights), ("po", po), ("ml", ml)]), grid, 0);
        if let Some(step) = self.plan.steps.last_mut() {
            step.bytes = key_bytes * u64::from(cached.positions);
            step.key_bytes = key_bytes;
        }

        let out = self.act("attention", consumer);
        let chosen = self.select.choose("merge", &[("out", out.axis())])?;
        let mut overrides = vec![("H", heads.h as f64), ("E", heads.e as f64), ("GROUPS", f64::from(groups)), ("KB", kb as f64)];
        overrides.extend(cut);
        overrides.extend(&seen);
        let mut bindings = vec![("po", po), ("ml", ml)];
        bindings.extend(out.outputs());
        self.push(&format!("{name}.merge"), chosen, overrides, bindings, Grid(Extent::Fixed(kb as u32), self.per_row(1)), 0);
        Ok(out)
    }

    /// `act(gate) * up` of `gate_up` (`[T, 2 F]`, gates first), or `act` of `[T, F]`, in the form that `consumer` (the down product) reads.
    fn activate(&mut self, name: &str, gate_up: BufferId, mlp: Mlp, row: usize, consumer: &Matrix) -> Result<Act> {
        let out = self.act("act", consumer);
        let chosen = self.select.choose("activate", &[("out", out.axis())])?;
        let kb = consumer.kb();
        let mut overrides = vec![("F", consumer.k as f64), ("KB", kb as f64), ("GSTRIDE", row as f64)];
        overrides.extend(act_override(mlp.activation));
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

    /// Samples from the logits, appends the token to the ring and advances the decode loop's state.
    pub fn sample(&mut self, vocab: usize) -> Result<()> {
        let logits = self.layout.shared(labels::LOGITS, vocab as u64 * 4, Role::Activation);
        let state = self.layout.shared(labels::STATE, STATE_BYTES, Role::State);
        let params = self.layout.shared(labels::SAMPLING, Sampling::BYTES as u64, Role::State);
        let ring = self.layout.shared(labels::RING, u64::from(self.sizes.ring) * 4, Role::State);
        let part = self.layout.shared("sample.max", u64::from(SLICES) * 4, Role::Activation);
        let thr = self.layout.shared("sample.threshold", 16, Role::Activation);
        let cand = self.layout.shared("sample.candidates", u64::from(SLICES) * 8, Role::Activation);
        let v = vec![("V", vocab as f64)];
        let wide = Grid(Extent::Fixed(SLICES), Extent::Fixed(1));
        let one = Grid::folded(1);
        let bytes = vocab as u64 * 4;
        let chosen = self.select.choose("logit_stats", &[])?;
        self.push("sample.stats", chosen, v.clone(), vec![("state", state), ("params", params), ("logits", logits), ("part", part)], wide, bytes);
        let chosen = self.select.choose("threshold", &[])?;
        self.push(
            "sample.threshold",
            chosen,
            v.clone(),
            vec![("state", state), ("params", params), ("logits", logits), ("part", part), ("thr", thr)],
            one,
            bytes,
        );
        let chosen = self.select.choose("pick", &[])?;
        self.push("sample.pick", chosen, v, vec![("state", state), ("params", params), ("logits", logits), ("thr", thr), ("cand", cand)], wide, bytes);
        let chosen = self.select.choose("advance", &[])?;
        self.push("sample.advance", chosen, vec![], vec![("state", state), ("params", params), ("cand", cand), ("ring", ring)], one, 0);
        Ok(())
    }
}

/// Elements of an f32 row of width `d`: padded to whole blocks.
pub const fn stride(d: usize) -> usize {
    d.div_ceil(BLOCK) * BLOCK
}
