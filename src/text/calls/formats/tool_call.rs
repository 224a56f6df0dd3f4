//! `<tool_call>`, in which four families write differently: JSON (Hermes, Qwen 2.5 and 3, Granite 4, Reka), a list of
//! JSON (SmolLM2, Granite 3), `<function=name>` with tags (Qwen3-Coder, Qwen 3.5, Nemotron 3, StepFun), and a bare name
//! with `<arg_key>` and `<arg_value>` (GLM).

use serde_json::Value;

use super::super::grammar::writer::{literal, optional, sequence, space};
use super::super::grammar::{Tags, Writer};
use super::super::reader::{DONE, Read, Reader};
use super::super::{object, tags};
use super::{Format, Naming};
use crate::error::Result;

const CLOSE: &str = "</tool_call>";

pub static FORMAT: Format = Format {
    name,
    shown_by: &["<tool_call>"],
    opens: &["<tool_call>", "<function="],
    marks: &[
        "<tool_call>",
        CLOSE,
        "<function=",
        "</function>",
        "<parameter=",
        "</parameter>",
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "</arg_value>",
    ],
    // Qwen 3.5.
    ends_thoughts: Some("<function="),
    read: |r, which, _| {
        r.steps(&mut |r, step| {
            Ok(match step {
                // The tag around may be forgotten.
                0 if which == 1 => {
                    tags::function(r, &Tags::PARAMETERS)?;
                    5
                }
                0 => {
                    r.space();
                    match r.peek()? {
                        '{' | '[' => 1,
                        '<' => 3,
                        _ => 4,
                    }
                }
                1 => {
                    object::objects(r, false)?;
                    2
                }
                // Calls up to the closing tag.
                2 => {
                    r.space();
                    if r.eat(CLOSE)? { DONE } else { 1 }
                }
                3 => {
                    tags::all(r, CLOSE, |r| {
                        r.expect("<function=")?;
                        tags::function(r, &Tags::PARAMETERS)
                    })?;
                    DONE
                }
                4 => {
                    glm(r)?;
                    DONE
                }
                _ => {
                    r.space();
                    r.eat(CLOSE)?;
                    DONE
                }
            })
        })
    },
    written: |shown| match () {
        // Apriel, and MiniMax M3, which has a mark before each tag.
        () if shown("<tool_calls>") || shown("]<]minimax[>[") => &[],
        () if shown("<function=") && !shown("<arg_key>") => &[0, 1],
        () => &[0],
    },
    write,
    ..Format::PLAIN
};

/// The family that writes so, or whose template shows it.
fn name(naming: &Naming<'_>) -> &'static str {
    match naming.written.map(|(which, rest)| (which, rest.trim_start().chars().next())) {
        Some((1, _) | (_, Some('<'))) => "qwen3-coder",
        Some((_, Some('{'))) => "hermes",
        Some((_, Some('['))) => "smollm2",
        Some(_) => "glm",
        None if (naming.shown)("<arg_key>") => "glm",
        None if (naming.shown)("<function=") => "qwen3-coder",
        None if (naming.shown)("<tool_call>[") => "smollm2",
        None => "hermes",
    }
}

fn write(w: &Writer<'_>) -> Result<Value> {
    if w.shown("<arg_key>") {
        const TAGS: Tags = Tags {
            open: ("<arg_key>", "</arg_key>"),
            value: "<arg_value>",
            close: "</arg_value>",
            says: false,
            quote: None,
        };
        let call = w.each(|tool| {
            Ok(sequence([space(), literal(&tool.name), TAGS.arguments(w, tool)?, space(), w.text(CLOSE)]))
        })?;
        return Ok(w.calls([call], true));
    }
    if w.shown("<function=") {
        let call = w.each(|tool| Tags::PARAMETERS.function(w, tool))?;
        let tagged = sequence([space(), w.text("<function="), call.clone(), space(), w.text(CLOSE)]);
        // The tag around may be forgotten.
        return Ok(w.calls([tagged, sequence([call, optional(sequence([space(), w.text(CLOSE)]))])], true));
    }
    let call = w.each(|tool| w.object(tool, "name", "arguments"))?;
    let listed = w.shown("<tool_call>[");
    let calls = if listed { w.list(call) } else { call };
    Ok(w.calls([sequence([space(), calls, space(), w.text(CLOSE)])], !listed))
}

fn glm(r: &mut Reader) -> Read {
    r.steps(&mut |r, step| {
        match step {
            0 => {
                let name = r.name()?;
                r.begin(name, None)?;
            }
            1 => {
                r.space();
                if r.eat(CLOSE)? {
                    r.close();
                    return Ok(DONE);
                }
                r.expect("<arg_key>")?;
                let key = r.until("</arg_key>")?.trim();
                r.space();
                r.expect("<arg_value>")?;
                r.memo.key = key.to_owned();
                return Ok(2);
            }
            _ => r.plain("</arg_value>", None)?,
        }
        Ok(1)
    })
}
