//! Kimi K2: `<|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`, in a section that
//! may be missing.

use serde_json::json;

use super::super::grammar::writer::{literal, optional, sequence, space};
use super::super::reader::{DONE, Read, Reader};
use super::super::tags;
use super::Format;

const BEGIN: &str = "<|tool_calls_section_begin|>";
const END: &str = "<|tool_calls_section_end|>";
const ONE: &str = "<|tool_call_begin|>";
const ARGUMENTS: &str = "<|tool_call_argument_begin|>";
const ONE_END: &str = "<|tool_call_end|>";

pub static FORMAT: Format = Format {
    name: |_| "kimi",
    shown_by: &[ONE],
    opens: &[BEGIN, ONE],
    marks: &[BEGIN, END, ONE, ARGUMENTS, ONE_END],
    read: |r, which, _| {
        if which == 1 {
            return call(r);
        }
        tags::all(r, END, |r| {
            r.expect(ONE)?;
            call(r)
        })
    },
    written: |_| &[0, 1],
    write: |w| {
        let call = w.each(|tool| {
            let id = sequence([literal(&format!("functions.{}:", tool.name)), json!({ "regex": "[0-9]{1,4}" })]);
            Ok(sequence([id, w.text(ARGUMENTS), w.json(tool)?]))
        })?;
        let one = sequence([space(), w.text(ONE), call.clone(), w.text(ONE_END)]);
        let section = sequence([w.several(one, ""), space(), w.text(END)]);
        Ok(w.calls([section, sequence([call, optional(w.text(ONE_END))])], true))
    },
    ..Format::PLAIN
};

fn call(r: &mut Reader) -> Read {
    r.steps(&mut |r, step| {
        Ok(match step {
            0 => {
                let id = r.until(ARGUMENTS)?.trim();
                let name = id.strip_prefix("functions.").unwrap_or(id);
                let name =
                    name.rsplit_once(':').filter(|_| !r.is_tool(name) || r.any_tool).map_or(name, |(name, _)| name);
                r.begin(name, Some(id.to_owned()))?;
                1
            }
            1 => {
                r.json_arguments()?;
                r.end();
                2
            }
            _ => {
                r.space();
                r.eat(ONE_END)?;
                DONE
            }
        })
    })
}
