//! The results of a generation: its pieces and the whole.

use serde::Serialize;

use crate::base::Progress;
use crate::decode::{ProfileRow, Timings};
use crate::gpu::Snapshot;
use crate::grammar::Compiled;
use crate::kernels::Caps;
use crate::text::calls::Part;

/// An event during a generation.
pub enum Event<'a> {
    /// Progress of reading the prompt ([`Phase::Prompt`](super::Phase::Prompt)), or of loading the model again after a
    /// device loss.
    Progress(Progress),
    /// A piece of the answer.
    Delta(&'a Delta),
}

/// A token and its log probability: the model's own, before penalties, bias and temperature.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scored {
    /// Id.
    pub id: u32,
    /// The token's text; U+FFFD for bytes that are no whole characters.
    pub text: String,
    /// The token's bytes.
    pub bytes: Vec<u8>,
    /// Natural logarithm of its probability.
    pub logprob: f32,
}

/// A token of the answer, and the likeliest tokens at its position.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TokenLogprobs {
    /// The token.
    #[serde(flatten)]
    pub token: Scored,
    /// The likeliest tokens, the likeliest first.
    pub top: Vec<Scored>,
}

/// A piece of the answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Delta {
    /// Whole characters only; may be empty while one is incomplete or may begin a stop text.
    pub text: String,
    /// Ids that became known with this piece.
    pub tokens: Vec<u32>,
    /// The tokens' log probabilities, if asked for; the end token has none.
    pub logprobs: Vec<TokenLogprobs>,
    /// Of an answer to messages: the piece parsed into parts, as far as it is decided.
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
    /// Bytes read back while decoding.
    pub readback_bytes: u64,
    /// Submissions while reading the prompt.
    pub prefill_submits: u64,
    /// Bytes of GPU buffers at the end.
    pub gpu_bytes: u64,
    /// Buffers, bind groups and pipelines created while decoding: 0, except for growth of the cache.
    pub created: u64,
}

impl GenerationCounters {
    /// Counters of the decode loop and of prefill.
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
        Self {
            vendor: caps.vendor.clone(),
            name: caps.name.clone(),
            features: caps.features.clone(),
            subgroup: caps.subgroup,
        }
    }
}

/// The whole result of a generation.
#[derive(Debug, Clone, Serialize)]
pub struct Generation {
    /// The answer.
    pub text: String,
    /// The answer's ids, the end token included.
    pub tokens: Vec<u32>,
    /// The tokens' log probabilities, if asked for; the end token has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<Vec<TokenLogprobs>>,
    /// Length of the prompt, tokens.
    pub prompt_tokens: usize,
    /// Tokens of the prompt that the cache held from before.
    pub cached_tokens: usize,
    /// Tokens in the context at the end: the prompt and the answer, without what shifts have left out.
    pub context_tokens: usize,
    /// Drafted tokens that were verified.
    pub drafted_tokens: u64,
    /// Drafted tokens that were accepted into the answer.
    pub accepted_tokens: u64,
    /// How often the context was full and older tokens were left out.
    pub shifts: u32,
    /// How often the GPU device was lost and the answer continued on another.
    pub recoveries: u32,
    /// Why the answer ended.
    pub finish_reason: FinishReason,
    /// The seed that was used.
    pub seed: u64,
    /// The grammar of the answer, where it was constrained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grammar: Option<Compiled>,
    /// Times and speeds.
    pub timings: Timings,
    /// Commands.
    pub counters: GenerationCounters,
    /// The device.
    pub adapter: AdapterInfo,
    /// The lane and its kernel variants, in one line.
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
