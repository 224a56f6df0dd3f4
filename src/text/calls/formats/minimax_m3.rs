//! MiniMax M3: a mark before each tag, a tag for each argument, and tags within for objects and lists:
//! `<tool_call><invoke name="…"><key>value</key><list><item>…</item></list></invoke></tool_call>`.

use serde_json::{Map, Value};

use super::super::reader::{Read, Reader, Stop};
use super::super::tags;
use super::Format;

const MARK: &str = "]<]minimax[>[";
/// Levels of arguments within one another.
const MOST_LEVELS: usize = 32;

pub static FORMAT: Format = Format {
    shown_by: &[MARK],
    opens: &["]<]minimax[>[<tool_call>"],
    marks: &[MARK, "<tool_call>", "</tool_call>"],
    ends_thoughts: Some(""),
    read: |r, _, _| tags::all(r, "]<]minimax[>[</tool_call>", invoke),
    ..Format::PLAIN
};

fn invoke(r: &mut Reader) -> Read {
    r.expect("]<]minimax[>[<invoke name=\"")?;
    let name = r.name()?.to_owned();
    r.expect("\">")?;
    r.begin(&name, None)?;
    loop {
        r.space();
        r.expect(MARK)?;
        if r.eat("</invoke>")? {
            break;
        }
        let key = opening(r)?;
        let schema = r.schema(&key).cloned();
        let value = value(r, &key, schema.as_ref(), MOST_LEVELS)?;
        r.argument(&key);
        let written = value.to_string();
        r.arguments().push_str(&written);
    }
    r.close_arguments();
    r.end();
    Ok(())
}

fn opening(r: &mut Reader) -> Read<String> {
    r.expect("<")?;
    let name = r.until(">")?.to_owned();
    if name.is_empty() || name.starts_with('/') { Err(Stop::No) } else { Ok(name) }
}

/// What stands up to the closing tag, which is taken.
fn value(r: &mut Reader, name: &str, schema: Option<&Value>, levels: usize) -> Read<Value> {
    let Some(levels) = levels.checked_sub(1) else { return Err(Stop::No) };
    let text = r.until(MARK)?;
    let close = format!("/{name}>");
    r.expect("<")?;
    if r.eat(&close)? {
        return Ok(plain(text, schema));
    }
    let (mut fields, mut items) = (Map::new(), Vec::new());
    loop {
        let key = r.until(">")?.to_owned();
        let of = schema.and_then(|schema| if key == "item" { schema.get("items") } else { schema.get("properties")?.get(&key) });
        let inner = value(r, &key, of, levels)?;
        if key == "item" {
            items.push(inner);
        } else {
            fields.insert(key, inner);
        }
        r.space();
        r.expect(MARK)?;
        r.expect("<")?;
        if r.eat(&close)? {
            return Ok(if fields.is_empty() { Value::from(items) } else { Value::from(fields) });
        }
    }
}

/// A value without tags: text where the schema says so, else JSON where it is such.
fn plain(text: &str, schema: Option<&Value>) -> Value {
    let kind = schema.and_then(|schema| schema.get("type"));
    if kind.and_then(Value::as_str) == Some("string") {
        return Value::from(text);
    }
    serde_json::from_str(text.trim()).unwrap_or_else(|_| Value::from(text))
}
