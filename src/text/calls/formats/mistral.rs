//! Mistral: `[TOOL_CALLS][{"name": …, "arguments": …, "id": …}]`, and from 2506 on
//! `[TOOL_CALLS]name[CALL_ID]id[ARGS]{…}`, once for each call.

use serde_json::json;

use super::super::grammar::writer::{literal, optional, sequence, space};
use super::super::object;
use super::super::reader::DONE;
use super::Format;

pub static FORMAT: Format = Format {
    name: |_| "mistral",
    shown_by: &["[TOOL_CALLS]"],
    opens: &["[TOOL_CALLS]"],
    marks: &["[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"],
    read: |r, _, _| {
        r.steps(&mut |r, step| {
            match step {
                0 => {
                    r.space();
                    if matches!(r.peek()?, '[' | '{') {
                        return Ok(1);
                    }
                    let name = r.name()?;
                    let id = match r.eat("[CALL_ID]")? {
                        true => Some(r.until_any(|c| c == '[')?.to_owned()),
                        false => None,
                    };
                    r.expect("[ARGS]")?;
                    r.begin(name, id)?;
                    return Ok(2);
                }
                // The template wants the id back that the model gives last.
                1 => object::objects(r, true)?,
                _ => {
                    r.json_arguments()?;
                    r.end();
                }
            }
            Ok(DONE)
        })
    },
    write: |w| {
        let id = || json!({ "regex": "[a-zA-Z0-9]{9}" });
        if w.shown("[ARGS]") {
            let call = w.each(|tool| {
                let id = if w.shown("[CALL_ID]") { sequence([w.text("[CALL_ID]"), id()]) } else { literal("") };
                Ok(sequence([literal(&tool.name), id, w.text("[ARGS]"), w.json(tool)?]))
            })?;
            return Ok(w.calls([call], true));
        }
        let call = w.each(|tool| {
            let head = literal(&format!("{{\"name\": \"{}\", \"arguments\": ", tool.name));
            let id = optional(sequence([literal(", \"id\": \""), id(), literal("\"")]));
            Ok(sequence([head, w.json(tool)?, id, literal("}")]))
        })?;
        Ok(w.calls([sequence([space(), w.list(call)])], false))
    },
    ..Format::PLAIN
};
