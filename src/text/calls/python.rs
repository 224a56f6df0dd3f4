//! Calls as Python writes them: `[f(a=1), g(b="x")]`. Their values become JSON.

use serde_json::Value;

use super::reader::{Read, Reader, Stop};

/// A list of calls, in brackets.
pub fn list(r: &mut Reader) -> Read {
    r.expect("[")?;
    loop {
        r.space();
        call(r)?;
        r.space();
        match r.next()? {
            ',' => (),
            ']' => return Ok(()),
            _ => return Err(Stop::No),
        }
    }
}

/// `name(argument=value, …)`.
pub fn call(r: &mut Reader) -> Read {
    let name = r.name()?.to_owned();
    r.expect("(")?;
    r.begin(&name, None)?;
    arguments(r)
}

/// What stands in the parentheses, the closing one included.
pub fn arguments(r: &mut Reader) -> Read {
    r.space();
    while !r.eat(")")? {
        let end = r.rest().find(|c: char| !(c.is_alphanumeric() || c == '_')).ok_or(Stop::More)?;
        let name = r.rest()[..end].to_owned();
        if name.is_empty() {
            return Err(Stop::No);
        }
        r.at += end;
        r.space();
        r.expect("=")?;
        r.argument(&name);
        r.write(value)?;
        r.space();
        if !r.eat(",")? {
            r.expect(")")?;
            break;
        }
        r.space();
    }
    r.close_arguments();
    r.end();
    Ok(())
}

/// A value, as JSON.
fn value(r: &mut Reader, out: &mut String) -> Read {
    r.space();
    match r.peek()? {
        '"' | '\'' => string(r, out),
        c @ ('[' | '(') => items(r, out, if c == '[' { ']' } else { ')' }, value),
        '{' => {
            r.next()?;
            out.push('{');
            let mut first = true;
            loop {
                r.space();
                if r.peek()? == '}' {
                    r.next()?;
                    out.push('}');
                    return Ok(());
                }
                if !std::mem::take(&mut first) {
                    out.push_str(", ");
                }
                match r.peek()? {
                    '"' | '\'' => string(r, out)?,
                    _ => return Err(Stop::No),
                }
                r.space();
                r.expect(":")?;
                out.push_str(": ");
                value(r, out)?;
                r.space();
                if r.peek()? != '}' {
                    r.expect(",")?;
                }
            }
        }
        _ => word(r, out),
    }
}

/// Values in brackets, separated by commas; the opening one is next.
pub fn items(r: &mut Reader, out: &mut String, close: char, value: fn(&mut Reader, &mut String) -> Read) -> Read {
    r.next()?;
    out.push('[');
    let mut first = true;
    loop {
        r.space();
        if r.peek()? == close {
            r.next()?;
            out.push(']');
            return Ok(());
        }
        if !std::mem::take(&mut first) {
            out.push_str(", ");
        }
        value(r, out)?;
        r.space();
        if r.peek()? != close {
            r.expect(",")?;
        }
    }
}

/// A number, or one of the names that stand for true, false and nothing.
pub fn word(r: &mut Reader, out: &mut String) -> Read {
    let end = r.rest().find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_'))).ok_or(Stop::More)?;
    let word = r.rest()[..end].replace('_', "");
    let json = match word.as_str() {
        "True" => "true",
        "False" => "false",
        "None" => "null",
        word => word,
    };
    serde_json::from_str::<Value>(json).map_err(|_| Stop::No)?;
    out.push_str(json);
    r.at += end;
    Ok(())
}

/// A string in either quotes, or in three of them.
fn string(r: &mut Reader, out: &mut String) -> Read {
    let quote = r.peek()?;
    let three = quote.to_string().repeat(3);
    let close = if r.eat(&three)? { three } else { r.next()?.to_string() };
    r.quoted(out, Some(&close), |r| match r.next()? {
        '\\' => escaped(r),
        c => Ok(Some(c)),
    })
}

/// What stands after a backslash; nothing for a line that goes on.
fn escaped(r: &mut Reader) -> Read<Option<char>> {
    let c = r.next()?;
    Ok(Some(match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        '0' => '\0',
        '\n' => return Ok(None),
        'x' | 'u' | 'U' => {
            let digits = match c {
                'x' => 2,
                'u' => 4,
                _ => 8,
            };
            let code = r.rest().get(..digits).ok_or(Stop::More)?;
            let code = u32::from_str_radix(code, 16).map_err(|_| Stop::No)?;
            r.at += digits;
            char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        '\\' | '\'' | '"' => c,
        // Python keeps both.
        other => {
            r.at -= other.len_utf8();
            '\\'
        }
    }))
}
