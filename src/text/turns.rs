//! What chat templates want of messages where Python leaves it open: the content beside calls of tools, which OpenAI's
//! clients give as null; arguments as an object or as its JSON; tools where there are none; the name of thoughts;
//! content as a text or as a list of parts.
//!
//! A template that was written for one of these fails with another, or prints `None`. Which one it takes is seen by
//! rendering a conversation with each. What it takes as it is given stays so: then the prompt is what transformers
//! makes.

use std::borrow::Cow;

use minijinja::value::Serde;
use serde_json::{Map, Value, json};

/// The key of the arguments of the call in the test conversation.
const KEY: &str = "probe_key";
/// The question in the test conversation, given once as a text and once as parts.
const SAID: &str = "What turns the wheel of the mill?";
/// The beginning of an object with that key as Python's `repr` writes it.
const PYTHONS: &str = "{'probe_key'";
/// The beginning of a part as Python's `repr` writes it.
const PYTHONS_PART: &str = "{'type'";

/// Content beside calls.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Content {
    Null,
    Empty,
    Missing,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Arguments {
    /// Either, with the same text.
    Any,
    Object,
    Json,
}

/// What a template wants.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    /// In place of null, and where there is none.
    null: Content,
    missing: Content,
    arguments: Arguments,
    /// Whether `tools` is to be none where there are none, rather than undefined.
    pub none_for_no_tools: bool,
    /// What it calls thoughts beside `reasoning_content`.
    thoughts: Vec<&'static str>,
    /// Whether it prints content that is a list of parts, and not one that is a text.
    parts: bool,
}

impl Turns {
    /// Asks a template. `render`: the text of a conversation, with tools or none (then as none or undefined), if it has
    /// one.
    pub fn of(source: &str, render: impl Fn(&Value, Option<&Value>, bool) -> Option<String>) -> Self {
        let tools = json!([{ "type": "function", "function": { "name": "probe", "description": "A probe.", "parameters":
            { "type": "object", "properties": { KEY: { "type": "string", "description": "A key." } }, "required": [KEY] } } }]);
        let question = json!({ "role": "user", "content": "?" });
        let turn = |count: usize, content: Content, arguments: &Value| {
            let mut answer = Map::new();
            answer.insert("role".into(), "assistant".into());
            set(&mut answer, content);
            let call = json!({ "id": "probe0001", "type": "function", "function": { "name": "probe", "arguments": arguments } });
            answer.insert("tool_calls".into(), json!([call]));
            let result = json!({ "role": "tool", "tool_call_id": "probe0001", "name": "probe", "content": "found" });
            let all = [question.clone(), Value::Object(answer), result];
            render(&Value::from(&all[..count]), Some(&tools), true)
        };
        let object = json!({ KEY: "value" });
        let text = Value::from(format!("{{\"{KEY}\": \"value\"}}"));
        let tried = |count: usize, arguments: &Value| {
            let contents = [Content::Empty, Content::Null, Content::Missing];
            contents.into_iter().find_map(|content| turn(count, content, arguments))
        };
        // Templates that know no results of tools may know calls.
        let (mut count, mut by_object, mut by_text) = (3, tried(3, &object), tried(3, &text));
        if by_object.is_none() && by_text.is_none() {
            (count, by_object, by_text) = (2, tried(2, &object), tried(2, &text));
        }
        let arguments = match (&by_object, &by_text) {
            (Some(a), Some(b)) if a == b => Arguments::Any,
            (Some(a), _) if !a.contains(PYTHONS) => Arguments::Object,
            (_, Some(b)) if b.contains(&format!("{{\"{KEY}\"")) => Arguments::Json,
            _ => Arguments::Object,
        };
        let chosen = if arguments == Arguments::Json { &text } else { &object };
        let [empty, null, missing] =
            [Content::Empty, Content::Null, Content::Missing].map(|content| turn(count, content, chosen));
        // Python's word for nothing, and JSON's, beside what is written where the content is empty.
        let says_none = |text: &str| {
            let count = |text: &str| text.matches("None").count() + text.matches("null").count();
            count(text) > empty.as_deref().map_or(0, count)
        };
        let takes_null = null.as_deref().is_some_and(|text| !says_none(text));
        let takes_missing = missing.as_deref().is_some_and(|text| !says_none(text));
        let other = if empty.is_some() || !takes_missing { Content::Empty } else { Content::Missing };
        let plain = json!([question]);
        let says = |content: Value| {
            let said = render(&json!([{ "role": "user", "content": content }]), None, false);
            said.is_some_and(|text| text.contains(SAID) && !text.contains(PYTHONS_PART))
        };
        let (none, undefined) = (render(&plain, None, true), render(&plain, None, false));
        Self {
            null: if takes_null { Content::Null } else { other },
            missing: match () {
                () if takes_missing => Content::Missing,
                () if takes_null => Content::Null,
                () => Content::Empty,
            },
            arguments,
            // What tells a model of tools that there are none says more than what does not.
            none_for_no_tools: match (&none, &undefined) {
                (Some(none), Some(undefined)) => none.len() < undefined.len(),
                (none, _) => none.is_some(),
            },
            thoughts: ["thinking", "reasoning"]
                .into_iter()
                .filter(|name| {
                    [format!("message.{name}"), format!("'{name}'"), format!("\"{name}\"")]
                        .iter()
                        .any(|asked| source.contains(asked))
                })
                .collect(),
            parts: !says(SAID.into()) && says(json!([{ "type": "text", "text": SAID }])),
        }
    }

    /// A conversation as the template wants it.
    pub fn shaped<'a>(&self, messages: &'a Value) -> Cow<'a, Value> {
        let wants_parts = |message: &Value| self.parts && message["content"].is_string();
        let concerned = |message: &&Value| is_concerned(message) || wants_parts(message);
        let Some(list) = messages.as_array().filter(|list| list.iter().any(|message| concerned(&message))) else {
            return Cow::Borrowed(messages);
        };
        let shaped = list.iter().map(|message| {
            let mut message = if is_concerned(message) { self.message(message) } else { message.clone() };
            if wants_parts(&message) {
                message["content"] = json!([{ "type": "text", "text": message["content"] }]);
            }
            message
        });
        Cow::Owned(shaped.collect())
    }

    fn message(&self, message: &Value) -> Value {
        let Value::Object(mut message) = message.clone() else { return message.clone() };
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut).filter(|calls| !calls.is_empty());
        if let Some(calls) = calls {
            for call in calls {
                // Some give the function itself.
                let function = if call.get("function").is_some() { call.get_mut("function") } else { Some(call) };
                if let Some(arguments) = function.and_then(|function| function.get_mut("arguments")) {
                    self.shape_arguments(arguments);
                }
            }
            match message.get("content") {
                None => set(&mut message, self.missing),
                Some(Value::Null) => set(&mut message, self.null),
                Some(_) => (),
            }
        }
        // gpt-oss refuses thoughts beside a text before calls.
        let calls = message.get("tool_calls").and_then(Value::as_array).is_some_and(|calls| !calls.is_empty());
        let crowded = calls && message.get("content").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        if let Some(thought) =
            message.get("reasoning_content").filter(|thought| !thought.is_null() && !crowded).cloned()
        {
            for name in &self.thoughts {
                message.entry(*name).or_insert_with(|| thought.clone());
            }
        }
        Value::Object(message)
    }

    fn shape_arguments(&self, arguments: &mut Value) {
        match (self.arguments, &*arguments) {
            (Arguments::Object, Value::String(text)) => {
                if let Ok(object @ Value::Object(_)) = serde_json::from_str(text) {
                    *arguments = object;
                }
            }
            (Arguments::Json, Value::Object(_)) => {
                let value = minijinja::Value::from(Serde(&*arguments));
                if let Ok(text) = super::tojson::dumps(&value) {
                    *arguments = text.into();
                }
            }
            _ => (),
        }
    }
}

/// Whether a message is one that templates may want otherwise.
fn is_concerned(message: &Value) -> bool {
    message.get("role").and_then(Value::as_str) == Some("assistant")
        && ["tool_calls", "reasoning_content"].iter().any(|key| message.get(key).is_some_and(|value| !value.is_null()))
}

/// Sets the content; where it stood it stays, for templates may print messages whole.
fn set(message: &mut Map<String, Value>, content: Content) {
    match content {
        Content::Null => drop(message.insert("content".into(), Value::Null)),
        Content::Empty => drop(message.insert("content".into(), "".into())),
        Content::Missing => drop(message.shift_remove("content")),
    }
}
