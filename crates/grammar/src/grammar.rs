//! What a text has to be: schemas, regular expressions and literals, and how they stand beside and behind each other. A
//! family's way of writing calls is put together of these from outside.

use serde_json::Value;

use crate::error::Result;
use crate::json::parsed;
use crate::vocabulary::special_token;

/// A language of texts.
#[derive(Debug, Clone)]
pub struct Grammar(pub(crate) Node);

#[derive(Debug, Clone)]
pub(crate) enum Node {
    Schema(Value),
    Regex(String),
    Choices(Vec<String>),
    Literal(Vec<u8>),
    Sequence(Vec<Grammar>),
    Union(Vec<Grammar>),
    Repeat { item: Box<Grammar>, separator: Vec<u8>, min: u32, max: Option<u32> },
    FreeUntil(Vec<u8>),
    FreeText(Vec<(Vec<u8>, Grammar)>),
}

impl Grammar {
    /// The JSON texts that satisfy a schema (draft 2020-12). Keys come in the order in which `properties` names them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSchema`](crate::ErrorKind::InvalidSchema) where the text is no JSON. What the schema says is
    /// judged when it is compiled.
    pub fn json_schema(text: &str) -> Result<Self> {
        Ok(Self::json_schema_value(parsed(text, "schema")?))
    }

    /// As [`Grammar::json_schema`], of a schema that has been read already.
    pub fn json_schema_value(schema: Value) -> Self {
        Self(Node::Schema(schema))
    }

    /// Any JSON object.
    pub fn json_object() -> Self {
        Self::json_schema_value(serde_json::json!({ "type": "object" }))
    }

    /// Texts that a regular expression (ECMA-262) matches from their beginning to their end.
    pub fn regex(source: impl Into<String>) -> Self {
        Self(Node::Regex(source.into()))
    }

    /// One of these texts.
    pub fn choices(texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(Node::Choices(texts.into_iter().map(Into::into).collect()))
    }

    /// Exactly this text, special tokens ([`special_token`](crate::special_token)) included.
    pub fn literal(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Node::Literal(bytes.into()))
    }

    /// A special token of the tokenizer, by its text.
    pub fn token(text: &str) -> Self {
        Self::literal(special_token(text))
    }

    /// Several grammars in sequence.
    pub fn sequence(parts: impl IntoIterator<Item = Self>) -> Self {
        Self(Node::Sequence(parts.into_iter().collect()))
    }

    /// Any of them. They may begin alike, but where one begins a JSON value another must not have the same byte as
    /// text.
    pub fn union(parts: impl IntoIterator<Item = Self>) -> Self {
        Self(Node::Union(parts.into_iter().collect()))
    }

    /// `min` to `max` times `item`, with `separator` between; any number above `min` where `max` is `None`.
    #[must_use]
    pub fn repeated(item: Self, separator: impl Into<Vec<u8>>, min: u32, max: Option<u32>) -> Self {
        Self(Node::Repeat { item: Box::new(item), separator: separator.into(), min, max })
    }

    /// Any text up to and with the first `end`, which is text or one special token: a thought before an answer.
    pub fn free_until(end: impl Into<Vec<u8>>) -> Self {
        Self(Node::FreeUntil(end.into()))
    }

    /// Any text, except that behind each trigger comes its grammar, and then free text again. It may end wherever no
    /// such grammar is under way. A trigger is text or one special token.
    pub fn free_text<T: Into<Vec<u8>>>(triggers: impl IntoIterator<Item = (T, Self)>) -> Self {
        Self(Node::FreeText(triggers.into_iter().map(|(trigger, then)| (trigger.into(), then)).collect()))
    }
}
