//! Grammars as JSON, which is how they come from another module.

use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::grammar::Grammar;
use crate::vocabulary::special_token;

impl Grammar {
    /// The grammar that JSON describes, in the form that the crate's overview lists.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSchema`], with the place in the description, where it is not of this form or no JSON;
    /// `TooLarge` where it nests too deeply. What schemas and regular expressions say is judged when it is compiled.
    pub fn from_json(text: &str) -> Result<Self> {
        let value = parsed(text, "grammar")?;
        read(value, &mut String::new())
    }
}

/// Text as JSON.
pub(crate) fn parsed(text: &str, what: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|e| {
        let deep = e.to_string().starts_with("recursion limit");
        Error::new(
            if deep { ErrorKind::TooLarge } else { ErrorKind::InvalidSchema },
            format!("the {what} is no JSON that can be read: {e}"),
        )
    })
}

/// An error at a place of the description.
fn wrong(at: &str, reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidSchema, reason).at((0, at.to_owned()), "")
}

/// With one more step in the pointer.
fn within<T>(at: &mut String, step: &str, f: impl FnOnce(&mut String) -> Result<T>) -> Result<T> {
    let len = at.len();
    at.push('/');
    at.push_str(step);
    let out = f(at);
    at.truncate(len);
    out
}

fn read(value: Value, at: &mut String) -> Result<Grammar> {
    let Value::Object(map) = value else { return Err(wrong(at, "a grammar is an object")) };
    let mut members = map.into_iter();
    let (Some((form, value)), None) = (members.next(), members.next()) else {
        return Err(wrong(at, "a grammar has one member"));
    };
    within(at, &form, |at| {
        Ok(match form.as_str() {
            "schema" => Grammar::json_schema_value(value),
            "regex" => Grammar::regex(string(value, at)?),
            "choice" => Grammar::choices(list(value, at, |value, at| string(value, at))?),
            "literal" => Grammar::literal(string(value, at)?),
            "token" => Grammar::token(&string(value, at)?),
            "sequence" => Grammar::sequence(list(value, at, read)?),
            "union" => Grammar::union(list(value, at, read)?),
            "repeat" => repeat(value, at)?,
            "free_until" => Grammar::free_until(mark(value, at)?),
            "free_text" => Grammar::free_text(list(value, at, |value, at| {
                let mut map = object(value, at, &["trigger", "then"])?;
                let trigger = within(at, "trigger", |at| mark(map.remove("trigger").unwrap_or_default(), at))?;
                let then = within(at, "then", |at| read(map.remove("then").unwrap_or_default(), at))?;
                Ok((trigger, then))
            })?),
            _ => return Err(wrong(at, "no form of a grammar")),
        })
    })
}

fn repeat(value: Value, at: &mut String) -> Result<Grammar> {
    let mut map = object(value, at, &["item", "separator", "min", "max"])?;
    let item = within(at, "item", |at| read(map.remove("item").unwrap_or_default(), at))?;
    let separator = match map.remove("separator") {
        None => Vec::new(),
        Some(value) => within(at, "separator", |at| mark(value, at))?,
    };
    let mut bound = |name: &str| match map.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => within(at, name, |at| {
            let count = value.as_u64().and_then(|n| u32::try_from(n).ok());
            count.map(Some).ok_or_else(|| wrong(at, "a count is a whole number below 2^32"))
        }),
    };
    let (min, max) = (bound("min")?.unwrap_or(0), bound("max")?);
    Ok(Grammar::repeated(item, separator, min, max))
}

/// Text, or a special token.
fn mark(value: Value, at: &mut String) -> Result<Vec<u8>> {
    match value {
        Value::String(text) => Ok(text.into_bytes()),
        value => {
            let mut map = object(value, at, &["token"])?;
            within(at, "token", |at| Ok(special_token(&string(map.remove("token").unwrap_or_default(), at)?)))
        }
    }
}

fn string(value: Value, at: &str) -> Result<String> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(wrong(at, "a string has to stand here")),
    }
}

fn list<T>(value: Value, at: &mut String, mut f: impl FnMut(Value, &mut String) -> Result<T>) -> Result<Vec<T>> {
    let Value::Array(list) = value else { return Err(wrong(at, "a list has to stand here")) };
    list.into_iter().enumerate().map(|(i, value)| within(at, &i.to_string(), |at| f(value, at))).collect()
}

/// An object that has no members but these.
fn object(value: Value, at: &str, names: &[&str]) -> Result<Map<String, Value>> {
    let Value::Object(map) = value else { return Err(wrong(at, "an object has to stand here")) };
    match map.keys().find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(wrong(at, format!("`{name}` means nothing here"))),
        None => Ok(map),
    }
}
