//! Chat templates: the Jinja programs that turn a conversation into the text a model was trained on.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use indexmap::IndexMap;
use minijinja::machinery::{CompiledTemplate, Instructions, TemplateConfig, eval, make_string_output};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde};
use minijinja::{AutoEscape, Environment, ErrorKind, Value};
use serde_json::Map;

use super::Tokenizer;
use super::calls::Formats;
use super::clock::DateTime;
use super::guard::{Guard, Guarded};
use super::hf::SPECIAL;
use super::jinja;
use super::python;
use super::range::UNPRINTED;
use super::template_budget::{self, Budget, printed};
use super::template_code::{self, bound};
use super::template_limits;
use super::template_source::TemplateSource;
use super::template_variables;
use super::tojson::tojson;
use super::tokenizer::SpecialTokens;
use super::turns::Turns;
use crate::error::{Error, Result};

/// Instructions a template may execute. A long conversation takes some ten thousand.
const FUEL: u64 = 5_000_000;
/// A trial rendering may use this fraction (1 / TRIAL) of the limits.
const TRIAL: u64 = 64;
/// Marks, in the error that stops a template, that the template asked for it.
const RAISED: &str = "the chat template refuses the conversation: ";

/// The chat templates of a model, checked and ready to render.
///
/// The dialect is what transformers gives templates: `trim_blocks` and `lstrip_blocks`, Python's methods of strings,
/// lists and dictionaries, `raise_exception`, `strftime_now`, `tojson` as `json.dumps`, `{% generation %}`, `break`
/// and `continue`. Nothing of the outside is reachable from a template, and one that does not end is stopped.
pub struct ChatTemplate {
    source: TemplateSource,
    prepared: IndexMap<String, Prepared>,
    special: SpecialTokens,
    now: Option<DateTime>,
    /// Keeps messages from spelling control tokens.
    guard: Option<Guard>,
}

/// One of a model's templates.
struct Prepared {
    /// The source in the form that the template engine reads.
    text: String,
    /// What it wants of messages; computed on first use.
    turns: OnceLock<Turns>,
}

impl ChatTemplate {
    /// Checks the templates of `source`; `special` are the tokens they may refer to by name, see
    /// [`super::Tokenizer::special_tokens`]. `TEMPLATE` names the line that does not parse.
    pub fn new(source: &TemplateSource, special: SpecialTokens) -> Result<Self> {
        let mut prepared = IndexMap::new();
        for (name, text) in source.iter() {
            template_limits::check_length(text)?;
            // Jinja reads every line end as a line feed, also within texts.
            let text = without_generation_tags(&text.replace("\r\n", "\n").replace('\r', "\n"));
            template_limits::check_source(&text)?;
            let text = template_code::unfolded(&text, syntax()?)?;
            let config = config()?;
            let compiled = CompiledTemplate::new(name, &text, &config).map_err(|e| failure("does not parse", &e))?;
            all_code(&compiled).try_for_each(template_code::check)?;
            prepared.insert(name.to_owned(), Prepared { text, turns: OnceLock::new() });
        }
        Ok(Self { source: source.clone(), prepared, special, now: None, guard: None })
    }

    /// The templates of a checkpoint. `TEMPLATE` if it has none: then it is a model to complete text, not to chat.
    pub fn open(checkpoint: &crate::format::Checkpoint, tokenizer: &super::Tokenizer) -> Result<Self> {
        match TemplateSource::of(checkpoint)? {
            Some(source) => Self::of(&source, tokenizer),
            None => Err(Error::template("the model has no chat template: give it a plain prompt instead of messages")),
        }
    }

    /// The templates of `source`, for a model with this tokenizer.
    pub fn of(source: &TemplateSource, tokenizer: &super::Tokenizer) -> Result<Self> {
        let template = Self::new(source, tokenizer.special_tokens().clone())?;
        let text: Vec<&str> = source.iter().map(|(_, text)| text).collect();
        Ok(Self { guard: Some(tokenizer.guard(&text.join("\n"))), ..template })
    }

    /// Fixes what `strftime_now` calls now, for prompts that can be reproduced.
    #[must_use]
    pub fn with_now(mut self, now: DateTime) -> Self {
        self.now = Some(now);
        self
    }

    /// Whether answers begin within a thought: without further variables, what is written before one ends with the tag
    /// that opens it.
    pub fn opens_thought(&self) -> bool {
        let question = serde_json::json!([{ "role": "user", "content": "?" }]);
        self.render(&question, None, &Map::new(), true).is_ok_and(|text| text.trim_end().ends_with("<think>"))
    }

    /// The options of the templates: names of variables that they read beside what the engine sets and what the template
    /// language defines, such as `enable_thinking` or `date_string`. They are given as `extra` to
    /// [`ChatTemplate::render`].
    pub fn variables(&self) -> Vec<String> {
        let mut options = Vec::new();
        let (Ok(environment), Ok(config)) = (environment(None, 1), config()) else { return options };
        let is_known = |name: &str| {
            SPECIAL.contains(&name)
                || self.special.contains_key(name)
                || environment.globals().any(|(global, _)| global == name)
        };
        for (name, template) in &self.prepared {
            if let Ok(compiled) = CompiledTemplate::new(name, &template.text, &config) {
                all_code(&compiled).for_each(|code| template_variables::find(&bound(code), is_known, &mut options));
            }
        }
        options
    }

    /// How its model writes calls and thoughts, by what its templates and the special tokens show.
    pub fn formats(&self, tokenizer: &Tokenizer) -> Formats {
        let sources: Vec<&str> = self.source.iter().map(|(_, text)| text).collect();
        Formats::of(&sources.join("\n"), tokenizer.special_names())
    }

    /// The text of a conversation.
    ///
    /// `messages`: a list of objects with `role` and `content`, as OpenAI's interface has them. `tools`: a list of JSON
    /// schemas of functions. What Python leaves open, as content that is null beside calls, is given as the template
    /// takes it. `extra`: further variables, such as `enable_thinking` or `documents`.
    /// `add_generation_prompt`: end with the beginning of the assistant's turn, which the model then continues.
    ///
    /// `TEMPLATE` where the template fails, refuses the conversation or does not end; `BAD_OPTION` for `messages` or
    /// `tools` that are no list, and for `extra` with a name that is taken.
    pub fn render(
        &self,
        messages: &serde_json::Value,
        tools: Option<&serde_json::Value>,
        extra: &Map<String, serde_json::Value>,
        add_generation_prompt: bool,
    ) -> Result<String> {
        self.rendered(messages, tools, extra, add_generation_prompt, None).map(|(text, _)| text)
    }

    /// As [`ChatTemplate::render`]: control tokens that messages, tools or `documents` spell stay text when the prompt
    /// is encoded by [`super::Tokenizer::encode_guarded`]. What the assistant has said is its own, but for the
    /// arguments of its calls.
    pub fn render_guarded(
        &self,
        messages: &serde_json::Value,
        tools: Option<&serde_json::Value>,
        extra: &Map<String, serde_json::Value>,
        add_generation_prompt: bool,
    ) -> Result<Guarded> {
        let (text, mark) = self.rendered(messages, tools, extra, add_generation_prompt, self.guard.as_ref())?;
        Ok(Guarded::new(text, mark))
    }

    fn rendered(
        &self,
        messages: &serde_json::Value,
        tools: Option<&serde_json::Value>,
        extra: &Map<String, serde_json::Value>,
        add_generation_prompt: bool,
        guard: Option<&Guard>,
    ) -> Result<(String, Option<char>)> {
        let tools = tools.filter(|t| !t.is_null());
        for (name, value) in [("messages", Some(messages)), ("tools", tools)] {
            if value.is_some_and(|v| !v.is_array()) {
                return Err(Error::bad_option(format!("{name} should be a list")));
            }
        }
        // Empty tools are still passed on, but do not ask for the template that is meant for tools.
        let name = self.source.choose(tools.and_then(|t| t.as_array()).is_some_and(|list| !list.is_empty()))?;
        let template =
            self.prepared.get(name).ok_or_else(|| Error::internal("a chat template that was not prepared"))?;
        let turns = template.turns.get_or_init(|| {
            // As the template was written.
            let text = self.source.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
            Turns::of(text, |messages, tools, none| {
                let tools = match tools {
                    Some(tools) => Value::from(Serde(tools)),
                    None if none => Value::from(()),
                    None => Value::UNDEFINED,
                };
                self.render_with(name, messages, tools, &Map::new(), true, TRIAL).ok()
            })
        });
        let (mut messages, mut tools, mut extra) =
            (turns.shaped(messages), tools.map(Cow::Borrowed), Cow::Borrowed(extra));
        let mark = match guard {
            Some(guard) => guard.mark(&mut messages, &mut tools, &mut extra)?,
            None => None,
        };
        let tools = match &tools {
            Some(tools) => Value::from(Serde(&**tools)),
            None if turns.none_for_no_tools => Value::from(()),
            None => Value::UNDEFINED,
        };
        Ok((self.render_with(name, &messages, tools, &extra, add_generation_prompt, 1)?, mark))
    }

    /// The text of a conversation as it is, made with one part in `parts` of what a template may do.
    fn render_with(
        &self,
        name: &str,
        messages: &serde_json::Value,
        tools: Value,
        extra: &Map<String, serde_json::Value>,
        add_generation_prompt: bool,
        parts: u64,
    ) -> Result<String> {
        let text = self.prepared.get(name).map_or("", |template| &template.text);
        let mut variables: IndexMap<&str, Value> = IndexMap::new();
        variables.insert("documents", Value::from(()));
        // Models without them have templates that name them all the same: transformers knows none, others give nothing.
        for name in ["bos_token", "eos_token"] {
            variables.insert(name, Value::from(""));
        }
        for (name, text) in &self.special {
            variables.insert(name, Value::from(text.as_str()));
        }
        for (name, value) in extra {
            if matches!(name.as_str(), "messages" | "tools" | "add_generation_prompt") {
                return Err(Error::bad_option(format!(
                    "the template option '{name}' is set by the engine; it cannot be given"
                )));
            }
            variables.insert(name, Value::from(Serde(value)));
        }
        variables.insert("messages", Value::from(Serde(messages)));
        if !tools.is_undefined() {
            variables.insert("tools", tools);
        }
        variables.insert("add_generation_prompt", Value::from(add_generation_prompt));

        let environment = environment(self.now, parts)?;
        let compiled = CompiledTemplate::new(name, text, &config()?).map_err(|e| failure("does not parse", &e))?;
        let (main, blocks) = (
            bound(&compiled.instructions),
            compiled.blocks.iter().map(|(name, block)| (*name, bound(block))).collect(),
        );
        let mut output = String::new();
        let rendered = {
            let mut out = make_string_output(&mut output);
            eval(&environment, &main, Value::from_pairs(variables), &blocks, &mut out, AutoEscape::None).map(drop)
        };
        match rendered {
            Ok(()) if output.contains(UNPRINTED) => Err(Error::template(
                "the chat template writes what has no text of its own, as a generator or a method: `list` makes a list \
                 of what `map` gives",
            )),
            Ok(()) => Ok(output),
            Err(e) if e.kind() == ErrorKind::OutOfFuel => Err(Error::template(format!(
                "the chat template does not end: it was stopped after {FUEL} instructions"
            ))),
            Err(e) => match e.detail().and_then(|d| d.strip_prefix(RAISED)) {
                Some(message) => Err(Error::template(format!("{RAISED}{message}"))),
                None => Err(failure("fails", &e)),
            },
        }
    }
}

/// The engine's own message, with the line: the name of the template means nothing to a user.
fn failure(what: &str, error: &minijinja::Error) -> Error {
    let line = error.line().map_or(String::new(), |line| format!(" in line {line}"));
    let detail = error.detail().map_or(String::new(), |d| format!(": {d}"));
    Error::template(format!("the chat template {what}{line}: {}{detail}", error.kind()))
}

fn syntax() -> Result<SyntaxConfig> {
    SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()
        .map_err(|e| Error::internal(format!("the syntax of chat templates: {e}")))
}

fn all_code<'a, 's>(compiled: &'a CompiledTemplate<'s>) -> impl Iterator<Item = &'a Instructions<'s>> {
    std::iter::once(&compiled.instructions).chain(compiled.blocks.values())
}

fn config() -> Result<TemplateConfig> {
    Ok(TemplateConfig { syntax_config: syntax()?, default_auto_escape: Arc::new(|_| AutoEscape::None) })
}

fn environment<'a>(now: Option<DateTime>, parts: u64) -> Result<Environment<'a>> {
    let budget = Budget::new(parts);
    let mut environment = Environment::new();
    environment.set_syntax(syntax()?);
    environment.set_fuel(Some(FUEL / parts));
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    template_budget::limit(&mut environment, &budget);
    let own = budget.clone();
    environment.set_unknown_method_callback(move |state, value, method, args| {
        own.skim(value)?;
        args.iter().try_for_each(|arg| own.walk(arg, true))?;
        super::methods::call(state, value, method, args)
    });
    let own = budget.clone();
    environment.add_filter("tojson", move |value: &Value, ensure_ascii: Option<Value>, kwargs: Kwargs| {
        own.walk(value, true)?;
        tojson(value, ensure_ascii, kwargs)
    });
    environment.add_function("raise_exception", |message: String| -> Result<Value, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, format!("{RAISED}{message}")))
    });
    environment.add_function("strftime_now", move |format: String| -> Result<String, minijinja::Error> {
        let now = now.unwrap_or_else(DateTime::now);
        now.format(&format).map_err(|e| minijinja::Error::new(ErrorKind::InvalidOperation, e.message().to_owned()))
    });
    jinja::add(&mut environment, &budget);
    environment.set_formatter(move |out, _, value| match value.as_str() {
        Some(text) => {
            budget.write(text.len())?;
            out.write_str(text).map_err(Into::into)
        }
        None => {
            // What prints as more than there is room for is not begun.
            let text = printed(value, &budget)?;
            budget.write(text.len())?;
            out.write_str(&text).map_err(Into::into)
        }
    });
    python::add_numbers(&mut environment);
    python::add_tests(&mut environment);
    Ok(environment)
}

/// transformers marks what the assistant said with `{% generation %}` to compute losses on it. Here the tags only
/// group. What stands in texts, comments and `{% raw %}` is no tag.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    let mut raw = false;
    while let Some(at) = template_limits::next_tag(rest, if raw { b"%" } else { b"%{#" }) {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        // What a raw block holds has no texts of its own.
        let length = if raw { tag.find("%}").map_or(tag.len(), |end| end + 2) } else { tag_length(tag) };
        let (tag, after) = tag.split_at(length);
        let word = tag.trim_start_matches("{%").trim_end_matches("%}").trim_matches(['-', '+']).trim();
        match word {
            _ if !tag.starts_with("{%") => out.push_str(tag),
            "generation" if !raw => out.push_str(&tag.replacen("generation", "with", 1)),
            "endgeneration" if !raw => out.push_str(&tag.replacen("endgeneration", "endwith", 1)),
            _ => {
                raw = if raw { word != "endraw" } else { word == "raw" };
                out.push_str(tag);
            }
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Bytes of the tag, the expression or the comment that a text begins with.
fn tag_length(text: &str) -> usize {
    let end = match &text[..2] {
        "{%" => "%}",
        "{{" => "}}",
        _ => return text.find("#}").map_or(text.len(), |end| end + 2),
    };
    let (mut quote, mut escaped) = (None, false);
    for (at, c) in text.char_indices().skip(2) {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) => quote = Some(open).filter(|open| *open != c),
            None if matches!(c, '\'' | '"') => quote = Some(c),
            None if text[at..].starts_with(end) => return at + 2,
            None => (),
        }
    }
    text.len()
}
