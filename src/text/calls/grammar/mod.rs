//! What calls look like, as a description of a grammar: for requests that want a call, or calls that keep to their
//! schemas.
//!
//! The compiler of grammars is a module of its own, which takes its description as JSON; this puts it together. Each
//! format says in its own file how its calls are written. A description is one of `{"schema": …}`, `{"regex": "…"}`,
//! `{"choice": […]}`, `{"literal": "…"}`, `{"token": "…"}` (a control token, by its name), `{"sequence": […]}`,
//! `{"union": […]}`, `{"repeat": {"item", "separator", "min", "max"}}`, `{"free_until": "…"}`, which takes the end too,
//! and `{"free_text": [{"trigger", "then"}]}`.

mod fields;
mod literals;
mod plain;
pub(super) mod python;
pub(super) mod schema;
mod tags;
mod thoughts;
pub(super) mod writer;

use serde_json::{Value, json};

use self::fields::Field;
pub(super) use self::fields::Fields;
pub(super) use self::literals::Notation;
pub(super) use self::plain::Plain;
pub(super) use self::schema::refuse;
pub(super) use self::tags::Tags;
pub(super) use self::writer::Writer;
use super::Formats;
use super::formats::{self, Format, Shown};
use super::reader::Tool;
use crate::error::{Error, ErrorKind, Result};

/// Whether an answer has to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice<'a> {
    /// The model decides.
    Auto,
    /// The model must call a tool.
    Required,
    /// The model must call this tool.
    Named(&'a str),
    /// The model may call no tool.
    None,
}

/// What a request asks of calls.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The tools that the model was offered.
    pub tools: &'a [Tool],
    /// Whether it has to call.
    pub choice: Choice<'a>,
    /// Whether several calls may follow each other.
    pub parallel: bool,
    /// The end of the prompt as it was rendered: it says whether a thought is open.
    pub prompt: &'a str,
}

impl Formats {
    /// The grammar of an answer with calls; none where nothing has to be kept to: no choice, or the model's own without
    /// a tool that is strict. `is_control` tells whether a mark is a control token of the tokenizer, rather than text.
    ///
    /// Where a call is required, each tool's arguments satisfy its schema. Where it is the model's choice those of
    /// strict tools do, and the others' are of the form that calls have.
    ///
    /// # Errors
    /// `UNSUPPORTED_SCHEMA`, with the tool, the place in its schema, the keyword and the reason, where a schema cannot
    /// be kept to in the way in which the model writes calls; `BAD_OPTION` where a call is wanted of a tool that was
    /// not offered.
    pub fn calls_grammar(&self, wanted: &Wanted<'_>, is_control: &dyn Fn(&str) -> bool) -> Result<Option<Value>> {
        let Wanted { tools, choice, parallel, prompt } = *wanted;
        let tools: Vec<&Tool> = match choice {
            Choice::None => return Ok(None),
            Choice::Auto if !tools.iter().any(|tool| tool.strict) => return Ok(None),
            Choice::Named(name) => tools.iter().filter(|tool| tool.name == name).collect(),
            Choice::Auto | Choice::Required => tools.iter().collect(),
        };
        if tools.is_empty() {
            return Err(Error::bad_option(match choice {
                Choice::Named(name) => format!("the choice of a tool names {name:?}, which is not among the tools"),
                _ => "a call is required, but there are no tools".to_owned(),
            }));
        }
        let (format, which) = self.written();
        let writer = Writer::new(self, format, which, tools, choice != Choice::Auto, parallel, prompt, is_control);
        let root = (format.write)(&writer)?;
        Ok(Some(if format.sections {
            root
        } else {
            thoughts::before(&writer, self.bound().ends_thoughts(format), false, root)
        }))
    }

    /// The grammar of an answer that is `root` or calls, as the model likes.
    ///
    /// # Errors
    /// As [`Formats::calls_grammar`]; `UNSUPPORTED_SCHEMA` where the model's calls stand in sections of their own
    /// beside answers.
    pub fn calls_or_answer_grammar(
        &self,
        wanted: &Wanted<'_>,
        root: Value,
        is_control: &dyn Fn(&str) -> bool,
    ) -> Result<Value> {
        let (format, which) = self.written();
        if format.sections {
            return Err(Error::new(
                ErrorKind::UnsupportedSchema,
                "this model's answers and calls stand in sections: ask for a form or offer tools, not both",
            ));
        }
        let writer = Writer::new(
            self,
            format,
            which,
            wanted.tools.iter().collect(),
            true,
            wanted.parallel,
            wanted.prompt,
            is_control,
        );
        let either = json!({ "union": [(format.write)(&writer)?, root] });
        Ok(thoughts::before(&writer, self.bound().ends_thoughts(format), true, either))
    }

    /// The grammar of an answer that is `root` (the description of a schema, an expression or choices), perhaps behind
    /// a thought.
    pub fn answer_grammar(&self, root: Value, prompt: &str, is_control: &dyn Fn(&str) -> bool) -> Value {
        let (format, which) = self.written();
        let writer = Writer::new(self, format, which, Vec::new(), true, false, prompt, is_control);
        match format.answer {
            Some(answer) => answer(&writer, root),
            None => thoughts::before(&writer, None, true, root),
        }
    }

    /// Only the way of writing calls that [`Formats::calls_grammar`] describes: an answer that keeps to it is read by
    /// it, so that nothing else in it, such as an object of JSON, is taken for a call that was not checked.
    #[must_use]
    pub fn bound(&self) -> Self {
        let (format, which) = self.written();
        Self { active: vec![format], only: Some(which), tagged: true, ..self.clone() }
    }

    /// The format that the model writes, and which of its openings: what a template shows comes before what only the
    /// vocabulary does.
    fn written(&self) -> (&'static Format, &'static [usize]) {
        let by = |shown: Shown<'_>| {
            let shows = |format: &&Format| format.shown_by.is_empty() || format.shown_by.iter().any(|mark| shown(mark));
            let all = self.active.iter().copied().filter(shows);
            all.map(|format| (format, (format.written)(shown)))
                .find(|(format, which)| !which.is_empty() && !format.bare)
        };
        let bare = || {
            let all = self.active.iter().copied().filter(|format| format.bare);
            all.map(|format| (format, (format.written)(&|mark| self.shows(mark)))).find(|(_, which)| !which.is_empty())
        };
        by(&|mark| self.template.contains(mark))
            .or_else(|| by(&|mark| self.shows(mark)))
            .or_else(bare)
            .unwrap_or((&formats::PLAIN_JSON, &[0]))
    }
}
