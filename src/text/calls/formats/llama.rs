//! Llama 3 after `<|python_tag|>`: JSON, `name.call(a=1)`, or a program for the interpreter that was offered.

use super::super::reader::{Read, Reader, Stop};
use super::super::{object, python};
use super::Format;

const INTERPRETERS: [&str; 3] = ["python", "ipython", "code_interpreter"];

pub static PYTHON_TAG: Format = Format {
    shown_by: &["<|python_tag|>"],
    opens: &["<|python_tag|>"],
    marks: &["<|python_tag|>"],
    read: |r, _, _| {
        r.space();
        if matches!(r.peek()?, '{' | '[') {
            object::objects(r, false)?;
            // Several, as in a program.
            loop {
                r.space();
                if !r.eat(";")? {
                    return Ok(());
                }
                r.space();
                object::object(r, false)?;
            }
        }
        let start = r.at;
        match call(r) {
            Err(Stop::No) if r.calls.is_empty() => (),
            other => return other,
        }
        r.at = start;
        let tool = INTERPRETERS.iter().find(|name| r.is_tool(name)).ok_or(Stop::No)?;
        r.begin(tool, None)?;
        r.argument("code");
        r.write(|r, out| r.quoted(out, None, |r| r.next().map(Some)))?;
        r.close_arguments();
        r.end();
        Ok(())
    },
    // Calls of tools that are not built in have no mark.
    written: |_| &[],
    ..Format::PLAIN
};

/// `name.call(a=1)`, also without `.call`.
fn call(r: &mut Reader) -> Read {
    let name = r.until_any(|c| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.')))?;
    r.expect("(")?;
    r.begin(name.strip_suffix(".call").unwrap_or(name), None)?;
    python::arguments(r)
}
