//! What a model's answer says: its thoughts, its text, and the calls of tools in it, told apart as its tokens come.
//!
//! Each way of writing calls has a file in `formats/`: what begins them, and how they are read. Which of them a model
//! uses follows from its chat template and its special tokens; whether a thought is open already follows from the
//! prompt that was rendered for the request.

mod formats;
pub mod grammar;
mod object;
mod python;
mod reader;
mod tags;
mod typed;
mod value;

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use self::formats::{Format, Naming, Thought};
pub use self::reader::Tool;
#[cfg(feature = "lab")]
pub use self::reader::looked_at;
use self::reader::{Memo, Reader, Stop, looked};
use crate::error::{Error, Result};

/// A piece of an answer, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// What it says.
    Content { text: String },
    /// What the model thinks.
    Reasoning { text: String },
    /// A call begins. `id`: the model's own, where it gives one.
    ToolCall { index: usize, id: Option<String>, name: String },
    /// More of its arguments: JSON.
    Arguments { index: usize, text: String },
    /// The arguments are complete, or will not be.
    ToolCallEnd { index: usize },
}

/// Which formats a model's template and vocabulary show.
#[derive(Debug, Clone)]
pub struct Formats {
    active: Vec<&'static Format>,
    thoughts: Vec<&'static Thought>,
    /// Whether calls have tags; where they have none, bare ones count anywhere.
    tagged: bool,
    /// The openings that count, by their numbers; all where none are named.
    only: Option<&'static [usize]>,
    template: Arc<str>,
    specials: Arc<[String]>,
}

impl Formats {
    /// The formats that a chat template's source and the names of special tokens show.
    pub fn of<'a>(template: &str, specials: impl IntoIterator<Item = &'a str> + Clone) -> Self {
        let shown = |marks: &[&str]| {
            marks.iter().any(|mark| template.contains(mark) || specials.clone().into_iter().any(|name| name == *mark))
        };
        let active: Vec<_> = formats::ALL
            .iter()
            .copied()
            .filter(|format| format.shown_by.is_empty() || shown(format.shown_by))
            .collect();
        let thoughts = formats::thoughts::ALL
            .iter()
            .filter(|thought| thought.shown_by.is_empty() || shown(thought.shown_by))
            .collect();
        let tagged = active.iter().any(|format| !format.bare);
        let specials = specials.into_iter().map(str::to_owned).collect();
        Self { active, thoughts, tagged, only: None, template: template.into(), specials }
    }

    /// Calls are written in the format of this name (`hermes`, `mistral`, …), whatever the template shows; thoughts
    /// also as the template shows.
    ///
    /// # Errors
    /// `BAD_OPTION` for an unknown name: the message lists the known ones.
    pub fn only(self, name: &str) -> Result<Self> {
        let Some((_, marks)) = formats::NAMES.iter().find(|(known, _)| *known == name) else {
            let known: Vec<_> = formats::NAMES.iter().map(|(known, _)| *known).collect();
            return Err(Error::bad_option(format!(
                "no format of calls is called '{name}'; there are {}",
                known.join(", ")
            )));
        };
        let named = Self::of(&marks.join("\n"), []);
        let of_template = self
            .thoughts
            .into_iter()
            .filter(|thought| !named.thoughts.iter().any(|known| std::ptr::eq(*known, *thought)));
        let thoughts = named.thoughts.iter().copied().chain(of_template).collect();
        Ok(Self { thoughts, ..named })
    }

    /// What people call the way in which the model writes calls.
    pub fn name(&self) -> &'static str {
        let shown = |mark: &str| self.shows_part(mark);
        let marked = self.active.iter().copied().find(|format| !format.shown_by.is_empty());
        (marked.unwrap_or(&formats::PLAIN_JSON).name)(&Naming { shown: &shown, written: None })
    }

    /// Whether the template or a special token has this.
    fn shows(&self, mark: &str) -> bool {
        self.template.contains(mark) || self.specials.iter().any(|name| name == mark)
    }

    /// The openings of a format that count, with their numbers.
    fn opens(&self, format: &'static Format) -> impl Iterator<Item = (usize, &'static str)> + use<> {
        let only = self.only;
        format.opens.iter().copied().enumerate().filter(move |(i, _)| only.is_none_or(|only| only.contains(i)))
    }

    /// What follows a format's opening where a call ends a thought. An answer that is bound to a way of writing calls
    /// that has no such thing has none.
    fn ends_thoughts(&self, format: &'static Format) -> Option<&'static str> {
        format.ends_thoughts.filter(|follows| self.only.is_none() || self.shows_part(follows))
    }

    /// Whether the template or a special token has this in it.
    fn shows_part(&self, part: &str) -> bool {
        self.template.contains(part) || self.specials.iter().any(|name| name.contains(part))
    }

    /// The thought that a prompt has begun.
    fn open_thought(&self, prompt: &str) -> Option<&'static Thought> {
        let end = prompt.trim_end();
        let opens = |thought: &&&'static Thought| {
            thought.prompts.iter().chain([&thought.open]).any(|open| !open.is_empty() && end.ends_with(open.trim_end()))
        };
        self.thoughts.iter().find(opens).copied()
    }
}

/// Tools as OpenAI's clients give them: `{"type": "function", "function": {"name": …, "parameters": …}}`, or what is in
/// there.
pub fn tools(given: Option<&Value>) -> Vec<Tool> {
    let tool = |tool: &Value| {
        let function = tool.get("function").unwrap_or(tool);
        let parameters = function.get("parameters").cloned().unwrap_or_default();
        let strict = [function, tool].iter().any(|given| given.get("strict").and_then(Value::as_bool) == Some(true));
        Some(Tool { name: function.get("name")?.as_str()?.to_owned(), parameters, strict })
    };
    given.and_then(Value::as_array).into_iter().flatten().filter_map(tool).collect()
}

/// Checks that the names of tools can be written in calls, in every format.
///
/// # Errors
/// `BAD_OPTION` names the tool.
pub fn check_names(tools: &[Tool]) -> Result<()> {
    let breaks = |c: char| c.is_whitespace() || c.is_control() || "\"'`\\<>{}()[],;=|".contains(c);
    match tools.iter().find(|tool| tool.name.is_empty() || tool.name.contains(breaks)) {
        None => Ok(()),
        Some(tool) => Err(Error::bad_option(format!(
            "the tool {:?} cannot be called by that name: give it one of letters, digits and `_`, `-`, `.`, `:`, `/`",
            tool.name
        ))),
    }
}

#[derive(Debug, Clone, Copy)]
enum Mode {
    Answer,
    Thought(&'static Thought),
    /// A section that is not part of the answer: skipped up to its end.
    Dropped(&'static Thought),
}

/// What a format's reader found beside calls.
#[derive(Debug, Clone, Copy)]
enum Section {
    /// Of these, the answer goes on.
    None,
    Thought(&'static Thought),
    Dropped(&'static Thought),
}

/// Takes an answer as it comes and tells its parts apart. However the text is cut into pieces, the parts add up to the
/// same.
#[derive(Debug)]
pub struct Parser {
    formats: Formats,
    tools: Vec<Tool>,
    mode: Mode,
    /// What has come and is not decided yet.
    held: String,
    /// Where in it special tokens stand by their names: what of them belongs to no format is not said.
    specials: Vec<(usize, usize)>,
    /// White space says nothing until something else comes: at the beginning of a thought, after one, after a call.
    trim: bool,
    /// Nothing has been said since the beginning, a thought or a call.
    first: bool,
    /// Whether nothing of the current thought has come yet.
    fresh: bool,
    /// The calls of the current passage: how many bytes of their arguments were reported, and whether their end was.
    told: Vec<(usize, bool)>,
    /// Number of calls before these.
    calls: usize,
    /// Where calls are being read that more has to come of, and how far they are.
    under_way: Option<(usize, &'static Format, usize)>,
    memo: Memo,
    /// The name of the format of the last calls.
    written: Option<&'static str>,
    /// Whether whatever name is that of a tool.
    any_tool: bool,
}

impl Parser {
    /// `prompt`: the end of the prompt as it was rendered. Without tools nothing is a call.
    pub fn new(formats: Formats, tools: Vec<Tool>, prompt: &str) -> Self {
        let end = prompt.trim_end();
        let open = formats.open_thought(prompt);
        let mode = open.map_or(Mode::Answer, Mode::Thought);
        let trim = open.is_some();
        // Where the prompt has begun a section, the answer continues with its header.
        let mut sections = formats.active.iter().filter(|format| format.sections).flat_map(|format| format.opens);
        let held = sections.find(|open| end.ends_with(**open)).map_or(String::new(), |open| (*open).to_owned());
        // What the prompt has said is not said again.
        let specials = if held.is_empty() { Vec::new() } else { vec![(0, held.len())] };
        Self {
            formats,
            tools,
            mode,
            held,
            specials,
            trim,
            first: true,
            fresh: true,
            told: Vec::new(),
            calls: 0,
            under_way: None,
            memo: Memo::default(),
            written: None,
            any_tool: false,
        }
    }

    /// Takes each name for that of a tool: for reading an answer without its list of tools.
    #[must_use]
    pub fn with_any_tool(mut self) -> Self {
        self.any_tool = true;
        self
    }

    /// What people call the format of the calls that were read last, or where there were none the one that the model
    /// writes.
    pub fn format(&self) -> &'static str {
        self.written.unwrap_or_else(|| self.formats.name())
    }

    /// More of the text.
    pub fn push(&mut self, text: &str) -> Vec<Part> {
        self.held.push_str(text);
        self.run(false)
    }

    /// A special token, by its name.
    pub fn special(&mut self, name: &str) -> Vec<Part> {
        let has = |marks: &[&str]| marks.iter().any(|mark| mark.contains(name));
        let known = self.formats.active.iter().any(|format| has(format.marks))
            || self.formats.thoughts.iter().any(|thought| {
                has(&[thought.open]) || has(thought.around) || thought.ends.iter().any(|end| end.0.contains(name))
            });
        if !known || name.is_empty() {
            return Vec::new();
        }
        self.specials.push((self.held.len(), self.held.len() + name.len()));
        self.held.push_str(name);
        self.run(false)
    }

    /// Nothing more comes.
    pub fn finish(&mut self) -> Vec<Part> {
        self.run(true)
    }

    fn run(&mut self, done: bool) -> Vec<Part> {
        let mut parts = Vec::new();
        while self.step(done, &mut parts) {}
        parts
    }

    /// Decides about the beginning of what is held; false where more has to come first.
    fn step(&mut self, done: bool, parts: &mut Vec<Part>) -> bool {
        if self.trim {
            let space = self.held.len() - self.held.trim_start().len();
            self.drop(space);
            if self.held.is_empty() {
                return false;
            }
            self.trim = false;
        }
        if self.held.is_empty() {
            return false;
        }
        match self.mode {
            Mode::Thought(thought) => self.think(thought, done, true, parts),
            Mode::Dropped(thought) => self.think(thought, done, false, parts),
            Mode::Answer => self.answer(done, parts),
        }
    }

    fn think(&mut self, thought: &'static Thought, done: bool, told: bool, parts: &mut Vec<Part>) -> bool {
        if std::mem::take(&mut self.fresh) && !thought.open.is_empty() {
            // Some repeat what the prompt has opened.
            if self.held.starts_with(thought.open) {
                self.drop(thought.open.len());
                self.trim = true;
                self.fresh = true;
                return true;
            }
            if !done && thought.open.starts_with(&self.held) {
                self.fresh = true;
                return false;
            }
        }
        let ends = thought.ends.iter().filter(|_| self.under_way.is_none());
        let end = ends.filter_map(|(end, taken)| Some((self.find(end)?, end, *taken))).min_by_key(|(at, ..)| *at);
        // Some call before they have ended their thought.
        if let Some((at, format, which)) =
            self.under_way.or_else(|| self.call_in_thought()).filter(|(at, ..)| end.is_none_or(|(end, ..)| at < &end))
        {
            let text = self.held[..at].trim_end().len();
            if text > 0 {
                self.think_aloud(text, told, parts);
                return true;
            }
            let after = self.held[at + format.opens[which].len()..].trim_start();
            let follows = format.ends_thoughts.filter(|_| which == 0).unwrap_or_default();
            if !done && after.len() < follows.len() && follows.starts_with(after) {
                return false;
            }
            let found = if after.starts_with(follows) {
                self.call(at, format, which, done, parts)
            } else {
                Found::Text(at + 1)
            };
            return match found {
                Found::Call => true,
                Found::More => false,
                Found::Text(bytes) => {
                    self.think_aloud(bytes, told, parts);
                    true
                }
            };
        }
        if let Some((at, end, taken)) = end {
            self.think_aloud(self.held[..at].trim_end().len(), told, parts);
            let rest = self.held.find(end).expect("it was found") + if taken { end.len() } else { 0 };
            self.drop(rest);
            self.to(Mode::Answer);
            return true;
        }
        let ready = if done {
            self.held.len()
        } else {
            let ends = thought.ends.iter().map(|(end, _)| *end);
            self.ready(ends.chain(self.thoughtless().flat_map(|format| format.opens.iter().copied())))
        };
        self.think_aloud(self.held[..ready].trim_end().len(), told, parts);
        if done {
            self.drop(self.held.len());
        }
        false
    }

    /// Tells the first bytes as a thought.
    fn think_aloud(&mut self, bytes: usize, told: bool, parts: &mut Vec<Part>) {
        let text = self.take(bytes);
        if told && !text.is_empty() {
            parts.push(Part::Reasoning { text });
        }
    }

    fn to(&mut self, mode: Mode) {
        self.mode = mode;
        self.trim = true;
        self.first = true;
        self.fresh = true;
    }

    fn answer(&mut self, done: bool, parts: &mut Vec<Part>) -> bool {
        let under_way = self.under_way.map(|(at, format, which)| (at, Open::Call(format, which)));
        let Some((at, open)) = under_way.or_else(|| self.next_open()) else {
            let ready = if done { self.held.len() } else { self.held[..self.ready(self.opens())].trim_end().len() };
            self.say(ready, parts);
            return false;
        };
        // White space before a call is not said.
        let text = self.held[..at].trim_end().len();
        if text > 0 {
            self.say(text, parts);
            return true;
        }
        // What has come may be the beginning of something longer.
        if !done
            && self.under_way.is_none()
            && self.opens().any(|mark| mark.len() > self.held.len() - at && mark.starts_with(&self.held[at..]))
        {
            return false;
        }
        match open {
            Open::Around(mark) => {
                self.drop(at + mark.len());
                self.trim = true;
                true
            }
            Open::Thought(thought) => {
                self.drop(at + thought.open.len());
                self.to(Mode::Thought(thought));
                self.fresh = false;
                true
            }
            Open::Call(format, which) => match self.call(at, format, which, done, parts) {
                Found::Call => true,
                Found::More => false,
                Found::Text(bytes) => {
                    self.say(bytes, parts);
                    true
                }
            },
        }
    }

    /// Formats whose calls end a thought.
    fn thoughtless(&self) -> impl Iterator<Item = &'static Format> {
        self.formats
            .active
            .iter()
            .copied()
            .filter(|format| self.formats.ends_thoughts(format).is_some() && self.reads_calls())
    }

    fn reads_calls(&self) -> bool {
        self.any_tool || !self.tools.is_empty()
    }

    /// The first place in a thought at which a call may begin.
    fn call_in_thought(&self) -> Option<(usize, &'static Format, usize)> {
        let opens = self
            .thoughtless()
            .flat_map(|format| self.formats.opens(format).map(move |(which, open)| (format, which, open)));
        opens.filter_map(|(format, which, open)| Some((self.find(open)?, format, which))).min_by_key(|(at, ..)| *at)
    }

    /// Reads what may be calls at this place, and tells what it finds.
    fn call(&mut self, at: usize, format: &'static Format, which: usize, done: bool, parts: &mut Vec<Part>) -> Found {
        let begin = at + if format.bare { 0 } else { format.opens[which].len() };
        let mut reader = Reader::new(&self.held[begin..], done, &self.tools, &mut self.memo);
        reader.any_tool = self.any_tool;
        let mut section = Section::None;
        let read = (format.read)(&mut reader, which, &mut section);
        let reached = begin + reader.at;
        let calls = &self.memo.calls;
        // All reported calls have ended, but for the last.
        for (i, call) in calls.iter().enumerate().skip(self.told.len().saturating_sub(1)) {
            let index = self.calls + i;
            if i == self.told.len() {
                self.told.push((0, false));
                parts.push(Part::ToolCall { index, id: call.id.clone(), name: call.name.clone() });
            }
            let (sent, ended) = &mut self.told[i];
            if call.arguments.len() > *sent {
                parts.push(Part::Arguments { index, text: call.arguments[*sent..].to_owned() });
                *sent = call.arguments.len();
            }
            if call.end.is_some() && !*ended {
                *ended = true;
                parts.push(Part::ToolCallEnd { index });
            }
        }
        let rest = match read {
            Ok(()) => reached,
            Err(Stop::More) if !done => {
                self.under_way = Some((at, format, which));
                return Found::More;
            }
            // No call: it is text. Where it is known by a special token it was meant to be something else, and is not
            // said.
            Err(_) if calls.is_empty() => {
                return Found::Text(
                    at + self.held[at..].chars().next().map_or(0, char::len_utf8).max(self.special_at(at)),
                );
            }
            // A call that was cut off: what there is of it has been told.
            Err(Stop::More) => self.held.len(),
            // What follows the last whole one is text; a call that goes wrong ends there.
            Err(Stop::No) => calls.last().and_then(|call| call.end).map_or(reached, |end| begin + end),
        };
        for i in 0..self.told.len() {
            if !self.told[i].1 {
                parts.push(Part::ToolCallEnd { index: self.calls + i });
            }
        }
        if !self.told.is_empty() {
            let shown = |mark: &str| self.formats.shows_part(mark);
            self.written =
                Some((format.name)(&Naming { shown: &shown, written: Some((which, &self.held[begin..rest])) }));
        }
        self.calls += self.told.len();
        self.told.clear();
        self.drop(rest);
        match section {
            Section::None => self.to(Mode::Answer),
            Section::Thought(thought) => self.to(Mode::Thought(thought)),
            Section::Dropped(thought) => self.to(Mode::Dropped(thought)),
        }
        Found::Call
    }

    /// What may begin something here.
    fn opens(&self) -> impl Iterator<Item = &'static str> {
        let allowed = self.formats.active.iter().filter(|format| self.allows(format));
        let calls = allowed.flat_map(|format| self.formats.opens(format).map(|(_, open)| open));
        let thoughts = self.formats.thoughts.iter().flat_map(|thought| {
            thought
                .around
                .iter()
                .copied()
                .chain([thought.open])
                .chain(thought.ends.iter().filter(|_| self.first).map(|(end, _)| *end))
        });
        calls.chain(thoughts).filter(|open| !open.is_empty())
    }

    fn allows(&self, format: &Format) -> bool {
        (self.reads_calls() || format.sections) && (!format.bare || self.first || !self.formats.tagged)
    }

    fn find(&self, mark: &str) -> Option<usize> {
        let found = self.held.find(mark);
        looked(found.unwrap_or(self.held.len()));
        found
    }

    /// The first place at which something begins.
    fn next_open(&self) -> Option<(usize, Open)> {
        let mut found: Option<(usize, usize, Open)> = None;
        let mut see = |open: &'static str, what: Open, only_first: bool| {
            let Some(at) = (if open.is_empty() { None } else { self.find(open) }) else { return };
            let first = self.first && self.held[..at].trim_start().is_empty();
            if only_first && !first {
                return;
            }
            // Of two at the same place the longer one.
            if found.as_ref().is_none_or(|(best, length, _)| at < *best || at == *best && open.len() > *length) {
                found = Some((at, open.len(), what));
            }
        };
        for format in self.formats.active.iter().copied().filter(|format| self.allows(format)) {
            for (i, open) in self.formats.opens(format) {
                see(open, Open::Call(format, i), format.bare && self.formats.tagged);
            }
        }
        for thought in &self.formats.thoughts {
            see(thought.open, Open::Thought(thought), !thought.anywhere);
            for mark in thought.around {
                see(mark, Open::Around(mark), false);
            }
            // The end of a thought that was never opened.
            for (end, _) in thought.ends.iter().filter(|(_, taken)| *taken) {
                see(end, Open::Around(end), true);
            }
        }
        found.map(|(at, _, open)| (at, open))
    }

    /// How much of what is held can be no beginning of these.
    fn ready<'a>(&self, marks: impl Iterator<Item = &'a str>) -> usize {
        // No text ends within a character.
        let held = self.held.as_bytes();
        let beginnings =
            marks.map(|mark| (1..mark.len()).rev().find(|n| held.ends_with(&mark.as_bytes()[..*n])).unwrap_or(0));
        held.len() - beginnings.max().unwrap_or(0)
    }

    /// How long the special token at this place is, if one is there.
    fn special_at(&self, at: usize) -> usize {
        self.specials.iter().find(|(from, _)| *from == at).map_or(0, |(from, to)| to - from)
    }

    /// Tells the first bytes as text.
    fn say(&mut self, bytes: usize, parts: &mut Vec<Part>) {
        let text = self.take(bytes);
        if !text.trim().is_empty() {
            self.first = false;
        }
        if !text.is_empty() {
            parts.push(Part::Content { text });
        }
    }

    /// Takes the first bytes, without special tokens.
    fn take(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes);
        let mut from = 0;
        for (begin, end) in self.specials.iter().map(|(begin, end)| ((*begin).min(bytes), (*end).min(bytes))) {
            text.push_str(&self.held[from..begin]);
            from = end;
        }
        text.push_str(&self.held[from..bytes]);
        self.drop(bytes);
        text
    }

    fn drop(&mut self, bytes: usize) {
        if bytes > 0 {
            (self.under_way, self.memo) = (None, Memo::default());
        }
        self.held.drain(..bytes);
        self.specials.retain_mut(|(from, to)| {
            *from = from.saturating_sub(bytes);
            *to = to.saturating_sub(bytes);
            *to > *from
        });
    }
}

/// What stands where a call may begin.
enum Found {
    /// A call, or a section; it is reported and taken.
    Call,
    /// Undecided: more text has to come.
    More,
    /// No call: this many bytes of text.
    Text(usize),
}

#[derive(Clone, Copy)]
enum Open {
    Call(&'static Format, usize),
    Thought(&'static Thought),
    /// A tag around the answer.
    Around(&'static str),
}
