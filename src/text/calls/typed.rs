//! Values as their schemas want them, however a model wrote them: formats with tags have text for everything, Python
//! has words of its own.

use serde_json::Value;

use super::grammar::schema::Kinds;
use super::python;
use super::reader::looked;

/// Text that stands for a value, as JSON: of the schema's kind where it can be read so, otherwise JSON where it is
/// such, otherwise a string.
pub fn typed(text: &str, kinds: Kinds) -> String {
    looked(text.len());
    let trimmed = text.trim();
    if kinds.string {
        return if kinds.null && matches!(trimmed, "null" | "None") {
            "null".to_owned()
        } else {
            Value::from(text).to_string()
        };
    }
    let json = serde_json::from_str::<Value>(trimmed).ok();
    if json.as_ref().is_some_and(|value| kinds.known().is_none() || kinds.fit(value)) {
        return trimmed.to_owned();
    }
    kinds.known().and_then(|kinds| read_as(trimmed, kinds)).unwrap_or_else(|| match json {
        Some(_) => trimmed.to_owned(),
        None => Value::from(text).to_string(),
    })
}

/// A text that is no JSON of these kinds, as one that is.
fn read_as(text: &str, kinds: Kinds) -> Option<String> {
    let fits = |json: String| serde_json::from_str(&json).is_ok_and(|value| kinds.fit(&value)).then_some(json);
    let quoted = |json: &str| serde_json::from_str::<String>(json).ok();
    if text.is_empty() {
        return ["null", "[]", "{}"].into_iter().find_map(|json| fits(json.to_owned())).or(Some("null".to_owned()));
    }
    let literal = python::literal(text);
    let within = quoted(text).or_else(|| quoted(literal.as_deref()?));
    let word = text.to_ascii_lowercase().replace("none", "null");
    literal.and_then(fits).or_else(|| fits(word)).or_else(|| {
        let within = within?;
        fits(within.trim().to_owned()).or_else(|| read_as(within.trim(), kinds))
    })
}

/// A value of Python's that was read as `json` from `text`, likewise.
pub fn typed_literal(json: String, text: &str, kinds: Kinds) -> String {
    let Ok(value) = serde_json::from_str::<Value>(&json) else { return json };
    match value {
        value if kinds.fit(&value) => json,
        Value::String(text) => typed(&text, kinds),
        _ if kinds.string => Value::from(text.trim()).to_string(),
        _ => json,
    }
}
