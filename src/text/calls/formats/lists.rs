//! A list of calls, or one, as JSON between marks: Granite 3, Phi-4-mini, Nemotron Nano, Apriel, Command R, FireFunction, GigaChat, Apertus; and
//! LFM2's list of Python's calls.

use super::super::object;
use super::super::python;
use super::super::reader::{Read, Reader, Stop};
use super::Format;

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
    opens: &[MARKS[0].0, MARKS[1].0, MARKS[2].0, MARKS[3].0, MARKS[4].0, MARKS[5].0, MARKS[6].0, MARKS[7].0, MARKS[8].0],
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
        match MARKS[which].0 {
            "<|tools_prefix|>" => named(r)?,
            _ => object::objects(r, false)?,
        }
        r.space();
        if !MARKS[which].1.is_empty() {
            r.eat(MARKS[which].1)?;
        }
        Ok(())
    },
    ..Format::PLAIN
};

/// `[{"name": {…}}]`: the name is the key.
fn named(r: &mut Reader) -> Read {
    r.expect("[")?;
    loop {
        r.space();
        r.expect("{")?;
        r.space();
        r.expect("\"")?;
        let name = r.name()?.to_owned();
        r.expect("\"")?;
        r.space();
        r.expect(":")?;
        r.begin(&name, None)?;
        r.json_arguments()?;
        r.space();
        r.expect("}")?;
        r.end();
        r.space();
        match r.next()? {
            ',' => (),
            ']' => return Ok(()),
            _ => return Err(Stop::No),
        }
    }
}

pub static PYTHON: Format = Format {
    shown_by: &["<|tool_call_start|>", "<|tool_list_start|>"],
    opens: &["<|tool_call_start|>"],
    marks: &["<|tool_call_start|>", "<|tool_call_end|>"],
    read: |r, _, _| {
        r.space();
        match r.rest().strip_prefix('[').map(|rest| rest.trim_start().chars().next()) {
            Some(None) => return Err(Stop::More),
            Some(Some('{')) => object::objects(r, false)?,
            _ => python::list(r)?,
        }
        r.space();
        r.eat("<|tool_call_end|>").map(drop)
    },
    ..Format::PLAIN
};
