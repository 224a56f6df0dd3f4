//! Mistral: `[TOOL_CALLS][{"name": …, "arguments": …, "id": …}]`, and from 2506 on `[TOOL_CALLS]name[CALL_ID]id[ARGS]{…}`, once for each call.

use super::super::object;
use super::Format;

pub static FORMAT: Format = Format {
    shown_by: &["[TOOL_CALLS]"],
    opens: &["[TOOL_CALLS]"],
    marks: &["[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"],
    read: |r, _, _| {
        r.space();
        if matches!(r.peek()?, '[' | '{') {
            // The template wants the id back that the model gives last.
            return object::objects(r, true);
        }
        let name = r.name()?.to_owned();
        let id = match r.eat("[CALL_ID]")? {
            true => Some(r.until_any(|c| c == '[')?.to_owned()),
            false => None,
        };
        r.expect("[ARGS]")?;
        r.begin(&name, id)?;
        r.json_arguments()?;
        r.end();
        Ok(())
    },
    ..Format::PLAIN
};
