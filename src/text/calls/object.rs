//! Calls as objects of JSON: `{"name": …, "arguments": {…}}`, with the keys that models use, in any order.

use super::reader::{DONE, Read, Reader, Stop};

/// What of a call is known before it can begin.
#[derive(Debug, Default)]
pub struct Parts {
    name: Option<String>,
    id: Option<String>,
    /// Arguments that came before the name, or that wait for an id.
    arguments: Option<String>,
    /// Whether these are being read.
    in_arguments: bool,
    begun: bool,
    /// Objects within one another.
    levels: usize,
}

/// One call. `waits`: the arguments are held back, since the id may come after them and is reported first.
pub fn object(r: &mut Reader, waits: bool) -> Read {
    let read = r.steps(&mut |r, step| members(r, step, waits));
    // Cut off after its name.
    if read == Err(Stop::More) && !r.memo.parts.begun && r.finished().is_ok() {
        begin(r)?;
        let partly = if r.memo.parts.in_arguments { std::mem::take(&mut r.memo.aside) } else { String::new() };
        let arguments = r.memo.parts.arguments.take().unwrap_or(partly);
        r.arguments().push_str(&arguments);
    }
    read
}

fn begin(r: &mut Reader) -> Read {
    let parts = &mut r.memo.parts;
    parts.begun = true;
    let (name, id) = (parts.name.clone().ok_or(Stop::No)?, parts.id.take());
    r.begin(&name, id)
}

fn members(r: &mut Reader, step: u8, waits: bool) -> Read<u8> {
    if step > 0 {
        r.space();
    }
    Ok(match step {
        0 => {
            r.expect("{")?;
            r.memo.parts = Parts { levels: 1, ..Parts::default() };
            1
        }
        1 => {
            if r.peek()? != '"' {
                return Err(Stop::No);
            }
            r.memo.key = r.aside()?;
            2
        }
        2 => {
            r.expect(":")?;
            3
        }
        3 => match r.memo.key.trim_matches('"') {
            "function" if r.peek()? == '{' => {
                r.next()?;
                r.memo.parts.levels += 1;
                1
            }
            "name" | "tool_name" | "function" => {
                r.memo.parts.name = Some(name(r)?);
                8
            }
            "id" | "tool_call_id" => 4,
            "arguments" | "parameters" if waits || r.memo.parts.name.is_none() => {
                r.memo.parts.in_arguments = true;
                6
            }
            "arguments" | "parameters" => {
                begin(r)?;
                5
            }
            "type" => 7,
            _ => return Err(Stop::No),
        },
        4 => {
            let id = r.aside()?;
            r.memo.parts.id = Some(id.trim_matches('"').to_owned());
            8
        }
        5 => {
            r.json_arguments()?;
            8
        }
        6 => {
            let value = r.aside()?;
            let value =
                if value.starts_with('"') { serde_json::from_str(&value).map_err(|_| Stop::No)? } else { value };
            (r.memo.parts.arguments, r.memo.parts.in_arguments) = (Some(value), false);
            8
        }
        7 => {
            r.aside()?;
            8
        }
        _ => match r.next()? {
            ',' => 1,
            '}' => {
                r.memo.parts.levels -= 1;
                if r.memo.parts.levels > 0 {
                    return Ok(8);
                }
                if !r.memo.parts.begun {
                    begin(r)?;
                    let arguments = r.memo.parts.arguments.take().unwrap_or_default();
                    r.arguments().push_str(&arguments);
                }
                r.end();
                DONE
            }
            _ => return Err(Stop::No),
        },
    })
}

/// A tool's name in quotes; `No` as soon as it is none.
pub fn name(r: &mut Reader) -> Read<String> {
    let text = r.rest();
    r.expect("\"")?;
    let rest = r.rest();
    let plain = rest.find(['"', '\\']).unwrap_or(rest.len());
    if !rest[plain..].starts_with('\\') {
        let name = r.name()?.to_owned();
        r.expect("\"")?;
        return Ok(name);
    }
    // Some escape a slash, others what is not of ASCII.
    let end = rest.match_indices('"').map(|(at, _)| at).find(|at| !rest[..*at].ends_with('\\')).ok_or(Stop::More)?;
    let name: String = serde_json::from_str(&text[..end + 2]).map_err(|_| Stop::No)?;
    r.at += end + 1;
    if r.is_tool(&name) { Ok(name) } else { Err(Stop::No) }
}

/// One call, or a list of them.
pub fn objects(r: &mut Reader, waits: bool) -> Read {
    r.steps(&mut |r, step| match step {
        0 => {
            r.space();
            Ok(if r.eat("[")? { 2 } else { 1 })
        }
        1 => object(r, waits).map(|()| DONE),
        2 => {
            r.space();
            object(r, waits).map(|()| 3)
        }
        _ => list_goes_on(r, 2),
    })
}

/// Behind an item of a list: the step of the next one, or the end.
pub fn list_goes_on(r: &mut Reader, next: u8) -> Read<u8> {
    r.space();
    match r.next()? {
        ',' => Ok(next),
        ']' => Ok(DONE),
        _ => Err(Stop::No),
    }
}
