//! Names of buffers. Buffers that several kernels or plans share are named here; weights have the names that the model
//! gives them.

use std::fmt;

/// A buffer's name, unique in its layout.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Name {
    /// A matrix's quants or scales, or a vector: by the model's name of it.
    Weight(String),
    /// cos and sin by position, of the model's n-th rotary positions.
    Rotations(usize),
    /// A part of a layer's state (KV cache, recurrent state): the layer, and the binding of the part.
    State(usize, &'static str),
    /// Input from the host and output to it.
    Control(Control),
    /// An intermediate result between two kernels.
    Scratch(Scratch),
}

/// What the host writes for a pass, and what it reads back: these buffers outlive a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Control {
    /// State of the decode loop.
    Decode,
    /// State of a prefill pass.
    Prefill,
    /// State for the tail of a prefill pass that only its last row goes through: one row, whose index in the pass is
    /// `token`.
    Last,
    /// Token ids of a prefill pass.
    Tokens,
    /// Rows in place of embeddings of a prefill pass, and what is added behind layers, f32
    /// `[1 + layers, T, stride(D)]`; and for each row of the pass and each of these, the index into it, if any.
    Embedded,
    EmbeddedAt,
    /// Position of each row of a pass on the axes of time, rows and columns, and 0: u32 `[T, 4]`.
    Axes,
    /// Pixels of a tile of a picture, bytes `[height, width, 3]`; bytes between two rows of them and the byte at which
    /// each patch begins, u32 `[1 + T]`; and what becomes of each byte of each channel, f32 `[3, 256]`.
    Pixels,
    PatchStarts,
    PixelNumbers,
    /// Patches of a picture, f32 `[T, stride(P)]`; a row of positions for each, f32 `[T, stride(D)]`; and the order of
    /// rows before they are joined.
    Patches,
    PatchPositions,
    PatchOrder,
    /// Begin and end of each row's text, in a pass of several texts.
    Spans,
    /// The range of rows that are pooled for each text of such a pass: first row, one past the last.
    Taken,
    /// Each row's position in its text, and its token type, in such a pass.
    Positions,
    TokenTypes,
    /// Adapter and strength of each row.
    Voices,
    /// Sampling parameters.
    Sampling,
    /// Sampled token ids between two readbacks.
    Ring,
    /// As `Ring`, for steps that accept several tokens; with the number of drafts that each step read.
    Accepted,
    /// The sequence's token ids by position, from which drafts are taken.
    Text,
    /// Input of a step of several rows: a token and its drafts.
    Drafts,
    /// Progress of the search for the tokens that survive top-k and top-p.
    Search,
    /// For each token: whether it is in the prompt, its count in the answer, its bias.
    Tallies,
    /// A compiled grammar, as kernels walk it.
    Automaton,
    /// Each answer's state in the grammar.
    Walk,
    /// For each token: its first bytes, the offset and length of all of them, its class, and whether it ends an answer.
    Vocabulary,
    /// The bytes of all tokens.
    TokenBytes,
    /// The likeliest tokens of each step between two readbacks.
    Likeliest,
    /// Log probabilities of each step's token, and of the likeliest tokens.
    Logprobs,
    /// Stands in for bindings that a model does not use.
    Zeros,
}

/// An intermediate result. Layers and plans share these: each is as large as its largest user needs, and holds what was
/// written last ([`crate::plan::hazards`] finds plans in which a step reads another result than it wants).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scratch {
    /// The residual stream, f32 `[T, stride(D)]`.
    Residual,
    /// The second buffer of the residual stream: where a product that norms its own input completes it, `[stride(D)]`,
    /// or where its norm takes its place.
    ResidualSum,
    /// Queries, keys and values, f32 `[T, (H + 2 G) E]`.
    Qkv,
    /// Projections of linear attention beside attention, f32 `[T, channels + gates]`.
    Beside,
    /// Gates of linear attention that are not among its other projections, f32 `[T, gates]`.
    Gates,
    /// Queries, keys and values of linear attention after their convolution, f32 `[T, channels]`.
    Convolved,
    /// Decay and write strength of each head of linear attention, `[T, heads]` pairs.
    Strengths,
    /// Interactions of the rows within a chunk of linear attention: two `[32, 32]` matrices for each chunk and head.
    Within,
    /// Outputs of the heads of linear attention, f32 `[T, heads value]`.
    Mixed,
    /// A block's output before its norm and addition, f32 `[T, stride(D)]`.
    Block,
    /// As `Block`, of the experts beside another feed-forward network; and the sum of both blocks.
    ExpertsBlock,
    BlocksSum,
    /// Per-layer inputs of each token, f32 `[T, L P]`; and those of the last row.
    PerLayer,
    PerLayerLast,
    /// Outputs of adapters' narrow products (A x), f32 `[T, ranks]`.
    Narrow,
    /// Gates and up rows, f32 `[T, 2 F]` or `[T, F]`.
    GateUp,
    /// The input of a product that follows a norm.
    Input(Form),
    /// Output of attention, the input of the output projection.
    Attention(Form),
    /// Clamped input of a limited product, f32 `[T, KB * 32]`, and its output before clamping, f32 `[T, stride(N)]`.
    Limited,
    Unlimited,
    /// Activations between the two halves of a feed-forward network.
    Activation(Form),
    /// Activations between the two halves of the chosen experts.
    Experts(Form),
    /// Outputs of products over many rows' experts, f32 `[T, used]` of gates and up rows, then of `stride(D)`.
    ExpertsMade,
    /// The chosen experts' slots sorted by expert, `[T, used]`, and the tiles of them that such products take.
    Order,
    Tiles,
    /// Router logits, `[T, experts]`.
    Router,
    /// The chosen experts of each row, `[T, used]` of expert and weight.
    Chosen,
    /// Partial attention outputs of splits before they are merged.
    Partial,
    /// (maximum, sum of weights) of each split and head.
    PartialWeights,
    /// Logits of the last row, `[V]`.
    Logits,
    /// Pooled row of each text, f32 `[texts, stride(D)]`, and outputs of the products behind it, `[texts, stride(N)]`.
    Pooled,
    Scores,
    /// Features of a tower's intermediate layers, joined, and the output of their projector: by number.
    Joined(usize),
    Deepstack(usize),
    /// Logits before penalties and bias.
    RawLogits,
    /// The largest logit of each slice.
    Largest,
    /// The least logit that can be drawn.
    Threshold,
    /// Histogram of logits by their bits: counts and sums.
    Bins,
    /// Sums of exponentials of each slice.
    Sums,
    /// The likeliest tokens of each slice.
    Tops,
    /// The candidate of each slice.
    Candidates,
    /// Outputs of a kernel that no step reads.
    Unused,
}

/// How activations are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Form {
    /// f32.
    F32,
    /// Halves, two in a word.
    F16,
    /// int8, four in a word.
    Q8,
    /// (scale, scale * sum) of each 32 int8.
    Scales,
}

impl Name {
    /// Whether it is of the checkpoint.
    pub fn is_weight(&self) -> bool {
        matches!(self, Self::Weight(_))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weight(name) => f.write_str(name),
            Self::Rotations(n) => write!(f, "rotations.{n}"),
            Self::State(layer, part) => write!(f, "blk.{layer}.state.{part}"),
            Self::Control(control) => write!(f, "{control:?}"),
            Self::Scratch(scratch) => write!(f, "{scratch:?}"),
        }
    }
}

impl From<Control> for Name {
    fn from(control: Control) -> Self {
        Self::Control(control)
    }
}

impl From<Scratch> for Name {
    fn from(scratch: Scratch) -> Self {
        Self::Scratch(scratch)
    }
}
