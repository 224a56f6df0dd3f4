//! Calls without marks: JSON as Llama 3 and small models write it, also in a fence, and lists of Python's calls (Llama
//! 3.2 and 4, LFM2.5).

use serde_json::Value;

use super::super::grammar::writer::{literal, sequence};
use super::super::grammar::{Writer, python};
use super::super::reader::{DONE, Read, Reader, Stop};
use super::super::{object, python as read_python};
use super::{Format, Naming};
use crate::error::Result;

pub static JSON: Format = Format {
    name: of_llama,
    opens: &["{", "[{", "[\n", "```json"],
    bare: true,
    read: |r, _, _| {
        r.steps(&mut |r, step| {
            // Odd ones are in a fence.
            let fence = step % 2;
            match step {
                0 => return Ok(if r.eat("```json")? { 3 } else { 2 }),
                2 | 3 => object::objects(r, false)?,
                4 | 5 => object::object(r, false)?,
                _ => {
                    r.space();
                    if fence == 1 && r.eat("```")? {
                        return Ok(DONE);
                    }
                    // Several, after each other.
                    let separated = r.eat(";")?;
                    r.space();
                    match r.peek() {
                        Ok('{') => return Ok(4 + fence),
                        Ok('`') if fence == 1 => r.expect("```")?,
                        Ok(_) if separated => return Err(Stop::No),
                        Ok(_) => (),
                        Err(_) => r.finished()?,
                    }
                    return Ok(DONE);
                }
            }
            Ok(6 + fence)
        })
    },
    write: objects,
    ..Format::PLAIN
};

/// Templates of Llama 3 name the role of results.
fn of_llama(naming: &Naming<'_>) -> &'static str {
    if (naming.shown)("ipython") { "llama3" } else { "json" }
}

/// An object a call, as Llama 3 is told to, or as others do.
fn objects(w: &Writer<'_>) -> Result<Value> {
    let (arguments, separator) =
        if w.shown("dictionary of argument name") { ("parameters", "; ") } else { ("arguments", "\n") };
    Ok(w.bare(w.several(w.each(|tool| w.object(tool, "name", arguments))?, separator), '{'))
}

pub static LISTS: Format = Format {
    name: |_| "llama3",
    opens: &["["],
    bare: true,
    read: list,
    // What the templates of Llama 3.2 and 4 say of them.
    written: |shown| if shown("func_name1(") { &[0] } else { &[] },
    write: |w| {
        Ok(w.bare(sequence([literal("["), w.several(w.each(|tool| python::call(w, tool))?, ", "), literal("]")]), '['))
    },
    ..Format::PLAIN
};

fn list(r: &mut Reader, _: usize, _: &mut super::super::Section) -> Read {
    read_python::list(r)
}
