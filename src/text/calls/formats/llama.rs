//! Llama 3 after `<|python_tag|>`: JSON, `name.call(a=1)`, or a program for the interpreter that was offered.

use super::super::reader::{DONE, Read, Reader, Stop};
use super::super::{object, python};
use super::Format;

const INTERPRETERS: [&str; 3] = ["python", "ipython", "code_interpreter"];

pub static PYTHON_TAG: Format = Format {
    name: |_| "llama3",
    shown_by: &["<|python_tag|>"],
    opens: &["<|python_tag|>"],
    marks: &["<|python_tag|>"],
    read: |r, _, _| {
        r.steps(&mut |r, step| {
            let start = r.at;
            match step {
                0 => {
                    r.space();
                    return Ok(if matches!(r.peek()?, '{' | '[') { 1 } else { 4 });
                }
                1 => object::objects(r, false)?,
                // Several, as in a program.
                2 => {
                    r.space();
                    return Ok(if r.eat(";")? { 3 } else { DONE });
                }
                3 => {
                    r.space();
                    object::object(r, false)?;
                }
                4 => match call(r) {
                    Err(Stop::No) if r.memo.calls.is_empty() => {
                        let tool = INTERPRETERS.iter().find(|name| r.is_tool(name)).ok_or(Stop::No)?;
                        r.at = start;
                        r.begin(tool, None)?;
                        r.argument("code");
                        r.arguments().push('"');
                        return Ok(5);
                    }
                    other => return other.map(|()| DONE),
                },
                _ => {
                    r.write(|r, out| r.characters(None, |r| r.next().map(Some), out))?;
                    r.close();
                    return Ok(DONE);
                }
            }
            Ok(2)
        })
    },
    // Calls of tools that are not built in have no mark.
    written: |_| &[],
    ..Format::PLAIN
};

/// `name.call(a=1)`, also without `.call`.
fn call(r: &mut Reader) -> Read {
    r.steps(&mut |r, step| {
        if step == 0 {
            let name = r.name()?;
            r.eat(".call")?;
            r.expect("(")?;
            r.begin(name.strip_suffix(".call").unwrap_or(name), None)?;
            return Ok(1);
        }
        python::arguments(r)?;
        Ok(DONE)
    })
}
