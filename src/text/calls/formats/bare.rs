//! Calls without marks: JSON as Llama 3 and small models write it, also in a fence, and lists of Python's calls (Llama 3.2 and 4, LFM2.5).

use super::super::reader::{Read, Reader, Stop};
use super::super::{object, python};
use super::Format;

pub static JSON: Format = Format {
    opens: &["{", "[{", "[\n", "```json"],
    bare: true,
    read: |r, _, _| {
        let fenced = r.eat("```json")?;
        r.space();
        object::objects(r, false)?;
        loop {
            r.space();
            if fenced && r.eat("```")? {
                return Ok(());
            }
            // Several, after each other.
            let separated = r.eat(";")?;
            r.space();
            match r.peek() {
                Ok('{') => object::object(r, false)?,
                Ok('`') if fenced => return r.expect("```"),
                Ok(_) => return if separated { Err(Stop::No) } else { Ok(()) },
                Err(_) => return r.finished(),
            }
        }
    },
    ..Format::PLAIN
};

pub static LISTS: Format = Format { opens: &["["], bare: true, read: list, ..Format::PLAIN };

fn list(r: &mut Reader, _: usize, _: &mut super::super::Section) -> Read {
    python::list(r)
}
