//! MiniMax M3: a mark before each tag, a tag for each argument, and tags within for objects and lists:
//! `<tool_call><invoke name="…"><key>value</key><list><item>…</item></list></invoke></tool_call>`.

use serde_json::{Map, Value};

use super::super::grammar::schema::{asserted, described, is_free, kinds, resolve, step};
use super::super::grammar::writer::{literal, repeat, sequence, space, union};
use super::super::grammar::{Fields, Plain, Writer, refuse};
use super::super::reader::{Read, Reader, Stop, Tool};
use super::super::tags;
use super::Format;
use crate::error::Result;

const MARK: &str = "]<]minimax[>[";
/// Levels of arguments within one another: that are read, and that are written in tags.
const MOST_LEVELS: usize = 32;
const MOST_WRITTEN: usize = 6;

pub static FORMAT: Format = Format {
    shown_by: &[MARK],
    opens: &["]<]minimax[>[<tool_call>"],
    marks: &[MARK, "<tool_call>", "</tool_call>"],
    ends_thoughts: Some(""),
    read: |r, _, _| tags::all(r, "]<]minimax[>[</tool_call>", invoke),
    write,
    ..Format::PLAIN
};

fn write(w: &Writer<'_>) -> Result<Value> {
    let call = w.each(|tool| {
        let open = w.text(&format!("{MARK}<invoke name=\"{}\">", tool.name));
        let end = format!("{MARK}</invoke>");
        // Tags of any name cannot be told to close.
        let rest = if w.is_loose(tool) { w.until(&end) } else { sequence([arguments(w, tool)?, space(), w.text(&end)]) };
        Ok(sequence([space(), open, rest]))
    })?;
    Ok(w.calls([sequence([w.several(call, ""), space(), w.text(&format!("{MARK}</tool_call>"))])], false))
}

fn arguments(w: &Writer<'_>, tool: &Tool) -> Result<Value> {
    members(w, tool, &Fields::of(tool)?, MOST_WRITTEN)
}

fn members(w: &Writer<'_>, tool: &Tool, fields: &Fields<'_>, levels: usize) -> Result<Value> {
    fields.in_order(|field| {
        let name = field.name;
        let is_tag = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || name == "item" || !name.chars().all(is_tag) {
            return Err(refuse(tool, &field.pointer, "properties", "the name of an argument cannot be a tag's"));
        }
        tagged(w, tool, name, field.schema, &field.pointer, levels)
    })
}

/// A value in its tag: as it stands, or in tags of its own.
fn tagged(w: &Writer<'_>, tool: &Tool, name: &str, schema: &Value, pointer: &str, levels: usize) -> Result<Value> {
    let root = &tool.parameters;
    let close = format!("{MARK}</{name}>");
    let mut ways = Vec::new();
    let free = is_free(schema);
    if free || kinds(schema, root).string {
        ways.push(Plain::written(&Plain::of(tool, schema, pointer)?, w, &close, false, None));
    } else {
        ways.push(sequence([described(schema, root), w.text(&close)]));
    }
    for (schema, pointer) in alternatives(schema, root, pointer) {
        let Some(levels) = levels.checked_sub(1) else { break };
        let within = match schema["type"].as_str() {
            Some("object") => match Fields::members(tool, schema, &pointer) {
                Ok(fields) if fields.all.iter().any(|field| field.required) => members(w, tool, &fields, levels)?,
                _ => continue,
            },
            Some("array") => {
                const KNOWN: &[&str] = &["type", "items", "minItems", "maxItems"];
                let items = schema.get("items").unwrap_or(&Value::Bool(true));
                let bound = |name: &str| schema.get(name).and_then(Value::as_u64).map(|n| n as u32);
                if asserted(schema, KNOWN).is_some() || items.is_array() || bound("maxItems").is_some_and(|max| max > 64 || max == 0) {
                    continue;
                }
                let item = tagged(w, tool, "item", items, &step(&pointer, "items"), levels)?;
                repeat(item, "", bound("minItems").unwrap_or(0).max(1), bound("maxItems"))
            }
            _ => continue,
        };
        ways.push(sequence([within, w.text(&close)]));
    }
    Ok(sequence([w.text(MARK), literal(&format!("<{name}>")), union(ways)]))
}

/// The schemas of which one has to hold, where no others are asked for.
fn alternatives<'s>(schema: &'s Value, root: &'s Value, pointer: &str) -> Vec<(&'s Value, String)> {
    let schema = resolve(schema, root);
    for name in ["anyOf", "oneOf"] {
        if let (Some(branches), None) = (schema.get(name).and_then(Value::as_array), asserted(schema, &[name])) {
            let place = step(pointer, name);
            return branches.iter().enumerate().map(|(i, branch)| (resolve(branch, root), step(&place, &i.to_string()))).collect();
        }
    }
    vec![(schema, pointer.to_owned())]
}

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
        return Ok(plain(r, text, schema));
    }
    let (mut fields, mut items) = (Map::new(), Vec::new());
    loop {
        let key = r.until(">")?.to_owned();
        let of = schema.and_then(|schema| within(schema, &key));
        let inner = value(r, &key, of.as_ref(), levels)?;
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
fn plain(r: &Reader, text: &str, schema: Option<&Value>) -> Value {
    let kinds = r.kinds(schema);
    let json = serde_json::from_str(text.trim()).ok();
    json.filter(|json: &Value| !kinds.string || kinds.null && json.is_null()).unwrap_or_else(|| Value::from(text))
}

/// What a schema says of a tag within: an item, or a member. Of alternatives the first that has such counts.
fn within(schema: &Value, key: &str) -> Option<Value> {
    let own = if key == "item" { schema.get("items") } else { schema.get("properties").and_then(|members| members.get(key)) };
    own.cloned().or_else(|| ["anyOf", "oneOf"].iter().filter_map(|name| schema.get(*name)?.as_array()).flatten().find_map(|branch| within(branch, key)))
}
