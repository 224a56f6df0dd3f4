//! Calls as Python writes them: `[f(a=1), g(b="x")]`. Their values become JSON.

use super::grammar::schema::Kinds;
use super::object::list_goes_on;
use super::reader::{DONE, Memo, Read, Reader, Stop};
use super::typed::typed_literal;
use super::value::Spelling;

static PYTHON: Spelling = Spelling { json: false, tuples: true, quotes: "\"'", string, key: string };

/// A list of calls, in brackets.
pub fn list(r: &mut Reader) -> Read {
    r.steps(&mut |r, step| {
        match step {
            0 => r.expect("[")?,
            1 => {
                r.space();
                call(r)?;
                return Ok(2);
            }
            _ => return list_goes_on(r, 1),
        }
        Ok(1)
    })
}

/// `name(argument=value, …)`.
fn call(r: &mut Reader) -> Read {
    r.steps(&mut |r, step| {
        if step == 0 {
            let name = r.name()?;
            r.expect("(")?;
            r.begin(name, None)?;
            return Ok(1);
        }
        arguments(r)?;
        Ok(DONE)
    })
}

/// What stands in the parentheses, the closing one included.
pub fn arguments(r: &mut Reader) -> Read {
    r.steps(&mut |r, step| {
        match step {
            0 => {
                r.space();
                if !r.eat(")")? {
                    let name = r.until_any(|c| !(c.is_alphanumeric() || "_-.:/$".contains(c)))?;
                    if name.is_empty() {
                        return Err(Stop::No);
                    }
                    r.space();
                    r.expect("=")?;
                    r.argument(name);
                    r.memo.key = name.to_owned();
                    return Ok(3);
                }
            }
            1 => {
                r.write(|r, out| r.value(&PYTHON, None, out))?;
                return Ok(2);
            }
            // A text is to be something else, or something else a text, as long as the schema says so.
            3 => {
                r.space();
                let is_text = matches!(r.peek()?, '"' | '\'');
                let kinds = wanted(r);
                return Ok(if kinds.is_some_and(|kinds| if is_text { !kinds.string } else { !kinds.other() }) {
                    4
                } else {
                    1
                });
            }
            4 => {
                let start = r.at;
                let json = r.aside_as(&PYTHON)?;
                let written = match wanted(r) {
                    Some(kinds) => typed_literal(json, &r.text[start..r.at], kinds),
                    None => json,
                };
                r.arguments().push_str(&written);
                return Ok(2);
            }
            _ => {
                r.space();
                if r.eat(",")? {
                    return Ok(0);
                }
                r.expect(")")?;
            }
        }
        r.close();
        Ok(DONE)
    })
}

/// What the argument at hand may be, where its schema says so.
fn wanted(r: &Reader) -> Option<Kinds> {
    r.kinds(r.schema(&r.memo.key)).known()
}

/// A value of Python's, whole, as JSON.
pub fn literal(text: &str) -> Option<String> {
    // The end of a word shows in what follows it.
    let text = format!("{text} ");
    let (mut memo, mut out) = (Memo::default(), String::new());
    let mut r = Reader::new(&text, true, &[], &mut memo);
    r.value(&PYTHON, None, &mut out).ok()?;
    r.space();
    r.rest().is_empty().then_some(out)
}

/// A string in either quotes, or in three of them.
fn string(r: &mut Reader, out: &mut String) -> Read {
    let character = |r: &mut Reader| match r.next()? {
        '\\' => escaped(r),
        c => Ok(Some(c)),
    };
    r.quoted(&["\"\"\"", "'''", "\"", "'"], character, out)
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
