//! Python's calls: keyword arguments with its literals.

use serde_json::{Value, json};

use super::super::reader::Tool;
use super::schema::refuse;
use super::writer::{Writer, escape, literal, repeat, sequence, union};
use super::{Notation, Plain};
use crate::error::Result;

/// A character of a string in either quotes, an escape counting as one.
const DOUBLE: &str = r#"(?:[^"\\\x00-\x1f]|\\[nrtbf\\'"])"#;
const SINGLE: &str = r"(?:[^'\\\x00-\x1f]|\\[nrtbf\\'\x22])";

const NOTATION: Notation = Notation {
    words: ["True", "False", "None"],
    colon: ": ",
    comma: ", ",
    string,
    key: |w, name| string(w, &[Plain::One(name.to_owned())]),
    any_key: |w| string(w, &[Plain::Any]).unwrap_or(Value::Null),
};

/// `name(argument=value, …)`.
pub fn call(w: &Writer<'_>, tool: &Tool) -> Result<Value> {
    let any = || {
        repeat(sequence([json!({ "regex": r"[A-Za-z_]\w{0,63}" }), literal("="), NOTATION.any(w, 2)]), ", ", 0, None)
    };
    let arguments = if w.is_loose(tool) || super::Fields::of(tool)?.open {
        any()
    } else {
        NOTATION.named(
            w,
            tool,
            |field| match field.name.chars().all(|c| c.is_alphanumeric() || c == '_') && !field.name.is_empty() {
                true => Ok(literal(field.name)),
                false => Err(refuse(tool, &field.pointer, "properties", "the name of an argument is none in Python")),
            },
            "=",
        )?
    };
    Ok(sequence([literal(&format!("{}(", tool.name)), arguments, literal(")")]))
}

fn string(_: &Writer<'_>, all: &[Plain]) -> Option<Value> {
    let mut ways = Vec::new();
    for one in all {
        for (quote, unit) in [('"', DOUBLE), ('\'', SINGLE)] {
            let inner = match one {
                Plain::Any => format!("{unit}*"),
                Plain::One(text) => escape(&quoted(text, quote)),
                Plain::Like { patterns, min, max } if patterns.is_empty() => {
                    format!("{unit}{{{min},{}}}", max.map_or(String::new(), |max| max.to_string()))
                }
                // Of what stands between quotes an expression would say something else.
                Plain::Like { .. } => return None,
            };
            ways.push(json!({ "regex": format!("{quote}{inner}{quote}") }));
        }
    }
    Some(union(ways))
}

fn quoted(text: &str, quote: char) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c if c < ' ' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}
