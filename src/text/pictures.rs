//! Pictures in messages: while a chat template renders a conversation a mark stands where each picture is, or what the
//! template prints for one, and afterwards the tokens that a model has there.

use serde_json::{Value, json};

use super::guard::MARKS;
use super::{ChatTemplate, Guarded};
use crate::error::{Error, Result};

/// Types of parts that are pictures, in the words of several clients.
const PICTURES: [&str; 3] = ["image_url", "image", "input_image"];
/// Types of parts that are text.
const TEXTS: [&str; 2] = ["text", "input_text"];
/// How Python writes the beginning of a part: what a template prints that takes content for a text.
const PYTHONS: &str = "{'type': 'text'";

/// How a conversation with marks is given to a chat template.
#[derive(Clone, Copy)]
enum How<'a> {
    /// Content is a list: pictures are parts of their own type, for each of which the template prints this, wherever it
    /// puts the pictures of a message.
    Typed(&'a str),
    /// Content is a list of texts, of which some are marks.
    Listed,
    /// Content is one text.
    Joined,
}

/// A conversation with a mark in place of each picture.
struct Marked {
    messages: Value,
    mark: char,
}

/// How many pictures a conversation has.
pub fn count(messages: &Value) -> usize {
    let parts = messages.as_array().into_iter().flatten().filter_map(|message| message["content"].as_array()).flatten();
    parts.filter(|part| is_picture(part)).count()
}

fn is_picture(part: &Value) -> bool {
    part["type"].as_str().is_some_and(|kind| PICTURES.contains(&kind))
}

/// The prompt of a conversation that has pictures; `words` are what stands for each of them, in tokens' names. `render`
/// is the chat template; where it does not print pictures alone, but goes by parts' types elsewhere too, `printed` is
/// what it prints for one.
///
/// # Errors
/// `BAD_OPTION` for a part that is neither text nor a picture, and for pictures in what the assistant has said;
/// `TEMPLATE` where the template leaves a picture out or moves it.
pub fn render(
    messages: &Value,
    words: &[String],
    printed: Option<&str>,
    render: impl Fn(&Value) -> Result<Guarded>,
) -> Result<Guarded> {
    // A template takes content as a list of parts, or as one text. What messages spell is no place of a picture: it is
    // guarded.
    let whole = |place: &str, prompt: &Guarded| {
        prompt.marked().0.matches(place).count() == words.len() && !prompt.text().contains(PYTHONS)
    };
    let mut failure = None;
    for how in printed.map(How::Typed).into_iter().chain([How::Listed, How::Joined]) {
        let marked = mark(messages, how)?;
        let place = if let How::Typed(printed) = how { printed.to_owned() } else { marked.mark.to_string() };
        let filled = render(&marked.messages).map(|prompt| whole(&place, &prompt).then(|| prompt.fill(&place, words)));
        match filled {
            Ok(Some(prompt)) => return Ok(prompt),
            Ok(None) => {}
            Err(e) => failure = failure.or(Some(e)),
        }
    }
    Err(failure.unwrap_or_else(|| {
        Error::template("the chat template does not put each picture where the message has it; use another template")
    }))
}

/// Puts a mark in place of each picture, or leaves it as one.
fn mark(messages: &Value, how: How<'_>) -> Result<Marked> {
    let written = messages.to_string();
    let Some(mark) = MARKS.into_iter().find(|mark| !written.contains(*mark)) else {
        return Err(Error::bad_option(
            "the messages hold every noncharacter from U+FDD0 to U+FDEF; leave one of them out",
        ));
    };
    let mut messages = messages.clone();
    for message in messages.as_array_mut().into_iter().flatten() {
        let Some(parts) = message["content"].as_array().filter(|parts| parts.iter().any(is_picture)) else { continue };
        if message["role"] == "assistant" {
            return Err(Error::bad_option(
                "a picture in a message of the assistant: pictures are read from users and tools",
            ));
        }
        let mark = mark.to_string();
        let texts = parts.iter().map(|part| match part["type"].as_str() {
            _ if is_picture(part) => Ok(mark.as_str()),
            Some(kind) if TEXTS.contains(&kind) => {
                part["text"].as_str().ok_or_else(|| Error::bad_option("a part of type text has no text"))
            }
            _ => Err(Error::bad_option(format!(
                "a part of type {} beside a picture; this version reads text and image_url",
                part["type"]
            ))),
        });
        let texts = texts.collect::<Result<Vec<_>>>()?;
        let part = |text: &&str| match how {
            How::Typed(_) if *text == mark => json!({ "type": "image" }),
            _ => json!({ "type": "text", "text": text }),
        };
        let parts = || texts.iter().map(part).collect();
        message["content"] =
            if matches!(how, How::Joined) { Value::String(texts.concat()) } else { Value::Array(parts()) };
    }
    Ok(Marked { messages, mark })
}

impl Guarded {
    /// With words in the places of pictures, one after another.
    fn fill(&self, place: &str, words: &[String]) -> Self {
        let (text, guard) = self.marked();
        let mut words = words.iter();
        let filled = text.split(place).enumerate().fold(String::new(), |mut filled, (i, piece)| {
            if i > 0 {
                filled.extend(words.next().map(String::as_str));
            }
            filled.push_str(piece);
            filled
        });
        Self::new(filled, guard)
    }
}

impl ChatTemplate {
    /// A prompt in which nothing is guarded: what messages spell is read as these tokens.
    pub fn render_unguarded(
        &self,
        messages: &Value,
        tools: Option<&Value>,
        extra: &serde_json::Map<String, Value>,
    ) -> Result<Guarded> {
        Ok(Guarded::new(self.render(messages, tools, extra, true)?, None))
    }
}
