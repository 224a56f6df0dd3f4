//! Calls as objects of JSON: `{"name": …, "arguments": {…}}`, with the keys that models use, in any order.

use super::reader::{Read, Reader, Stop};

/// What of a call is known before it can begin.
#[derive(Default)]
struct Parts {
    name: Option<String>,
    id: Option<String>,
    /// Arguments that came before the name, or that wait for an id.
    arguments: Option<String>,
    begun: bool,
}

/// One call. `waits`: the id may come last, and whoever is told of the call needs it.
pub fn object(r: &mut Reader, waits: bool) -> Read {
    let mut parts = Parts::default();
    match members(r, &mut parts, waits) {
        // Cut off after its name.
        Err(Stop::More) if !parts.begun && r.finished().is_ok() => {
            r.begin(parts.name.as_deref().ok_or(Stop::No)?, parts.id)?;
            return Err(Stop::More);
        }
        read => read?,
    }
    if !parts.begun {
        r.begin(parts.name.as_deref().ok_or(Stop::No)?, parts.id)?;
        r.arguments().push_str(parts.arguments.as_deref().unwrap_or_default());
    }
    r.end();
    Ok(())
}

fn members(r: &mut Reader, parts: &mut Parts, waits: bool) -> Read {
    r.expect("{")?;
    loop {
        r.space();
        let mut key = String::new();
        if r.peek()? != '"' {
            return Err(Stop::No);
        }
        r.json(&mut key)?;
        r.space();
        r.expect(":")?;
        r.space();
        match key.trim_matches('"') {
            "function" if r.peek()? == '{' => members(r, parts, waits)?,
            "name" | "tool_name" | "function" => parts.name = Some(name(r)?),
            "id" | "tool_call_id" => {
                let mut id = String::new();
                r.json(&mut id)?;
                parts.id = Some(id.trim_matches('"').to_owned());
            }
            "arguments" | "parameters" => match &parts.name {
                Some(name) if !waits => {
                    r.begin(name, parts.id.take())?;
                    parts.begun = true;
                    r.json_arguments()?;
                }
                _ => {
                    let mut value = String::new();
                    let string = r.peek()? == '"';
                    r.json(&mut value)?;
                    parts.arguments = Some(if string { serde_json::from_str(&value).map_err(|_| Stop::No)? } else { value });
                }
            },
            "type" => r.json(&mut String::new())?,
            _ => return Err(Stop::No),
        }
        r.space();
        match r.next()? {
            ',' => (),
            '}' => return Ok(()),
            _ => return Err(Stop::No),
        }
    }
}

/// A tool's name in quotes; `No` as soon as it is none.
fn name(r: &mut Reader) -> Read<String> {
    r.expect("\"")?;
    let name = r.name()?.to_owned();
    r.expect("\"")?;
    Ok(name)
}

/// One call, or a list of them.
pub fn objects(r: &mut Reader, waits: bool) -> Read {
    r.space();
    if !r.eat("[")? {
        return object(r, waits);
    }
    loop {
        r.space();
        object(r, waits)?;
        r.space();
        match r.next()? {
            ',' => (),
            ']' => return Ok(()),
            _ => return Err(Stop::No),
        }
    }
}
