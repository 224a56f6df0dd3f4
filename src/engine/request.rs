//! What a caller asks for and what it gets: the same fields on the command line, in JavaScript and in Rust.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::layout::Kv;
use crate::plan::Lane;
use crate::plan::tuning::Tuning;
use crate::weights::Recipe;

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
    /// Conversations that have what they remember where kernels work at one time; others are copied out and in. 1 if `None`.
    pub slots: Option<u32>,
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
