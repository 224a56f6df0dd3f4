//! What an architecture says of an operation: of activations, norms, attention, feed-forward networks and experts.

use super::Value;
use super::builder::Operands;
use crate::base::numbers::HEAD_ROOM;
use crate::layout::BufferId;
use crate::weights::Matrix;

/// Activations as the next product reads them, in what steps have left there.
#[derive(Debug, Clone, Copy)]
pub enum Act<T = Value> {
    /// `[T, KB * 32]` f32.
    F32(T),
    /// `[1, KB * 32]` f16.
    F16(T),
    /// int8 and (scale, scale * sum) a block of 32.
    Q8(T, T),
}

/// Output buffers for activations.
pub(super) type Room = Act<BufferId>;

impl<T: Copy> Act<T> {
    /// The value of a kernel's `act` or `out` axis.
    pub(super) const fn axis(self) -> &'static str {
        match self {
            Self::F32(_) => "f32",
            Self::F16(_) => "f16",
            Self::Q8(..) => "q8",
        }
    }

    pub(super) fn map<U>(self, f: impl Fn(T) -> U) -> Act<U> {
        match self {
            Self::F32(x) => Act::F32(f(x)),
            Self::F16(x) => Act::F16(f(x)),
            Self::Q8(xq, xs) => Act::Q8(f(xq), f(xs)),
        }
    }
}

impl Act {
    pub(super) fn inputs(self) -> Operands {
        match self {
            Self::F32(x) | Self::F16(x) => vec![("x", x.into())],
            Self::Q8(xq, xs) => vec![("xq", xq.into()), ("xs", xs.into())],
        }
    }
}

impl Room {
    pub(super) fn outputs(self) -> Operands {
        match self {
            Self::F32(y) | Self::F16(y) => vec![("y", y.into())],
            Self::Q8(yq, ys) => vec![("yq", yq.into()), ("ys", ys.into())],
        }
    }
}

/// Shape of an attention block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Whether the residual stream is multiplied by a number when what it norms is added, which stands behind its
    /// weights, and behind those of the norm that comes with it.
    pub scaled: bool,
    /// Whether nothing is normed: its weights are ones, and only what waits is added.
    pub plain: bool,
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
    /// How queries grow with their positions, if they do.
    pub growth: Option<Growth>,
    /// How pairs take the axes of positions that have three.
    pub axes: Option<Axes>,
}

/// How the pairs of a head take the axes of a position: time, row and column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axes {
    /// Pairs that the row rotates.
    pub rows: usize,
    /// Pairs that the column rotates; time rotates the others.
    pub columns: usize,
    /// How pairs are assigned to the axes.
    pub order: AxesOrder,
}

/// How the pairs of a head are assigned to the axes of a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxesOrder {
    /// Time, row, column, repeating.
    InTurn,
    /// All pairs of one axis, then those of the next.
    Apart,
    /// Each half of the rotated dimensions has pairs of its own: the first those of the column, the second those of the
    /// row.
    Halves,
}

impl AxesOrder {
    /// The value of the kernels' AXES.
    pub(super) const fn number(self) -> f64 {
        match self {
            Self::InTurn => 1.0,
            Self::Apart => 2.0,
            Self::Halves => 3.0,
        }
    }
}

/// Queries are scaled by `1 + factor ln(1 + floor(position / every))`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    pub factor: f64,
    pub every: u32,
}

/// Which keys and values an attention block reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// The block's own, which it appends to this layer's state.
    Own(usize),
    /// Those of this earlier layer: the block projects queries only.
    Of(usize),
}

/// An attention block.
#[derive(Debug, Clone, Copy)]
pub struct Attention {
    /// Which keys and values it reads.
    pub keys: Keys,
    /// Its heads.
    pub heads: Heads,
    /// Its rotation, if positions are rotations.
    pub rope: Option<Rotation>,
    /// Norms of queries and keys before they are rotated.
    pub qk_norm: Option<QkNorms>,
    /// Factor of the scores, usually 1 / sqrt(E).
    pub scale: f64,
    /// Positions that a row sees, its own the last; `None`: all before it.
    pub window: Option<u32>,
    /// Scores s become `softcap tanh(s / softcap)`; 0: they stay.
    pub softcap: f64,
    /// Whether behind a row's queries, keys and values stand gates, of whose sigmoids its outputs are multiples.
    pub gated: bool,
    /// Factor of its outputs.
    pub factor: f64,
    /// `[H]`: a score of each head that no value belongs to.
    pub sinks: Option<BufferId>,
    /// Whether its outputs are wanted as f32, whatever form the output product reads: something comes between them. Of
    /// passes over prompts alone.
    pub as_f32: bool,
    /// What rows of a picture see beside what tokens do, where that is more.
    pub pictures: Option<PictureMask>,
}

/// What rows of a picture see of it, beside what tokens do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PictureMask {
    /// What is behind them.
    WithinWindow,
    /// All of it, what is before the window too.
    Whole,
}

impl PictureMask {
    /// `SPANS` of attention_prefill.wgsl.
    pub(super) fn number(self) -> f64 {
        match self {
            Self::WithinWindow => 3.0,
            Self::Whole => 4.0,
        }
    }
}

/// RMSNorms of queries and keys.
#[derive(Debug, Clone, Copy)]
pub struct QkNorms {
    /// Weights: of single heads `[2, QK_NORM_ROOM]`, of all heads together `[H E + G E]`; queries' first.
    pub weight: BufferId,
    /// Added to the mean square.
    pub eps: f64,
    /// One norm of all heads' queries, and one of all heads' keys.
    pub all: bool,
    /// The weights are multiplied after the rotation, which leaves mean squares as they are.
    pub late: bool,
    /// Values are normed, too, each head alone and without weights.
    pub values: bool,
}

/// The activation of a feed-forward network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// x sigmoid(x)
    Silu,
    /// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
    GeluTanh,
    /// max(x, 0)^2
    ReluSquared,
    /// x sigmoid(1.702 x) of x up to 7, times an up product within 7 and one more.
    Cut,
    /// 0.5 x (1 + erf(x / sqrt(2)))
    Gelu,
    /// tanh(x)
    Tanh,
}

impl Activation {
    /// The value of the kernels' ACT.
    const fn number(self) -> f64 {
        match self {
            Self::Silu => 0.0,
            Self::GeluTanh => 1.0,
            Self::ReluSquared => 2.0,
            Self::Cut => 3.0,
            Self::Gelu => 4.0,
            Self::Tanh => 5.0,
        }
    }
}

/// What is between a feed-forward network's products: `outer act(inner gate) up`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mlp {
    /// Its activation.
    pub activation: Activation,
    /// Whether a second product multiplies the activation.
    pub gated: bool,
    /// Factor of what the activation reads.
    pub inner: f64,
    /// Factor of what it gives.
    pub outer: f64,
}

impl Mlp {
    /// A usual one.
    pub const fn gated(activation: Activation) -> Self {
        Self { activation, gated: true, inner: 1.0, outer: 1.0 }
    }

    /// Products that come before it, of as many rows as the one behind it reads.
    pub const fn products(self) -> usize {
        if self.gated { 2 } else { 1 }
    }

    /// What differs from the kernels' defaults.
    pub(super) fn overrides(self) -> impl Iterator<Item = (&'static str, f64)> {
        let act = (self.activation != Activation::Silu).then_some(("ACT", self.activation.number()));
        let factor = |name, factor| (factor != 1.0).then_some((name, factor));
        let gated = (!self.gated).then_some(("GATED", 0.0));
        [act, gated, factor("INNER", self.inner), factor("OUTER", self.outer)].into_iter().flatten()
    }
}

/// What rows score experts by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scores {
    /// The softmax of the logits.
    Softmax,
    /// The softmax of the logits, with the weights of chosen experts times a factor of each expert.
    Scaled,
    /// Their sigmoids; with a bias only for the choice.
    Sigmoid {
        /// Added to the sum of the chosen experts' weights, where they are divided by it.
        added: f64,
        /// Factor of the weights.
        factor: f64,
    },
}

/// How rows choose among experts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Routing {
    /// What they are scored by.
    pub scores: Scores,
    /// How many experts there are.
    pub count: usize,
    /// How many a row uses.
    pub used: usize,
    /// Whether the weights of the chosen experts are divided by their sum.
    pub normed: bool,
}

/// Experts in place of one feed-forward network.
#[derive(Debug, Clone, Copy)]
pub struct Experts<'a> {
    /// How rows choose among them.
    pub routing: Routing,
    /// What is between their products.
    pub mlp: Mlp,
    /// `[count]` rows: the logits of the choice. One more is the gate of the expert that all rows share.
    pub router: &'a Matrix,
    /// The norm of what the router reads, where it is another than that of what experts read.
    pub router_norm: Option<&'a Norm>,
    /// `[count]`: what is added to sigmoids for the choice, or factors of the weights.
    pub bias: Option<BufferId>,
    /// `[count, 2 F]` rows, each expert's gates first; `[count, F]` where there are none.
    pub up: &'a Matrix,
    /// `[count, D]` rows.
    pub down: &'a Matrix,
    /// Biases of `up`, of all gates first, and of `down`: a matrix's own are those of one product.
    pub biases: Option<(BufferId, BufferId)>,
    /// Each gate is before its up row; their biases, too.
    pub interleaved: bool,
    /// An expert that every row uses: its up product, gates first, and its down product.
    pub shared: Option<(&'a Matrix, &'a Matrix)>,
}

/// What a layer makes of numbers that each token has for it.
#[derive(Debug, Clone, Copy)]
pub struct PerLayer<'a> {
    /// The inputs of all layers: f32 `[T, L P]`.
    pub numbers: Value,
    /// f32 between their rows: L P.
    pub stride: usize,
    /// Norms nothing; the number that `scaled` norms have there says where this layer's begin.
    pub norm: &'a Norm,
    /// What is made of the products that they are multiplied by.
    pub mlp: Mlp,
    /// `[P, D]`
    pub gate: &'a Matrix,
    /// `[D, P]`
    pub output: &'a Matrix,
}

/// A convolution of single channels over the last positions, in place of attention.
#[derive(Debug, Clone, Copy)]
pub struct ShortConv {
    /// The layer that owns its state.
    pub layer: usize,
    /// Positions that it sees.
    pub taps: usize,
    /// Its weights, `[D, taps]`.
    pub weight: BufferId,
}

/// How a state of linear attention goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The gated delta rule.
    Delta,
    /// Mamba-2's.
    Mamba,
}

/// Heads of linear attention, each with a state `[value, key]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinearHeads {
    /// How states go on.
    pub rule: Rule,
    /// Heads of values.
    pub heads: usize,
    /// Heads of queries and keys.
    pub key_heads: usize,
    /// Head i has key head i % key_heads; else neighbours share one.
    pub tiled: bool,
    /// Width of a query and of a key.
    pub key: usize,
    /// Width of a value.
    pub value: usize,
    /// Positions that the convolution before it sees.
    pub taps: usize,
}

impl LinearHeads {
    /// Width of all values together.
    pub const fn width(self) -> usize {
        self.heads * self.value
    }

    /// Channels of the convolution: queries, keys and values.
    pub const fn channels(self) -> usize {
        2 * self.key_heads * self.key + self.width()
    }

    /// Gates of a row: a of each head, and b.
    pub const fn gates(self) -> usize {
        match self.rule {
            Rule::Delta => 2 * self.heads,
            Rule::Mamba => self.heads,
        }
    }
}

/// Kind of linear attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinearKind {
    /// Its heads.
    pub heads: LinearHeads,
    /// The norm behind it.
    pub norm: GatedNorm,
    /// Added to that norm's mean square.
    pub eps: f64,
    /// Whether its convolution has biases.
    pub conv_bias: bool,
    /// Whether A is there as the logarithm of -A.
    pub a_log: bool,
    /// Factors of its parts.
    pub factors: LinearFactors,
}

/// The norm of linear attention's values, and when they are multiplied by SiLU of their gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatedNorm {
    /// A norm of each head, before the gates: all heads have the same weights.
    Heads,
    /// A norm over groups of values, each value with a weight of its own.
    Groups {
        /// Values in a group.
        group: usize,
        /// Whether the gates come before it.
        gate_first: bool,
    },
    /// None: there are only gates.
    None,
}

impl GatedNorm {
    /// Values that are normed together.
    pub const fn group(self, heads: LinearHeads) -> usize {
        match self {
            Self::Heads => heads.value,
            Self::Groups { group, .. } => group,
            // Nothing is: as many as have a workgroup.
            Self::None if heads.value.is_multiple_of(32) => heads.value,
            Self::None => heads.width(),
        }
    }
}

/// Factors of what linear attention reads, each of a part of its projections, and of what it gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinearFactors {
    /// Gates.
    pub gates: f64,
    /// Values, keys and queries: x, B and C of Mamba-2.
    pub channels: [f64; 3],
    /// Steps.
    pub steps: f64,
    /// What it gives.
    pub output: f64,
}

impl LinearFactors {
    /// None.
    pub const NONE: Self = Self { gates: 1.0, channels: [1.0; 3], steps: 1.0, output: 1.0 };
}

/// Linear attention with its convolution and its norm.
#[derive(Debug, Clone, Copy)]
pub struct Linear {
    /// The layer that owns its state.
    pub layer: usize,
    /// What it is.
    pub kind: LinearKind,
    /// Weights of the convolution, `[channels, taps]`, multiplied by the factors of the channels, and biases behind
    /// them.
    pub conv: BufferId,
    /// A, bias and D of each head.
    pub of_heads: BufferId,
    /// Weights of the norm, where there is one: of a head's values, or (groups) of all, multiplied by the factor of
    /// what it gives.
    pub norm: Option<BufferId>,
}

/// Where a norm of single heads has its weights for keys: as shaders/common/qk_norm.wgsl reads them.
pub const QK_NORM_ROOM: usize = HEAD_ROOM as usize;
