//! Gemma 4 and FunctionGemma: `call:name{key:value}`, keys without quotes, strings between marks of their own.

use serde_json::{Value, json};

use super::super::grammar::writer::{literal, sequence, space};
use super::super::grammar::{Notation, Plain, Writer};
use super::super::python;
use super::super::reader::{Read, Reader, Stop};
use super::Format;
use crate::error::Result;

const CLOSES: [&str; 2] = ["<tool_call|>", "<end_function_call>"];
const QUOTES: [&str; 2] = ["<|\"|>", "<escape>"];

pub static FORMAT: Format = Format {
    shown_by: &["<|tool_call>", "<start_function_call>"],
    opens: &["<|tool_call>", "<start_function_call>"],
    marks: &["<|tool_call>", "<start_function_call>", CLOSES[0], CLOSES[1], QUOTES[0], QUOTES[1]],
    read: |r, which, _| {
        r.space();
        r.expect("call:")?;
        let name = r.name()?.to_owned();
        r.space();
        if r.peek()? != '{' {
            return Err(Stop::No);
        }
        r.begin(&name, None)?;
        r.write(object)?;
        r.end();
        r.space();
        r.eat(CLOSES[which]).map(drop)
    },
    written: |shown| if shown("<start_function_call>") && !shown("<|tool_call>") { &[1] } else { &[0] },
    write,
    ..Format::PLAIN
};

fn write(w: &Writer<'_>) -> Result<Value> {
    let call = w.each(|tool| {
        let members = if w.is_loose(tool) { NOTATION.any_members(w, 2) } else { NOTATION.named(w, tool, |field| Ok(key(w, field.name)), ":")? };
        Ok(sequence([space(), literal(&format!("call:{}{{", tool.name)), members, literal("}"), w.text(CLOSES[w.opening()])]))
    })?;
    Ok(w.calls([call], true))
}

const NOTATION: Notation = Notation {
    words: ["true", "false", "null"],
    colon: ":",
    comma: ",",
    string: |w, strings| {
        let quote = QUOTES[w.opening()];
        Some(sequence([w.text(quote), Plain::written(strings, w, quote, false, None)]))
    },
    key: |w, name| Some(key(w, name)),
    any_key: |_| json!({ "regex": r"[A-Za-z_][A-Za-z0-9_\-]{0,63}" }),
};

/// A key, in quotes where it would not be read without.
fn key(w: &Writer<'_>, name: &str) -> Value {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name.is_empty() && name.chars().all(is_plain) {
        return literal(name);
    }
    let quote = QUOTES[w.opening()];
    w.text(&format!("{quote}{name}{quote}"))
}

fn object(r: &mut Reader, out: &mut String) -> Read {
    r.next()?;
    out.push('{');
    let mut first = true;
    loop {
        r.space();
        if r.peek()? == '}' {
            r.next()?;
            out.push('}');
            return Ok(());
        }
        if !std::mem::take(&mut first) {
            out.push_str(", ");
        }
        match r.eat_any(&QUOTES)? {
            Some(quote) => r.quoted(out, Some(QUOTES[quote]), |r| r.next().map(Some))?,
            // As JSON has it.
            None if r.peek()? == '"' => r.json(out)?,
            None => {
                let key = r.until(":")?.trim().trim_matches('"').to_owned();
                r.at -= 1;
                out.push_str(&serde_json::Value::from(key).to_string());
            }
        }
        r.expect(":")?;
        out.push_str(": ");
        value(r, out)?;
        r.space();
        if r.peek()? != '}' {
            r.expect(",")?;
        }
    }
}

fn value(r: &mut Reader, out: &mut String) -> Read {
    r.space();
    if let Some(quote) = r.eat_any(&QUOTES)? {
        return r.quoted(out, Some(QUOTES[quote]), |r| r.next().map(Some));
    }
    match r.peek()? {
        '{' => object(r, out),
        '[' => python::items(r, out, ']', value),
        '"' => r.json(out),
        _ => python::word(r, out),
    }
}
