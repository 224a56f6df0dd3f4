//! Calls whose arguments stand in tags, as XML has them.

use serde_json::{Map, Value};

use super::grammar::Tags;
use super::reader::{DONE, Read, Reader, Stop};

/// A tag with tags in it, which is not closed yet.
#[derive(Debug)]
pub struct Level {
    pub name: String,
    pub schema: Option<Value>,
    pub fields: Map<String, Value>,
    pub items: Vec<Value>,
}

/// What follows `<function=` or the like: the name, its arguments, and `</function>`.
pub fn function(r: &mut Reader, tags: &Tags) -> Read {
    r.steps(&mut |r, step| {
        match step {
            0 => {
                let name = r.name()?;
                r.expect(tags.open.1)?;
                r.begin(name, None)?;
            }
            1 => {
                r.space();
                if r.eat("</function>")? {
                    r.close();
                    return Ok(DONE);
                }
                r.expect(tags.open.0)?;
                let key = r.until(tags.open.1)?;
                let quoted = tags.quote.map_or(Ok(false), |(open, _)| r.eat(open))?;
                r.memo.key = key.to_owned();
                return Ok(if quoted { 2 } else { 4 });
            }
            2 => {
                r.plain(tags.quote.map_or(tags.close, |(_, close)| close), None)?;
                return Ok(3);
            }
            3 => r.expect(tags.close)?,
            _ => r.plain(tags.close, None)?,
        }
        Ok(1)
    })
}

/// `<invoke name="…">` with `<parameter name="key">value</parameter>`; `mark` stands before each tag's name, and a
/// parameter may say whether it is a string.
pub fn invoke(r: &mut Reader, mark: &str) -> Read {
    r.steps(&mut |r, step| {
        let string = match step {
            0 => {
                r.expect(&format!("<{mark}invoke name=\""))?;
                let name = r.name()?;
                r.expect("\">")?;
                r.begin(name, None)?;
                return Ok(1);
            }
            1 => {
                r.space();
                if r.eat(&format!("</{mark}invoke>"))? {
                    r.close();
                    return Ok(DONE);
                }
                r.expect(&format!("<{mark}parameter name=\""))?;
                let key = r.until("\"")?;
                let string = match r.until(">")?.trim() {
                    "string=\"true\"" => 3,
                    "string=\"false\"" => 4,
                    _ => 2,
                };
                r.memo.key = key.to_owned();
                return Ok(string);
            }
            2 => None,
            _ => Some(step == 3),
        };
        r.plain(&format!("</{mark}parameter>"), string)?;
        Ok(1)
    })
}

/// Calls, each by `read`, up to `close`.
pub fn all(r: &mut Reader, close: &str, read: impl Fn(&mut Reader) -> Read) -> Read {
    r.steps(&mut |r, _| {
        r.space();
        if r.eat(close)? {
            return if r.memo.calls.is_empty() { Err(Stop::No) } else { Ok(DONE) };
        }
        read(r)?;
        Ok(0)
    })
}
