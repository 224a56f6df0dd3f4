//! Gemma 4 and FunctionGemma: `call:name{key:value}`, keys without quotes, strings between marks of their own.

use serde_json::{Value, json};

use super::super::grammar::writer::{literal, sequence, space};
use super::super::grammar::{Notation, Plain, Writer};
use super::super::reader::{DONE, Read, Reader, Stop};
use super::super::value::Spelling;
use super::Format;
use crate::error::Result;

const CLOSES: [&str; 2] = ["<tool_call|>", "<end_function_call>"];
const QUOTES: [&str; 2] = ["<|\"|>", "<escape>"];

pub static FORMAT: Format = Format {
    name: |_| "gemma4",
    shown_by: &["<|tool_call>", "<start_function_call>"],
    opens: &["<|tool_call>", "<start_function_call>"],
    marks: &["<|tool_call>", "<start_function_call>", CLOSES[0], CLOSES[1], QUOTES[0], QUOTES[1]],
    read: |r, which, _| {
        r.steps(&mut |r, step| {
            r.space();
            Ok(match step {
                0 => {
                    r.expect("call:")?;
                    let name = r.name()?;
                    r.space();
                    if r.peek()? != '{' {
                        return Err(Stop::No);
                    }
                    r.begin(name, None)?;
                    1
                }
                1 => {
                    r.write(|r, out| r.value(&VALUES, None, out))?;
                    r.end();
                    2
                }
                _ => {
                    r.eat(CLOSES[which])?;
                    DONE
                }
            })
        })
    },
    written: |shown| if shown("<start_function_call>") && !shown("<|tool_call>") { &[1] } else { &[0] },
    write,
    ..Format::PLAIN
};

fn write(w: &Writer<'_>) -> Result<Value> {
    let call = w.each(|tool| {
        let members = if w.is_loose(tool) {
            NOTATION.any_members(w, 2)
        } else {
            NOTATION.named(w, tool, |field| Ok(key(w, field.name)), ":")?
        };
        Ok(sequence([
            space(),
            literal(&format!("call:{}{{", tool.name)),
            members,
            literal("}"),
            w.text(CLOSES[w.opening()]),
        ]))
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

/// Values as they are read.
static VALUES: Spelling = Spelling { json: false, tuples: false, quotes: "\"<", string, key: key_of };

fn string(r: &mut Reader, out: &mut String) -> Read {
    if r.peek()? == '"' {
        // As JSON has it.
        return r.json_string(false, out);
    }
    r.quoted(&QUOTES, |r| r.next().map(Some), out)
}

fn key_of(r: &mut Reader, out: &mut String) -> Read {
    let start = r.at;
    let quoted = r.eat_any(&QUOTES)?.is_some() || r.peek()? == '"';
    r.at = start;
    if quoted {
        return string(r, out);
    }
    let key = r.until(":")?.trim().trim_matches('"').to_owned();
    r.at -= 1;
    out.push_str(&Value::from(key).to_string());
    Ok(())
}
