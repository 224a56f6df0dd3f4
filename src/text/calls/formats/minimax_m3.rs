//! MiniMax M3: a mark before each tag, a tag for each argument, and tags within for objects and lists:
//! `<tool_call><invoke name="…"><key>value</key><list><item>…</item></list></invoke></tool_call>`.

use serde_json::{Map, Value};

use super::super::grammar::schema::{asserted, described, is_free, kinds, resolve, step};
use super::super::grammar::writer::{literal, repeat, sequence, space, union};
use super::super::grammar::{Fields, Plain, Writer, refuse};
use super::super::reader::{DONE, Read, Reader, Stop, Tool};
use super::super::tags::{self, Level};
use super::super::typed::typed;
use super::Format;
use crate::error::Result;

const MARK: &str = "]<]minimax[>[";
/// Levels of arguments within one another: that are read, and that are written in tags.
const MOST_LEVELS: usize = 32;
const MOST_WRITTEN: usize = 6;

pub static FORMAT: Format = Format {
    name: |_| "minimax",
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
        let rest =
            if w.is_loose(tool) { w.until(&end) } else { sequence([arguments(w, tool)?, space(), w.text(&end)]) };
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
                if asserted(schema, KNOWN).is_some()
                    || items.is_array()
                    || bound("maxItems").is_some_and(|max| max > 64 || max == 0)
                {
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
            return branches
                .iter()
                .enumerate()
                .map(|(i, branch)| (resolve(branch, root), step(&place, &i.to_string())))
                .collect();
        }
    }
    vec![(schema, pointer.to_owned())]
}

fn invoke(r: &mut Reader) -> Read {
    r.steps(&mut |r, step| match step {
        0 => {
            r.expect("]<]minimax[>[<invoke name=\"")?;
            let name = r.name()?;
            r.expect("\">")?;
            r.begin(name, None)?;
            Ok(1)
        }
        1 => {
            r.space();
            r.expect(MARK)?;
            if r.eat("</invoke>")? {
                r.close();
                return Ok(DONE);
            }
            r.expect("<")?;
            let name = r.until(">")?;
            if name.is_empty() || name.starts_with('/') {
                return Err(Stop::No);
            }
            opened(r, name, r.schema(name).cloned())
        }
        2 => {
            let name = r.until(">")?;
            let schema = r.memo.levels.last().and_then(|level| within(level.schema.as_ref()?, name));
            opened(r, name, schema)
        }
        // In a tag, before those within; and behind one of them.
        _ => {
            let text = if step == 3 {
                r.until(MARK)?
            } else {
                r.space();
                r.expect(MARK)?;
                ""
            };
            r.expect("<")?;
            let level = r.memo.levels.last().ok_or(Stop::No)?;
            let close = format!("/{}>", level.name);
            if !r.eat(&close)? {
                return Ok(2);
            }
            let level = r.memo.levels.pop().ok_or(Stop::No)?;
            let value = match step {
                3 => plain(r, text, level.schema.as_ref()),
                _ if level.fields.is_empty() => level.items.into(),
                _ => level.fields.into(),
            };
            match r.memo.levels.last_mut() {
                None => {
                    r.argument(&level.name);
                    let written = value.to_string();
                    r.arguments().push_str(&written);
                    return Ok(1);
                }
                Some(around) if level.name == "item" => around.items.push(value),
                Some(around) => drop(around.fields.insert(level.name, value)),
            }
            Ok(4)
        }
    })
}

/// A tag has been opened: the step within it.
fn opened(r: &mut Reader, name: &str, schema: Option<Value>) -> Read<u8> {
    if r.memo.levels.len() == MOST_LEVELS {
        return Err(Stop::No);
    }
    r.memo.levels.push(Level { name: name.to_owned(), schema, fields: Map::new(), items: Vec::new() });
    Ok(3)
}

/// A value without tags: text where the schema says so, else JSON where it parses as such.
fn plain(r: &Reader, text: &str, schema: Option<&Value>) -> Value {
    serde_json::from_str(&typed(text, r.kinds(schema))).unwrap_or_else(|_| Value::from(text))
}

/// What a schema says of a tag within: an item, or a member. Of alternatives the first that has such counts.
fn within(schema: &Value, key: &str) -> Option<Value> {
    let own =
        if key == "item" { schema.get("items") } else { schema.get("properties").and_then(|members| members.get(key)) };
    own.cloned().or_else(|| {
        ["anyOf", "oneOf"]
            .iter()
            .filter_map(|name| schema.get(*name)?.as_array())
            .flatten()
            .find_map(|branch| within(branch, key))
    })
}
