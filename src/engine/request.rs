//! Requests: their options are the same on the command line, in JavaScript and in Rust, generated from options.toml.

use std::collections::BTreeMap;
use std::rc::Rc;

use millrace_picture::Picture;
use serde_json::{Map, Value};

use crate::decode::Speculate;
use crate::error::{Error, Result};
use crate::gpu::DeviceChoice;
use crate::layout::Kv;
use crate::model::AskedPooling;
use crate::plan::Lane;
use crate::plan::tuning::Tuning;
use crate::state::Input;
use crate::weights::Recipe;

include!(concat!(env!("OUT_DIR"), "/options/load.rs"));
include!(concat!(env!("OUT_DIR"), "/options/generate.rs"));
include!(concat!(env!("OUT_DIR"), "/options/embed.rs"));
include!(concat!(env!("OUT_DIR"), "/options/rerank.rs"));

/// Faults that a test plants in a load.
#[cfg(feature = "lab")]
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Variants that compute nothing, (kernel, variant), as on a GPU with a faulty driver.
    pub broken: Vec<(String, String)>,
    /// How soon after a loss of the device another is an error and not recovered from, in ms; a minute if `None`.
    pub loss_interval_ms: Option<f64>,
}

/// The prompt of a request.
#[derive(Debug, Clone)]
pub enum Prompt {
    /// Plain text, tokenized with the model's own special tokens in front.
    Text(String),
    /// A conversation as OpenAI writes it, put through the model's chat template.
    Messages(Value),
    /// Token ids as they are.
    Tokens(Vec<u32>),
    /// Tokens, some of them replaced by rows that are computed elsewhere.
    Input(Input),
}

impl Default for Prompt {
    /// No tokens, which a request rejects.
    fn default() -> Self {
        Self::Tokens(Vec::new())
    }
}

impl Request {
    /// A greedy request with the default options otherwise.
    pub fn new(prompt: Prompt) -> Self {
        Self { prompt, temperature: 0.0, ..Self::default() }
    }

    /// The tools that the prompt describes.
    pub(super) fn offered(&self) -> Option<&Value> {
        self.tools.as_ref().filter(|_| self.tool_choice != "none")
    }
}

/// The behaviour when prompt and answer fill the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// A prompt that leaves no room is an error; an answer ends with `length`.
    #[default]
    Error,
    /// The older half of what follows the system prompt is left out, and what remains is read again.
    Shift,
}

impl Overflow {
    /// The option's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Shift => "shift",
        }
    }

    /// The option of that name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "error" => Ok(Self::Error),
            "shift" => Ok(Self::Shift),
            _ => Err(Error::bad_option(format!("overflow {name} is not known; use error or shift"))),
        }
    }
}

/// How a special token is read that a message spells, as `<|im_end|>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spelled {
    /// As text.
    #[default]
    Text,
    /// As the token, as in transformers: the author of a message can then end it and begin another.
    Parse,
}

impl Spelled {
    /// The option's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Parse => "parse",
        }
    }

    /// The option of that name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "text" => Ok(Self::Text),
            "parse" => Ok(Self::Parse),
            _ => Err(Error::bad_option(format!("special tokens {name} is not known; use text or parse"))),
        }
    }
}
