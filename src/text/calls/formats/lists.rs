//! A list of calls, or one, as JSON between marks: Granite 3, Phi-4-mini, Nemotron Nano, Apriel, Command R,
//! FireFunction, GigaChat, Apertus; and LFM2's list of Python's calls.

use serde_json::{Value, json};

use super::super::grammar::writer::{literal, sequence, space};
use super::super::grammar::{Writer, python as write_python};
use super::super::object;
use super::super::python;
use super::super::reader::{DONE, Read, Reader, Stop};
use super::{Format, Naming};
use crate::error::Result;

/// What stands before the calls, and after them where something does.
const MARKS: [(&str, &str); 9] = [
    ("<|tool_call|>", "<|/tool_call|>"),
    ("<TOOLCALL>", "</TOOLCALL>"),
    ("<tool_calls>", "</tool_calls>"),
    ("<|START_ACTION|>", "<|END_ACTION|>"),
    ("<|function_call|>", ""),
    ("<|message_sep|>\n\nfunction call<|role_sep|>\n", ""),
    ("functools", ""),
    ("Action:\n```json\n", "```"),
    ("<|tools_prefix|>", "<|tools_suffix|>"),
];

pub static FORMAT: Format = Format {
    name: of_list,
    shown_by: &[
        "<|tool_call|>",
        "<TOOLCALL>",
        "<tool_calls>",
        "<|START_ACTION|>",
        "<|function_call|>",
        "<|role_sep|>",
        "functools",
        "Action:",
        "<|tools_prefix|>",
    ],
    opens: &[
        MARKS[0].0, MARKS[1].0, MARKS[2].0, MARKS[3].0, MARKS[4].0, MARKS[5].0, MARKS[6].0, MARKS[7].0, MARKS[8].0,
    ],
    marks: &[
        "<|tool_call|>",
        "<|/tool_call|>",
        "<TOOLCALL>",
        "</TOOLCALL>",
        "<tool_calls>",
        "</tool_calls>",
        "<|START_ACTION|>",
        "<|END_ACTION|>",
        "<|function_call|>",
        "<|message_sep|>",
        "<|role_sep|>",
        "<|tools_prefix|>",
        "<|tools_suffix|>",
    ],
    read: |r, which, _| {
        let (open, close) = MARKS[which];
        r.steps(&mut |r, step| {
            match step {
                0 if open == "<|tools_prefix|>" => named(r)?,
                0 => object::objects(r, false)?,
                _ => {
                    r.space();
                    if !close.is_empty() {
                        r.eat(close)?;
                    }
                    return Ok(DONE);
                }
            }
            Ok(1)
        })
    },
    written: |shown| {
        static ALL: [usize; MARKS.len()] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
        (0..MARKS.len())
            .find(|i| shown(MARKS[*i].0.split('\n').next().unwrap_or_default()))
            .map_or(&[], |i| &ALL[i..=i])
    },
    write,
    ..Format::PLAIN
};

fn write(w: &Writer<'_>) -> Result<Value> {
    let (open, close) = MARKS[w.opening()];
    let named = |name, arguments| w.each(|tool| w.object(tool, name, arguments));
    let calls = match open {
        "<|tools_prefix|>" => w.list(
            w.each(|tool| Ok(sequence([literal(&format!("{{\"{}\": ", tool.name)), w.json(tool)?, literal("}")])))?,
        ),
        "<|START_ACTION|>" => w.list(w.each(|tool| {
            let id = sequence([literal("{\"tool_call_id\": \""), json!({ "regex": "[0-9]{1,4}" }), literal("\", ")]);
            let head = literal(&format!("\"tool_name\": \"{}\", \"parameters\": ", tool.name));
            Ok(sequence([id, head, w.json(tool)?, literal("}")]))
        })?),
        "Action:\n```json\n" => w.list(named("tool_name", "parameters")?),
        "<|function_call|>" | "<|message_sep|>\n\nfunction call<|role_sep|>\n" => named("name", "arguments")?,
        _ => w.list(named("name", "arguments")?),
    };
    // Granite has no mark behind its calls.
    let close = if close.is_empty() || !w.shown(close) { literal("") } else { sequence([space(), w.text(close)]) };
    Ok(w.calls([sequence([space(), calls, close])], false))
}

/// `[{"name": {…}}]`: the name is the key.
fn named(r: &mut Reader) -> Read {
    r.steps(&mut |r, step| {
        r.space();
        match step {
            0 => r.expect("[")?,
            1 => {
                r.expect("{")?;
                r.space();
                let name = object::name(r)?;
                r.space();
                r.expect(":")?;
                r.begin(&name, None)?;
            }
            2 => r.json_arguments()?,
            3 => {
                r.expect("}")?;
                r.end();
            }
            _ => return object::list_goes_on(r, 1),
        }
        Ok(step + 1)
    })
}

/// Families by their marks.
fn of_list(naming: &Naming<'_>) -> &'static str {
    let which =
        naming.written.map(|(which, _)| which).or_else(|| MARKS.iter().position(|(open, _)| (naming.shown)(open)));
    match which {
        Some(0)
            if (naming.shown)("<|/tool_call|>")
                || naming.written.is_some_and(|(_, rest)| rest.contains("<|/tool_call|>")) =>
        {
            "phi4"
        }
        Some(0) => "granite",
        Some(1) => "nemotron",
        Some(2) => "apriel",
        Some(3) | Some(7) => "cohere",
        Some(5) => "gigachat",
        Some(8) => "apertus",
        _ => "firefunction",
    }
}

pub static PYTHON: Format = Format {
    name: |_| "lfm2",
    shown_by: &["<|tool_call_start|>", "<|tool_list_start|>"],
    opens: &["<|tool_call_start|>"],
    marks: &["<|tool_call_start|>", "<|tool_call_end|>"],
    read: |r, _, _| {
        r.steps(&mut |r, step| {
            r.space();
            match step {
                0 => match r.rest().strip_prefix('[').map(|rest| rest.trim_start().chars().next()) {
                    Some(None) => return Err(Stop::More),
                    Some(Some('{')) => return Ok(1),
                    _ => return Ok(2),
                },
                1 => object::objects(r, false)?,
                2 => python::list(r)?,
                _ => {
                    r.eat("<|tool_call_end|>")?;
                    return Ok(DONE);
                }
            }
            Ok(3)
        })
    },
    write: |w| {
        let calls = w.several(w.each(|tool| write_python::call(w, tool))?, ", ");
        Ok(w.calls([sequence([space(), literal("["), calls, literal("]"), w.text("<|tool_call_end|>")])], false))
    },
    ..Format::PLAIN
};
