//! Puts descriptions of grammars together.

use serde_json::{Value, json};

use super::super::Formats;
use super::super::formats::{Format, Thought};
use super::super::reader::Tool;
use super::schema;
use crate::error::Result;

/// Any text.
pub const ANY: &str = r"[\s\S]*";

/// White space between parts of a call: bounded, so that a model cannot pad without end.
pub fn space() -> Value {
    json!({ "regex": "[ \\n]{0,8}" })
}

pub fn literal(text: &str) -> Value {
    json!({ "literal": text })
}

pub fn sequence(parts: impl IntoIterator<Item = Value>) -> Value {
    json!({ "sequence": parts.into_iter().collect::<Vec<_>>() })
}

/// One of these; the only one where there is only one.
pub fn union(parts: impl IntoIterator<Item = Value>) -> Value {
    let mut parts: Vec<Value> = parts.into_iter().collect();
    if parts.len() == 1 { parts.remove(0) } else { json!({ "union": parts }) }
}

pub fn optional(part: Value) -> Value {
    union([literal(""), part])
}

pub fn repeat(item: Value, separator: &str, min: u32, max: Option<u32>) -> Value {
    json!({ "repeat": { "item": item, "separator": separator, "min": min, "max": max } })
}

/// An expression for exactly this text.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\^$.|?*+()[]{}/".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Texts in which none of these occurs.
pub fn without<'a>(texts: impl IntoIterator<Item = &'a str>) -> Value {
    let all: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).map(escape).collect();
    json!({ "regex": if all.is_empty() { ANY.to_owned() } else { format!("^(?!{ANY}(?:{})){ANY}$", all.join("|")) } })
}

/// Writes the calls of one format.
pub struct Writer<'a> {
    pub(super) formats: &'a Formats,
    format: &'static Format,
    which: &'static [usize],
    tools: Vec<&'a Tool>,
    /// Whether there has to be a call; else it stands within free text.
    pub forced: bool,
    /// Whether several calls may follow each other.
    pub parallel: bool,
    pub prompt: &'a str,
    /// The marks that are control tokens, the longest first.
    controls: Vec<&'static str>,
}

/// A part of what is written: text, or a control token's name.
#[derive(Clone, Copy)]
enum Piece<'t> {
    Text(&'t str),
    Token(&'t str),
}

impl Piece<'_> {
    fn described(self) -> Value {
        match self {
            Self::Text(text) => literal(text),
            Self::Token(name) => json!({ "token": name }),
        }
    }
}

impl<'a> Writer<'a> {
    #[expect(clippy::too_many_arguments, reason = "it is made in two places")]
    pub(super) fn new(
        formats: &'a Formats,
        format: &'static Format,
        which: &'static [usize],
        tools: Vec<&'a Tool>,
        forced: bool,
        parallel: bool,
        prompt: &'a str,
        is_control: &dyn Fn(&str) -> bool,
    ) -> Self {
        let of_thought = |thought: &&'static Thought| {
            let ends = thought.ends.iter().map(|(end, _)| *end);
            [thought.open].into_iter().chain(ends).chain(thought.around.iter().copied()).collect::<Vec<_>>()
        };
        let marks = format.marks.iter().chain(format.opens).copied();
        let mut controls: Vec<&'static str> =
            marks.chain(formats.thoughts.iter().flat_map(of_thought)).flat_map(names).collect();
        controls.retain(|mark| is_control(mark));
        controls.sort_by_key(|mark| (std::cmp::Reverse(mark.len()), *mark));
        controls.dedup();
        Self { formats, format, which, tools, forced, parallel, prompt, controls }
    }

    /// Whether the model's template or its vocabulary has this.
    pub fn shown(&self, mark: &str) -> bool {
        self.formats.shows(mark)
    }

    /// The openings in use.
    pub fn opens(&self) -> Vec<&'static str> {
        self.which.iter().map(|i| self.format.opens[*i]).collect()
    }

    /// Their numbers.
    pub fn openings(&self) -> &'static [usize] {
        self.which
    }

    /// The number of the usual one.
    pub fn opening(&self) -> usize {
        self.which[0]
    }

    /// The thoughts that the template or the vocabulary knows; `<think>` is read with any.
    pub fn thoughts(&self) -> Vec<&'static Thought> {
        let shown = |thought: &&'static Thought| {
            let mut ends = thought.ends.iter().filter(|(_, taken)| *taken);
            !thought.ends.is_empty()
                && (!thought.open.is_empty() && self.shown(thought.open) || ends.any(|(end, _)| self.shown(end)))
        };
        self.formats.thoughts.iter().copied().filter(shown).collect()
    }

    fn pieces<'t>(&self, text: &'t str) -> Vec<Piece<'t>> {
        let mut pieces = Vec::new();
        let (mut from, mut at) = (0, 0);
        while at < text.len() {
            if let Some(mark) = self.controls.iter().find(|mark| text[at..].starts_with(**mark)) {
                if from < at {
                    pieces.push(Piece::Text(&text[from..at]));
                }
                pieces.push(Piece::Token(&text[at..at + mark.len()]));
                at += mark.len();
                from = at;
            } else {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
            }
        }
        if from < at {
            pieces.push(Piece::Text(&text[from..]));
        }
        pieces
    }

    /// Whether a mark is text as a whole, so that a text might hold it.
    pub fn is_text(&self, mark: &str) -> bool {
        matches!(self.pieces(mark)[..], [Piece::Text(_)])
    }

    /// Exactly this, with the control tokens in it.
    pub fn text(&self, text: &str) -> Value {
        let mut pieces: Vec<Value> = self.pieces(text).into_iter().map(Piece::described).collect();
        if pieces.len() == 1 { pieces.remove(0) } else { sequence(pieces) }
    }

    /// Any text up to and with `end`.
    pub fn until(&self, end: &str) -> Value {
        let pieces = self.pieces(end);
        let rest = |from: usize| pieces[from..].iter().map(|piece| piece.described());
        match pieces[..] {
            [Piece::Text(text)] => json!({ "free_until": text }),
            [Piece::Token(name), ..] => {
                sequence([json!({ "free_until": { "token": name } })].into_iter().chain(rest(1)))
            }
            // No text holds a token, so what stands before the first one is its end.
            [Piece::Text(text), ..] => {
                sequence([json!({ "regex": format!("{ANY}{}", escape(text)) })].into_iter().chain(rest(1)))
            }
            [] => literal(""),
        }
    }

    /// What is to be told of each tool, and then any of it.
    pub fn each(&self, of: impl Fn(&Tool) -> Result<Value>) -> Result<Value> {
        Ok(union(self.tools.iter().map(|tool| of(tool)).collect::<Result<Vec<_>>>()?))
    }

    /// Whether the arguments of a tool need not keep to its schema.
    pub fn is_loose(&self, tool: &Tool) -> bool {
        !self.forced && !tool.strict
    }

    /// A tool's arguments as JSON.
    pub fn json(&self, tool: &Tool) -> Result<Value> {
        if self.is_loose(tool) { Ok(json!({ "schema": { "type": "object" } })) } else { schema::arguments(tool) }
    }

    /// A call as an object of JSON, with these names for its keys.
    pub fn object(&self, tool: &Tool, name: &str, arguments: &str) -> Result<Value> {
        Ok(sequence([
            literal(&format!("{{\"{name}\": \"{}\", \"{arguments}\": ", tool.name)),
            self.json(tool)?,
            literal("}"),
        ]))
    }

    /// One, or several where they may be, with this between them.
    pub fn several(&self, item: Value, separator: &str) -> Value {
        if self.parallel { repeat(item, separator, 1, None) } else { item }
    }

    /// A list of calls in brackets.
    pub fn list(&self, item: Value) -> Value {
        sequence([literal("["), self.several(sequence([space(), item, space()]), ","), literal("]")])
    }

    /// The whole, of what follows each opening in use. `repeated`: whether several calls stand one after the other.
    pub fn calls(&self, thens: impl IntoIterator<Item = Value>, repeated: bool) -> Value {
        let ways: Vec<(&str, Value)> = self.which.iter().map(|i| self.format.opens[*i]).zip(thens).collect();
        let whole = |(open, then): &(&str, Value)| sequence([self.text(open), then.clone()]);
        if self.forced {
            let one = sequence([space(), union(ways.iter().map(whole))]);
            return sequence([if repeated { self.several(one, "") } else { one }, space()]);
        }
        // Thoughts are matched before this text, which therefore contains none of their openings.
        let thoughts = self.thoughts().into_iter().map(|thought| thought.open);
        let thoughts: Vec<&str> = thoughts.filter(|open| !open.is_empty() && self.is_text(open)).collect();
        if !self.parallel {
            let before = without(ways.iter().map(|(open, _)| *open).filter(|open| self.is_text(open)).chain(thoughts));
            return sequence([before, optional(sequence([union(ways.iter().map(whole)), space()]))]);
        }
        let never = |open: &str| json!({ "trigger": open, "then": { "schema": false } });
        // Two that begin with the same token are one.
        let mut merged: Vec<(Value, Vec<Value>)> = Vec::new();
        for (trigger, then) in ways.into_iter().map(|(open, then)| self.trigger(open, then)) {
            match merged.iter_mut().find(|(known, _)| *known == trigger) {
                Some((_, thens)) => thens.push(then),
                None => merged.push((trigger, vec![then])),
            }
        }
        let mut triggers: Vec<Value> =
            merged.into_iter().map(|(trigger, thens)| json!({ "trigger": trigger, "then": union(thens) })).collect();
        triggers.extend(thoughts.into_iter().map(never));
        json!({ "free_text": triggers })
    }

    /// Free text sees a text or a token; of an opening with both the first token says it.
    fn trigger(&self, open: &str, then: Value) -> (Value, Value) {
        let pieces = self.pieces(open);
        let at = pieces.iter().position(|piece| matches!(piece, Piece::Token(_))).unwrap_or(0);
        let trigger = match pieces.get(at) {
            Some(Piece::Token(name)) => json!({ "token": name }),
            _ => json!(open),
        };
        let rest = pieces.iter().skip(at + 1).map(|piece| piece.described());
        (trigger, sequence(rest.chain([then])))
    }

    /// Calls without marks, of which the first character is `first`: an answer that begins so is one.
    pub fn bare(&self, calls: Value, first: char) -> Value {
        let calls = sequence([space(), calls, space()]);
        if self.forced {
            return calls;
        }
        // Thoughts are matched before this text, which therefore begins with none of their marks.
        let marks = |thought: &'static Thought| thought.ends.iter().map(|(end, _)| *end).chain([thought.open]);
        let thoughts =
            self.thoughts().into_iter().flat_map(marks).filter(|mark| !mark.is_empty() && self.is_text(mark));
        let thoughts: String = thoughts.map(|mark| format!(r"(?!\s*{})", escape(mark))).collect();
        union([calls, json!({ "regex": format!(r"^{thoughts}(?:\s*[^\s{}]{ANY})?$", escape(&first.to_string())) })])
    }
}

/// The names of tokens that a mark may be, or hold.
fn names(mark: &'static str) -> Vec<&'static str> {
    let mut names = vec![mark];
    // Of `<|channel>thought` the first.
    names.extend(mark.find('>').map(|end| &mark[..=end]).filter(|name| name.starts_with('<') && *name != mark));
    names
}
