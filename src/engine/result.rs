//! What a generation gives: pieces as they come, and the whole.

use serde::Serialize;

use crate::base::Progress;
use crate::decode::{ProfileRow, Timings};
use crate::gpu::Snapshot;
use crate::grammar::Compiled;
use crate::kernels::Caps;
use crate::text::calls::Part;

/// What a caller hears of while a generation runs.
pub enum Event<'a> {
    /// How far the prompt is read ([`Phase::Prompt`](super::Phase::Prompt)), or the model is loaded again after its device was lost.
    Progress(Progress),
    /// A piece of the answer.
    Delta(&'a Delta),
}

/// A token and its log probability: the model's own, before penalties, bias and temperature.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scored {
    /// Id.
    pub id: u32,
    /// What it adds to the text; U+FFFD for bytes that are no whole characters.
    pub text: String,
    /// The same in bytes.
    pub bytes: Vec<u8>,
    /// Natural logarithm of its probability.
    pub logprob: f32,
}

/// A token of the answer, and the likeliest in its place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TokenLogprobs {
    /// The token.
    #[serde(flatten)]
    pub token: Scored,
    /// The likeliest first.
    pub top: Vec<Scored>,
}

/// A piece of the answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Delta {
    /// Whole characters only; may be empty while one is incomplete or may begin a stop text.
    pub text: String,
    /// Ids that became known with this piece.
    pub tokens: Vec<u32>,
    /// Their log probabilities, if asked for; the end token has none.
    pub logprobs: Vec<TokenLogprobs>,
    /// Of an answer to messages: the same told apart, as far as it is decided.
    pub parts: Vec<Part>,
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FinishReason {
    /// The model's end token or a stop text.
    Stop,
    /// The limit of tokens or the end of the context.
    Length,
    /// The caller's signal.
    Abort,
}

/// Commands that one generation gave to the GPU.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct GenerationCounters {
    /// Submissions while decoding.
    pub submits: u64,
    /// Dispatches while decoding.
    pub dispatches: u64,
    /// Readbacks while decoding.
    pub readbacks: u64,
    /// Bytes of those.
    pub readback_bytes: u64,
    /// Submissions while reading the prompt.
    pub prefill_submits: u64,
    /// Bytes of GPU buffers at the end.
    pub gpu_bytes: u64,
    /// Buffers, bind groups and pipelines created while decoding: 0, but for growth of the cache.
    pub created: u64,
}

impl GenerationCounters {
    /// From the decode loop's counters.
    pub fn new(decode: Snapshot, prefill_submits: u64) -> Self {
        Self {
            submits: decode.submits,
            dispatches: decode.dispatches,
            readbacks: decode.readbacks,
            readback_bytes: decode.readback_bytes,
            prefill_submits,
            gpu_bytes: decode.gpu_bytes,
            created: decode.buffers + decode.bind_groups + decode.pipelines,
        }
    }
}

/// The adapter, as results report it.
#[derive(Debug, Clone, Serialize)]
pub struct AdapterInfo {
    /// Vendor.
    pub vendor: String,
    /// Name.
    pub name: String,
    /// Optional features in use.
    pub features: Vec<String>,
    /// Smallest and largest subgroup in use, invocations.
    pub subgroup: [u32; 2],
}

impl From<&Caps> for AdapterInfo {
    fn from(caps: &Caps) -> Self {
        Self { vendor: caps.vendor.clone(), name: caps.name.clone(), features: caps.features.clone(), subgroup: caps.subgroup }
    }
}

/// The whole result of a generation.
#[derive(Debug, Clone, Serialize)]
pub struct Generation {
    /// The answer.
    pub text: String,
    /// Its ids, the end token included.
    pub tokens: Vec<u32>,
    /// The log probabilities of its tokens, if asked for; the end token has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<Vec<TokenLogprobs>>,
    /// Length of the prompt, tokens.
    pub prompt_tokens: usize,
    /// Tokens of it that did not have to be read: the cache held them from before.
    pub cached_tokens: usize,
    /// Drafts that were verified: tokens guessed from where the text stood before.
    pub drafted_tokens: u64,
    /// Those that were right, and are in the answer.
    pub accepted_tokens: u64,
    /// How often the context was full and older tokens were left out.
    pub shifts: u32,
    /// How often the GPU device was lost on the way and the answer went on on another.
    pub recoveries: u32,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// The seed that was used.
    pub seed: u64,
    /// What the answer was forced to be, where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grammar: Option<Compiled>,
    /// Times and speeds.
    pub timings: Timings,
    /// Commands.
    pub counters: GenerationCounters,
    /// Where it ran.
    pub adapter: AdapterInfo,
    /// The lane and its variants, in short.
    pub plan: String,
    /// Time, bytes and busy threads of each kernel of a decode step at the end of the answer, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Vec<ProfileRow>>,
    /// Logits of the prompt's last position, `[V]`, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logits: Option<Vec<f32>>,
    /// Logits of the prompt's positions from `logits_from` on, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_logits: Option<Vec<Vec<f32>>>,
}
