//! What a caller asks for and what it gets: the same fields on the command line, in JavaScript and in Rust.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::decode::{ProfileRow, Timings};
use crate::error::{Error, Result};
use crate::gpu::{Caps, Snapshot};
use crate::plan::tuning::Tuning;
use crate::plan::{Kv, Lane, Layout, PlanRow, Role, Sizes};
use crate::weights::{Conversion, LoadTimes, Recipe};

use super::Progress;

/// How to load a model.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// How activations and the cache are held.
    pub lane: Lane,
    /// How the cache holds keys and values; as the lane has it if `None`: f32 in lane exact, f16 in the others.
    pub kv: Option<Kv>,
    /// Most positions, prompt and answer together; the model's own context if `None`.
    pub context: Option<u32>,
    /// Tokens between two readbacks (1 to 32); follows measured time if `None`.
    pub chunk: Option<u32>,
    /// Only an adapter whose name or vendor contains this.
    pub adapter: Option<String>,
    /// Forced kernels: (kernel, variant's name or value of one of its axes).
    pub kernels: Vec<(String, String)>,
    /// Leaves subgroup operations unused even where the device has them.
    pub no_subgroups: bool,
    /// Rows of a prefill pass; 512 if `None`.
    pub prefill_rows: Option<u32>,
    /// Positions that the cache holds at first, before it doubles; 512 if `None`.
    pub cache_start: Option<u32>,
    /// How matrices are quantized while they are loaded, where they are not yet.
    pub quantize: Option<Recipe>,
    /// Cap on the bytes of one binding, below the device's own.
    pub max_binding: Option<u64>,
    /// What was found out about this and other devices before.
    pub tuning: Tuning,
    /// Whether to run the self-test; on every GPU but those in software if `None`.
    pub self_test: Option<bool>,
    /// Variants that compute nothing, (kernel, variant), as on a GPU with a faulty driver: for tests.
    pub broken: Vec<(String, String)>,
    /// How soon after a loss of the device another is an error and not recovered from, ms; a minute if `None`. For tests.
    pub loss_interval_ms: Option<f64>,
}

/// What to continue.
#[derive(Debug, Clone)]
pub enum Prompt {
    /// Plain text, tokenized with the model's own special tokens in front.
    Text(String),
    /// A conversation as OpenAI writes it, put through the model's chat template.
    Messages(Value),
    /// Token ids as they are.
    Tokens(Vec<u32>),
}

/// One generation.
#[derive(Debug, Clone)]
pub struct Request {
    /// What to continue.
    pub prompt: Prompt,
    /// Tools as JSON schemas, for the chat template.
    pub tools: Option<Value>,
    /// Further variables of the chat template, e.g. `enable_thinking`.
    pub template: Map<String, Value>,
    /// Most tokens to sample; up to the end of the context if `None`.
    pub max_tokens: Option<u32>,
    /// 0 is greedy.
    pub temperature: f32,
    /// Keep the k most likely; 0 is off.
    pub top_k: u32,
    /// Keep the smallest set of that probability; 1 is off.
    pub top_p: f32,
    /// Keep tokens at least this likely relative to the best; 0 is off.
    pub min_p: f32,
    /// Same seed, same text; random if `None`.
    pub seed: Option<u64>,
    /// Makes tokens that are in the answer less likely, -2 to 2; 0 is off.
    pub presence_penalty: f32,
    /// Makes tokens less likely for each time that they are in the answer, -2 to 2; 0 is off.
    pub frequency_penalty: f32,
    /// Makes tokens of the prompt and of the answer less likely, above 0; 1 is off.
    pub repetition_penalty: f32,
    /// Added to the logits of tokens, -100 to 100, by id.
    pub logit_bias: BTreeMap<u32, f32>,
    /// Also return the log probability of each token, and of so many (up to 20) of the likeliest in its place.
    pub logprobs: Option<u32>,
    /// Texts that end the answer; they are not part of it.
    pub stop: Vec<String>,
    /// Go on after the model's end token.
    pub ignore_eos: bool,
    /// Also return the logits of the prompt's last position.
    pub logits: bool,
    /// Also measure each kernel of a decode step at the end of the answer.
    pub profile: bool,
    /// What happens when the context is full.
    pub overflow: Overflow,
    /// Read the whole prompt, also what the cache holds of it.
    pub afresh: bool,
    /// The conversation whose cache this continues: 0, or what [`super::Engine::fork`] gave.
    pub conversation: u32,
    /// Also return the logits of each prompt position from this one on, the later ones computed by the decode step.
    pub logits_from: Option<u32>,
}

impl Request {
    /// A greedy request with no limit but the context.
    pub fn new(prompt: Prompt) -> Self {
        Self {
            prompt,
            tools: None,
            template: Map::new(),
            max_tokens: None,
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            seed: None,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            repetition_penalty: 1.0,
            logit_bias: BTreeMap::new(),
            logprobs: None,
            stop: Vec::new(),
            ignore_eos: false,
            logits: false,
            profile: false,
            overflow: Overflow::Error,
            afresh: false,
            conversation: 0,
            logits_from: None,
        }
    }
}

/// What happens when prompt and answer fill the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// A prompt that leaves no room is an error; an answer ends, `length`.
    #[default]
    Error,
    /// The older half of what follows the system prompt is left out, and what remains is read again.
    Shift,
}

impl Overflow {
    /// By its name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "error" => Ok(Self::Error),
            "shift" => Ok(Self::Shift),
            _ => Err(Error::bad_option(format!("overflow {name} is not known; use error or shift"))),
        }
    }
}

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
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Delta {
    /// Whole characters only; may be empty while one is incomplete or may begin a stop text.
    pub text: String,
    /// Ids that became known with this piece.
    pub tokens: Vec<u32>,
    /// Their log probabilities, if asked for; the end token has none.
    pub logprobs: Vec<TokenLogprobs>,
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
    /// How often the context was full and older tokens were left out.
    pub shifts: u32,
    /// How often the GPU device was lost on the way and the answer went on on another.
    pub recoveries: u32,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// The seed that was used.
    pub seed: u64,
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

/// What an engine says of itself.
#[derive(Debug, Clone, Serialize)]
pub struct Info {
    /// Version of Millrace.
    pub version: &'static str,
    /// The model.
    pub model: ModelInfo,
    /// The device.
    pub adapter: Caps,
    /// The lane in use.
    pub lane: Lane,
    /// The lanes that this device can run.
    pub lanes: Vec<Lane>,
    /// GPU memory.
    pub memory: MemoryInfo,
    /// Most positions.
    pub context: u32,
    /// Opening, downloading and uploading, ms.
    pub load_ms: f64,
    /// What of it the weights took, ms.
    pub load_times: LoadTimes,
    /// How the self-test went.
    pub self_test: SelfTestInfo,
    /// What is not as it should be, for people.
    pub warnings: Vec<String>,
    /// Every step of both passes.
    pub plan: Vec<PlanRow>,
}

/// Bytes of wasm's memory, which only grows; 0 natively.
fn wasm_bytes() -> u64 {
    #[cfg(target_arch = "wasm32")]
    return core::arch::wasm32::memory_size(0) as u64 * 65_536;
    #[cfg(not(target_arch = "wasm32"))]
    0
}

impl Info {
    /// What a model and its layout say; the rest is empty.
    pub(crate) fn new(model: ModelInfo, caps: &Caps, lane: Lane, layout: &Layout, sizes: Sizes, context: u32) -> Self {
        let full = Sizes { capacity: context, ..sizes };
        let memory = MemoryInfo {
            weights: layout.bytes(Role::Weight),
            kv: layout.bytes(Role::Cache),
            kv_full: layout.specs().iter().filter_map(|spec| spec.cache).map(|cache| cache.grown(full).bytes()).sum(),
            activations: layout.bytes(Role::Activation) + layout.bytes(Role::State),
            total: 0,
            peak: 0,
            wasm: wasm_bytes(),
        };
        Self {
            version: env!("CARGO_PKG_VERSION"),
            model,
            adapter: caps.clone(),
            lane,
            lanes: [Lane::Exact, Lane::F16, Lane::Fast].into_iter().filter(|l| *l != Lane::F16 || caps.f16()).collect(),
            memory,
            context,
            load_ms: 0.0,
            load_times: LoadTimes::default(),
            self_test: SelfTestInfo::default(),
            warnings: Vec::new(),
            plan: Vec::new(),
        }
    }
}

/// The self-test at loading.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SelfTestInfo {
    /// Variants that ran; the others have passed on this device before.
    pub checked: usize,
    /// How long it took, ms.
    pub ms: f64,
    /// Variants that computed wrongly and are not used, and how.
    pub wrong: Vec<String>,
    /// Why it did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<&'static str>,
}

/// The model, for people.
#[derive(Debug, Clone, Serialize)]
pub struct ModelInfo {
    /// Name from the file, if it has one.
    pub name: Option<String>,
    /// Architecture, by GGUF's name.
    pub architecture: String,
    /// Number of weights.
    pub parameters: u64,
    /// Positions the model was trained for.
    pub context: u32,
    /// Size of the vocabulary.
    pub vocab: usize,
    /// Layers.
    pub layers: usize,
    /// Bytes of all tensors in the checkpoint.
    pub bytes: u64,
    /// Types of its tensors and how many tensors have each.
    pub types: BTreeMap<String, usize>,
    /// Types that other types became while loading: those that no kernel reads, and what was quantized.
    pub converted: Vec<Conversion>,
    /// Whether the model has a chat template.
    pub chat: bool,
    /// Whether an answer begins within a thought: what the template writes ends with the tag that opens one.
    pub thinks: bool,
}

/// GPU memory, in bytes.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct MemoryInfo {
    /// Weights and tables.
    pub weights: u64,
    /// KV cache as it is now.
    pub kv: u64,
    /// The KV cache once the context is full.
    pub kv_full: u64,
    /// Activations.
    pub activations: u64,
    /// All buffers alive.
    pub total: u64,
    /// Most at one time.
    pub peak: u64,
    /// wasm's own memory, at its largest; 0 natively.
    pub wasm: u64,
}
