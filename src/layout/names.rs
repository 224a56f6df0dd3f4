//! Names of buffers. Buffers that several kernels or plans share are named here; weights have the names that the model
//! gives them.

use std::fmt;

/// A buffer's name, unique in its layout.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Name {
    /// A matrix's quants or scales, a vector: by the model's name of it.
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
    /// Rows in place of embeddings of a prefill pass, and what is added behind layers, f32 `[1 + layers, T,
    /// stride(D)]`; and for each row of the pass and each of these, the index into it, if any.
    Embedded,
    EmbeddedAt,
    /// Position of each row of a pass on the axes of time, rows and columns, and 0: u32 `[T, 4]`.
    Axes,
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
    /// The log probabilities of the token of each step, and of those.
    Logprobs,
    /// What bindings are bound to that a model does not need.
    Zeros,
}

/// What a kernel leaves for a later one. Layers and plans share these: each is as large as its largest user wants it, and holds what was written
/// last ([`crate::plan::hazards`] finds a plan in which that is not what its reader wants).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scratch {
    /// The residual stream, f32 `[T, stride(D)]`.
    Residual,
    /// Its other buffer, where a product that norms its own input completes it, `[stride(D)]`, or where its norm takes its place.
    ResidualSum,
    /// Queries, keys and values, f32 `[T, (H + 2 G) E]`.
    Qkv,
    /// Projections of linear attention that stands beside attention, f32 `[T, channels + gates]`.
    Beside,
    /// Gates of linear attention that are no part of its other projections, f32 `[T, gates]`.
    Gates,
    /// Queries, keys and values of linear attention behind their convolution, f32 `[T, channels]`.
    Convolved,
    /// How strongly each of its heads fades and writes, `[T, heads]` of two.
    Strengths,
    /// What its rows do to each other within a chunk: two matrices of `[32, 32]` for each chunk and head.
    Within,
    /// What its heads give, f32 `[T, heads value]`.
    Mixed,
    /// What a block adds once it is normed, f32 `[T, stride(D)]`.
    Block,
    /// As `Block`, of the experts beside another feed-forward network; and the sum of both blocks.
    ExpertsBlock,
    BlocksSum,
    /// What each token has for each layer, f32 `[T, L P]`; and the last row's alone.
    PerLayer,
    PerLayerLast,
    /// What the narrow products of adapters give, f32 `[T, ranks]`.
    Narrow,
    /// Gates and up rows, f32 `[T, 2 F]` or `[T, F]`.
    GateUp,
    /// The input of a product that follows a norm.
    Input(Form),
    /// What attention gives to the output product.
    Attention(Form),
    /// What a product reads within its limits, f32 `[T, KB * 32]`, and what it gives before it is held between them, f32 `[T, stride(N)]`.
    Limited,
    Unlimited,
    /// What a feed-forward network's first half gives to its second.
    Activation(Form),
    /// What the chosen experts' first halves give to their second.
    Experts(Form),
    /// What products of many rows' experts give, f32 `[T, used]` of gates and up rows, then of `stride(D)`.
    ExpertsMade,
    /// The chosen experts' slots by expert, `[T, used]`, and the tiles of them that such products take.
    Order,
    Tiles,
    /// Logits of the choice among experts, `[T, experts]`.
    Router,
    /// Which experts a row has chosen, `[T, used]` of expert and weight.
    Chosen,
    /// Splits of attention before they are merged: sums, and their weights.
    Partial,
    /// (maximum, sum of weights) of each split and head.
    PartialWeights,
    /// Logits of the last row, `[V]`.
    Logits,
    /// What a pass has found of each of its texts, f32 `[texts, stride(D)]`, and what products in turn make of that, `[texts, stride(N)]`.
    Pooled,
    Scores,
    /// Features of a tower's midst, rows as wide as they are joined, and what their projector makes of them: by number.
    Joined(usize),
    Deepstack(usize),
    /// They before penalties and bias.
    RawLogits,
    /// The largest logit of each slice.
    Largest,
    /// Below which logit nothing is drawn.
    Threshold,
    /// Counts and sums by bits of the logits.
    Bins,
    /// Sums of exponentials of each slice.
    Sums,
    /// The likeliest tokens of each slice.
    Tops,
    /// What each slice would choose.
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
