//! Calls whose arguments stand in tags, as XML has them.

use serde_json::{Map, Value};

use super::reader::{DONE, Read, Reader, Stop};

/// A tag with tags in it, which is not closed yet.
#[derive(Debug)]
pub struct Level {
    pub name: String,
    pub schema: Option<Value>,
    pub fields: Map<String, Value>,
    pub items: Vec<Value>,
}

/// `name>` of `<function=name>`, then `<parameter=key>value</parameter>` and `</function>`.
pub fn function(r: &mut Reader) -> Read {
    r.steps(&mut |r, step| {
        match step {
            0 => {
                let name = r.name()?;
                r.expect(">")?;
                r.begin(name, None)?;
            }
            1 => {
                r.space();
                if r.eat("</function>")? {
                    r.close();
                    return Ok(DONE);
                }
                r.expect("<parameter=")?;
                r.memo.key = r.until(">")?.to_owned();
                return Ok(2);
            }
            _ => r.plain("</parameter>", None)?,
        }
        Ok(1)
    })
}

/// `<invoke name="…">` with `<parameter name="key">value</parameter>`; `mark` stands before each tag's name, and a parameter may say whether it is
/// a string.
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
