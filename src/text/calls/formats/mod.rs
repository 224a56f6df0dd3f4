//! The ways in which models write calls and thoughts: a file each.

pub mod thoughts;

mod bare;
mod deepseek;
mod functionary;
mod gemma;
mod harmony;
mod kimi;
mod lists;
mod llama;
mod minicpm;
mod minimax;
mod minimax_m3;
mod mistral;
mod seed;
mod tool_call;

use serde_json::Value;

use super::Section;
use super::grammar::Writer;
use super::reader::{Read, Reader};
use crate::error::{Error, Result};

/// What any model can be asked for.
pub use bare::JSON as PLAIN_JSON;

/// Whether a template or a vocabulary shows a mark.
pub type Shown<'s> = &'s dyn Fn(&str) -> bool;

/// What a format's name follows from: several families share marks.
pub struct Naming<'s> {
    pub shown: Shown<'s>,
    /// Of calls that were written: the number of their opening, and the text behind it.
    pub written: Option<(usize, &'s str)>,
}

/// A way of writing calls.
#[derive(Debug)]
pub struct Format {
    /// Its name for people: one of [`NAMES`], or of a family that has none there.
    pub name: fn(&Naming<'_>) -> &'static str,
    /// Any of these in a template or among the special tokens shows that a model writes so; where there are none, all
    /// may.
    pub shown_by: &'static [&'static str],
    /// What it begins with.
    pub opens: &'static [&'static str],
    /// All its marks, of which special tokens may be parts.
    pub marks: &'static [&'static str],
    /// Whether there is no mark of its own: what it begins with is the beginning of the call itself. Where a model's
    /// calls have tags, bare ones count only where nothing else has been said.
    pub bare: bool,
    /// Whether it also tells thoughts and text apart, so that it is read without tools, too.
    pub sections: bool,
    /// Where a call ends a thought that has no end of its own: what must follow the opening then. Others write calls in
    /// thoughts to try them.
    pub ends_thoughts: Option<&'static str>,
    /// Reads what follows the opening, of which the number is given.
    pub read: fn(&mut Reader, usize, &mut Section) -> Read,
    /// Which of its openings a model writes whose template or vocabulary shows what the function is asked for: one, or
    /// the usual one first. None where it writes otherwise.
    pub written: fn(Shown<'_>) -> &'static [usize],
    /// The grammar of an answer with calls.
    pub write: fn(&Writer<'_>) -> Result<Value>,
    /// Where it has sections: the grammar of an answer that is another one.
    pub answer: Option<fn(&Writer<'_>, Value) -> Value>,
}

impl Format {
    /// What a format that says nothing else is.
    const PLAIN: Self = Self {
        name: |_| "json",
        shown_by: &[],
        opens: &[],
        marks: &[],
        bare: false,
        sections: false,
        ends_thoughts: None,
        read: |_, _, _| Ok(()),
        written: |_| &[0],
        write: |_| Err(Error::internal("a way of calls that is only read")),
        answer: None,
    };
}

/// A way of writing thoughts.
#[derive(Debug)]
pub struct Thought {
    /// As for [`Format`].
    pub shown_by: &'static [&'static str],
    pub open: &'static str,
    /// Ends of prompts, beside `open`, after which the model thinks.
    pub prompts: &'static [&'static str],
    /// What ends it, and whether that belongs to it.
    pub ends: &'static [(&'static str, bool)],
    /// Tags around the answer, which are not said.
    pub around: &'static [&'static str],
    /// Whether it may begin after text, too: its mark is a special token.
    pub anywhere: bool,
}

/// Formats by the names that people call them by, with what shows each in a template.
pub const NAMES: &[(&str, &[&str])] = &[
    ("hermes", &["<tool_call>"]),
    ("qwen3-coder", &["<tool_call>", "<function=", "<parameter="]),
    ("llama3", &["<|python_tag|>", "ipython"]),
    ("mistral", &["[TOOL_CALLS]", "[THINK]"]),
    ("granite", &["<|tool_call|>", "<tool_call>", "<response>"]),
    ("phi4", &["<|tool_call|>", "<|/tool_call|>"]),
    ("smollm2", &["<tool_call>["]),
    ("deepseek", &["<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "｜DSML｜", "function_calls>", "tool_calls>"]),
    ("functionary", &[">>>all", "<function>"]),
    ("gemma4", &["<|tool_call>", "<|channel>"]),
    ("harmony", &["<|channel|>"]),
    ("lfm2", &["<|tool_call_start|>"]),
    ("glm", &["<tool_call>", "<arg_key>"]),
    ("kimi", &["<|tool_calls_section_begin|>", "<|tool_call_begin|>"]),
    ("minimax", &["<minimax:tool_call>", "]<]minimax[>[", "<mm:think>"]),
    ("cohere", &["<|START_ACTION|>", "<|START_THINKING|>"]),
    ("seed", &["<seed:tool_call>", "<seed:think>"]),
    ("json", &[]),
];

pub static ALL: &[&Format] = &[
    &harmony::FORMAT,
    &tool_call::FORMAT,
    &mistral::FORMAT,
    &deepseek::MARKED,
    &deepseek::DSML,
    &kimi::FORMAT,
    &minimax::FORMAT,
    &minimax_m3::FORMAT,
    &minicpm::FORMAT,
    &seed::FORMAT,
    &gemma::FORMAT,
    &lists::FORMAT,
    &lists::PYTHON,
    &functionary::TAGS,
    &functionary::RECIPIENTS,
    &llama::PYTHON_TAG,
    &bare::LISTS,
    &bare::JSON,
];
