//! `<tool_call>`, in which four families write differently: JSON (Hermes, Qwen 2.5 and 3, Granite 4, Reka), a list of JSON (SmolLM2, Granite 3),
//! `<function=name>` with tags (Qwen3-Coder, Qwen 3.5, Nemotron 3, StepFun), and a bare name with `<arg_key>` and `<arg_value>` (GLM).

use super::super::reader::{Read, Reader};
use super::super::{object, tags};
use super::Format;

const CLOSE: &str = "</tool_call>";

pub static FORMAT: Format = Format {
    shown_by: &["<tool_call>"],
    opens: &["<tool_call>", "<function="],
    marks: &["<tool_call>", CLOSE, "<function=", "</function>", "<parameter=", "</parameter>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
    // Qwen 3.5.
    ends_thoughts: Some("<function="),
    read: |r, which, _| {
        // The tag around may be forgotten.
        if which == 1 {
            tags::function(r)?;
            r.space();
            return r.eat(CLOSE).map(drop);
        }
        r.space();
        match r.peek()? {
            '{' | '[' => objects(r),
            '<' => tags::all(r, CLOSE, |r| {
                r.expect("<function=")?;
                tags::function(r)
            }),
            _ => glm(r),
        }
    },
    ..Format::PLAIN
};

/// Calls up to the closing tag.
fn objects(r: &mut Reader) -> Read {
    loop {
        object::objects(r, false)?;
        r.space();
        if r.eat(CLOSE)? {
            return Ok(());
        }
    }
}

fn glm(r: &mut Reader) -> Read {
    let name = r.name()?.to_owned();
    r.begin(&name, None)?;
    loop {
        r.space();
        if r.eat(CLOSE)? {
            break;
        }
        r.expect("<arg_key>")?;
        let key = r.until("</arg_key>")?.trim().to_owned();
        r.space();
        r.expect("<arg_value>")?;
        r.plain(&key, "</arg_value>", None)?;
    }
    r.close_arguments();
    r.end();
    Ok(())
}
