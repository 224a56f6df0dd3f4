//! Keeps what people and tools write from being read as marks of a chat template: text that spells a control token
//! stays text.
//!
//! Before a conversation is rendered, a mark is put into each control token that a message spells, so that none is
//! spelled any more; the tokenizer takes the marks away behind the place where it looks for such tokens
//! ([`super::Tokenizer::encode_guarded`]). What the template writes itself has no mark.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Characters that stand in no text: Unicode keeps them for programs.
pub(super) const MARKS: std::ops::RangeInclusive<char> = '\u{FDD0}'..='\u{FDEF}';

/// Whether filters of templates have to leave a character as it is.
pub(super) fn is_mark(c: char) -> bool {
    MARKS.contains(&c)
}

/// A prompt in which control tokens that messages spell have marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarded {
    marked: String,
    /// The mark; none where nothing is marked.
    mark: Option<char>,
}

impl Guarded {
    pub(super) fn new(marked: String, mark: Option<char>) -> Self {
        Self { marked, mark }
    }

    /// The text without marks.
    pub fn text(&self) -> Cow<'_, str> {
        match self.mark {
            Some(mark) => Cow::Owned(self.marked.replace(mark, "")),
            None => Cow::Borrowed(&self.marked),
        }
    }

    pub(super) fn marked(&self) -> (&str, Option<char>) {
        (&self.marked, self.mark)
    }
}

/// What a tokenizer makes of a text before it looks for some of its tokens.
pub(super) type Normalize = Box<dyn Fn(&str) -> String>;

/// Knows the control tokens of a model.
pub(super) struct Guard {
    /// In the order of their bytes.
    names: Vec<String>,
    /// Bytes of the longest.
    longest: usize,
    /// What a text is before these are looked for again, where the tokenizer does so.
    normalize: Option<Normalize>,
    finder: OnceLock<Option<AhoCorasick>>,
}

impl Guard {
    /// `names`: of tokens that a text must not be read as.
    pub fn new(mut names: Vec<String>, normalize: Option<Normalize>) -> Self {
        names.sort_unstable();
        let longest = names.iter().map(String::len).max().unwrap_or(0);
        Self { names, longest, normalize, finder: OnceLock::new() }
    }

    fn finder(&self) -> Result<&AhoCorasick> {
        let finder = self.finder.get_or_init(|| AhoCorasick::new(&self.names).ok());
        finder
            .as_ref()
            .ok_or_else(|| Error::internal(format!("{} control tokens cannot be looked for", self.names.len())))
    }

    /// Puts marks into a conversation, tools and the documents among further variables, and gives the mark: none where
    /// none is needed.
    ///
    /// # Errors
    /// `BAD_OPTION` where the conversation has all characters in it that could be marks.
    pub fn mark(
        &self,
        messages: &mut Cow<'_, Value>,
        tools: &mut Option<Cow<'_, Value>>,
        extra: &mut Cow<'_, Map<String, Value>>,
    ) -> Result<Option<char>> {
        let finder = self.finder()?;
        let documents = extra.get("documents");
        let mut spelled = false;
        let mut used = String::new();
        for given in
            messages.as_array().into_iter().flatten().filter_map(foreign).chain(tools.as_deref()).chain(documents)
        {
            see_texts(given, &mut |text| {
                spelled = spelled || self.needs_marks(finder, text);
                used.extend(text.chars().filter(|c| is_mark(*c)));
            });
        }
        if !spelled {
            return Ok(None);
        }
        let Some(mark) = MARKS.into_iter().find(|mark| !used.contains(*mark)) else {
            return Err(Error::bad_option(
                "the messages hold every noncharacter from U+FDD0 to U+FDEF; leave one of them out",
            ));
        };
        let mut put = |text: &mut String| {
            if self.needs_marks(finder, text) {
                *text = self.marked(finder, text, mark);
            }
        };
        messages
            .to_mut()
            .as_array_mut()
            .into_iter()
            .flatten()
            .filter_map(foreign_mut)
            .for_each(|given| each_text(given, &mut put));
        tools.as_mut().into_iter().for_each(|tools| each_text(tools.to_mut(), &mut put));
        if documents.is_some() {
            extra.to_mut().get_mut("documents").into_iter().for_each(|documents| each_text(documents, &mut put));
        }
        Ok(Some(mark))
    }

    fn needs_marks(&self, finder: &AhoCorasick, text: &str) -> bool {
        let again = |normalize: &Normalize| finder.is_match(&normalize(text));
        finder.is_match(text) || self.may_begin_at_the_end_of(text) || self.normalize.as_ref().is_some_and(again)
    }

    /// A text with marks.
    fn marked(&self, finder: &AhoCorasick, text: &str, mark: char) -> String {
        // Behind the first character of each, also where they overlap; and at the end, where what follows could
        // complete one.
        let behind = |start: usize| start + text[start..].chars().next().map_or(0, char::len_utf8);
        let mut places: BTreeSet<usize> =
            finder.find_overlapping_iter(text).map(|found| behind(found.start())).collect();
        if self.may_begin_at_the_end_of(text) {
            places.insert(text.len());
        }
        let mut out = String::with_capacity(text.len() + mark.len_utf8() * places.len());
        let mut from = 0;
        for place in places {
            out.push_str(&text[from..place]);
            out.push(mark);
            from = place;
        }
        out.push_str(&text[from..]);
        // A token that shows only when the text is normalized: no two characters stay side by side.
        match &self.normalize {
            Some(normalize) if finder.is_match(&normalize(&out)) => text.chars().flat_map(|c| [c, mark]).collect(),
            _ => out,
        }
    }

    /// Whether the last characters are the beginning of a control token, but for one that is whole. Of a word they are
    /// none: templates compare words.
    fn may_begin_at_the_end_of(&self, text: &str) -> bool {
        let ends = text.char_indices().rev().map(|(at, _)| &text[at..]).take_while(|end| end.len() < self.longest);
        !is_word(text) && ends.into_iter().any(|end| self.begins(end))
    }

    /// Whether a control token begins so and goes on.
    fn begins(&self, text: &str) -> bool {
        let from = self.names.partition_point(|name| name.as_str() <= text);
        self.names.get(from).is_some_and(|name| name.starts_with(text))
    }
}

/// Letters, digits and what stands in names: roles, types, keys, ids.
fn is_word(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// What of a message its model has not said: of the assistant's own its calls, for templates look for the end of
/// thoughts in its text.
fn foreign(message: &Value) -> Option<&Value> {
    if is_of_assistant(message) { message.get("tool_calls") } else { Some(message) }
}

fn foreign_mut(message: &mut Value) -> Option<&mut Value> {
    if is_of_assistant(message) { message.get_mut("tool_calls") } else { Some(message) }
}

fn is_of_assistant(message: &Value) -> bool {
    message.get("role").and_then(Value::as_str) == Some("assistant")
}

/// Goes through all texts of a value but for what templates compare: keys and roles that are words.
fn see_texts(value: &Value, see: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => see(text),
        Value::Array(items) => items.iter().for_each(|item| see_texts(item, see)),
        Value::Object(members) => members.iter().for_each(|(key, value)| {
            if !is_word(key) {
                see(key);
            }
            if !is_role(key, value) {
                see_texts(value, see);
            }
        }),
        _ => (),
    }
}

/// Changes these texts.
fn each_text(value: &mut Value, put: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => put(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, put)),
        Value::Object(members) => {
            let changed = std::mem::take(members).into_iter().map(|(mut key, mut value)| {
                if !is_role(&key, &value) {
                    each_text(&mut value, put);
                }
                if !is_word(&key) {
                    put(&mut key);
                }
                (key, value)
            });
            *members = changed.collect();
        }
        _ => (),
    }
}

fn is_role(key: &str, value: &Value) -> bool {
    key == "role" && value.as_str().is_some_and(is_word)
}
