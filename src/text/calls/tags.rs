//! Calls whose arguments stand in tags, as XML has them.

use super::reader::{Read, Reader, Stop};

/// `name>` of `<function=name>`, then `<parameter=key>value</parameter>` and `</function>`.
pub fn function(r: &mut Reader) -> Read {
    let name = r.name()?.to_owned();
    r.expect(">")?;
    r.begin(&name, None)?;
    loop {
        r.space();
        if r.eat("</function>")? {
            break;
        }
        r.expect("<parameter=")?;
        let key = r.until(">")?.to_owned();
        r.plain(&key, "</parameter>", None)?;
    }
    r.close_arguments();
    r.end();
    Ok(())
}

/// `<invoke name="…">` with `<parameter name="key">value</parameter>`; `mark` stands before each tag's name, and a parameter may say whether it is
/// a string.
pub fn invoke(r: &mut Reader, mark: &str) -> Read {
    r.expect(&format!("<{mark}invoke name=\""))?;
    let name = r.name()?.to_owned();
    r.expect("\">")?;
    r.begin(&name, None)?;
    let (close, open, end) = (format!("</{mark}invoke>"), format!("<{mark}parameter name=\""), format!("</{mark}parameter>"));
    loop {
        r.space();
        if r.eat(&close)? {
            break;
        }
        r.expect(&open)?;
        let key = r.until("\"")?.to_owned();
        let string = match r.until(">")?.trim() {
            "string=\"true\"" => Some(true),
            "string=\"false\"" => Some(false),
            _ => None,
        };
        r.plain(&key, &end, string)?;
    }
    r.close_arguments();
    r.end();
    Ok(())
}

/// Calls, each by `read`, up to `close`.
pub fn all(r: &mut Reader, close: &str, read: impl Fn(&mut Reader) -> Read) -> Read {
    loop {
        r.space();
        if r.eat(close)? {
            return if r.calls.is_empty() { Err(Stop::No) } else { Ok(()) };
        }
        read(r)?;
    }
}
