//! Gemma 4 and FunctionGemma: `call:name{key:value}`, keys without quotes, strings between marks of their own.

use super::super::python;
use super::super::reader::{Read, Reader, Stop, escape_into};
use super::Format;

const CLOSES: [&str; 2] = ["<tool_call|>", "<end_function_call>"];
const QUOTES: [&str; 2] = ["<|\"|>", "<escape>"];

pub static FORMAT: Format = Format {
    shown_by: &["<|tool_call>", "<start_function_call>"],
    opens: &["<|tool_call>", "<start_function_call>"],
    marks: &["<|tool_call>", "<start_function_call>", CLOSES[0], CLOSES[1], QUOTES[0], QUOTES[1]],
    read: |r, which, _| {
        r.space();
        r.expect("call:")?;
        let name = r.name()?.to_owned();
        r.space();
        if r.peek()? != '{' {
            return Err(Stop::No);
        }
        r.begin(&name, None)?;
        r.write(object)?;
        r.end();
        r.space();
        r.eat(CLOSES[which]).map(drop)
    },
    ..Format::PLAIN
};

fn object(r: &mut Reader, out: &mut String) -> Read {
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
        match r.eat_any(&QUOTES)? {
            Some(quote) => text(r, out, QUOTES[quote])?,
            None => {
                let key = r.until(":")?.trim().trim_matches('"').to_owned();
                r.at -= 1;
                out.push_str(&serde_json::Value::from(key).to_string());
            }
        }
        r.expect(":")?;
        out.push_str(": ");
        value(r, out)?;
        r.space();
        if r.peek()? != '}' {
            r.expect(",")?;
        }
    }
}

fn value(r: &mut Reader, out: &mut String) -> Read {
    r.space();
    if let Some(quote) = r.eat_any(&QUOTES)? {
        return text(r, out, QUOTES[quote]);
    }
    match r.peek()? {
        '{' => object(r, out),
        '[' => python::items(r, out, ']', value),
        '"' => r.json(out),
        _ => python::word(r, out),
    }
}

fn text(r: &mut Reader, out: &mut String, quote: &str) -> Read {
    out.push('"');
    while !r.eat(quote)? {
        let c = r.next()?;
        escape_into(out, c);
    }
    out.push('"');
    Ok(())
}
