//! Values with brackets, as JSON, Python and Gemma write them, to JSON: step by step, so that each character is read
//! once.

use serde_json::Value;

use super::reader::{DONE, Read, Reader, Stop, looked};

/// How a language writes values.
pub struct Spelling {
    /// JSON, copied unchanged.
    pub json: bool,
    /// Whether round brackets are those of a list, too.
    pub tuples: bool,
    /// What strings begin with.
    pub quotes: &'static str,
    pub string: fn(&mut Reader, &mut String) -> Read,
    pub key: fn(&mut Reader, &mut String) -> Read,
}

pub static JSON: Spelling = Spelling {
    json: true,
    tuples: false,
    quotes: "\"",
    string: |r, out| r.json_string(false, out),
    key: |r, out| r.json_string(false, out),
};

/// As others read it: control characters have to be escaped.
pub static STRICT: Spelling =
    Spelling { string: |r, out| r.json_string(true, out), key: |r, out| r.json_string(true, out), ..JSON };

// The steps of a value; 0: it begins.
/// An array or object has begun.
const FIRST: u8 = 1;
/// Behind a comma.
const NEXT: u8 = 2;
const KEY: u8 = 3;
const COLON: u8 = 4;
/// A value has been.
const AFTER: u8 = 5;

impl Reader<'_> {
    /// A value, written to `out` as it comes. `close`: ends it, too, wherever it stands outside of strings, and is
    /// taken.
    pub fn value(&mut self, spelling: &Spelling, close: Option<&str>, out: &mut String) -> Read {
        self.steps(&mut |r, step| {
            let before = r.at;
            r.space();
            if spelling.json {
                out.push_str(&r.text[before..r.at]);
            }
            if let Some(close) = close
                && r.eat(close)?
            {
                return Ok(DONE);
            }
            let c = r.peek()?;
            let open = r.memo.open.last().copied();
            let inner = if open == Some('}') { KEY } else { 0 };
            match step {
                FIRST | NEXT | AFTER if open == Some(c) => {
                    r.next()?;
                    r.memo.open.pop();
                    out.push(if c == '}' { '}' } else { ']' });
                }
                FIRST => return Ok(inner),
                NEXT => {
                    out.push_str(", ");
                    return Ok(inner);
                }
                KEY => {
                    (spelling.key)(r, out)?;
                    return Ok(COLON);
                }
                COLON => {
                    r.expect(":")?;
                    out.push_str(if spelling.json { ":" } else { ": " });
                    return Ok(0);
                }
                AFTER => {
                    r.expect(",")?;
                    if !spelling.json {
                        return Ok(NEXT);
                    }
                    out.push(',');
                    return Ok(inner);
                }
                _ if matches!(c, '{' | '[') || c == '(' && spelling.tuples => {
                    r.next()?;
                    out.push(if c == '{' { '{' } else { '[' });
                    r.memo.open.push(match c {
                        '{' => '}',
                        '[' => ']',
                        _ => ')',
                    });
                    return Ok(FIRST);
                }
                _ if spelling.quotes.contains(c) => (spelling.string)(r, out)?,
                _ => r.word(spelling.json, out)?,
            }
            Ok(if r.memo.open.is_empty() { DONE } else { AFTER })
        })
    }

    /// A number, or one of the names that stand for true, false and nothing: whole, as its end shows only afterwards.
    pub fn word(&mut self, json: bool, out: &mut String) -> Read {
        let ends = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.') || c == '_' && !json);
        let end = match self.find("", &|rest| rest.find(ends)) {
            None if json && self.done => self.rest().len(),
            found => found.ok_or(Stop::More)?,
        };
        let word = &self.rest()[..end];
        let plain = if json { String::new() } else { word.replace('_', "") };
        let word = match plain.as_str() {
            "" => word,
            "True" => "true",
            "False" => "false",
            "None" => "null",
            plain => plain,
        };
        if !is_natural(word) {
            serde_json::from_str::<Value>(word).map_err(|_| Stop::No)?;
        }
        out.push_str(word);
        self.at += end;
        Ok(())
    }

    /// A string of JSON, written to `out` as it comes.
    pub fn json_string(&mut self, strict: bool, out: &mut String) -> Read {
        self.steps(&mut |r, step| {
            if step == 0 {
                r.expect("\"")?;
                out.push('"');
                return Ok(1);
            }
            loop {
                r.keep();
                match r.peek()? {
                    '"' => {
                        out.push(r.next()?);
                        return Ok(DONE);
                    }
                    '\\' => r.json_escape(strict, out)?,
                    c if c < ' ' && strict => return Err(Stop::No),
                    // A line's end within a string: models forget to escape it.
                    c if c < ' ' => {
                        escape_into(out, c);
                        r.at += 1;
                    }
                    _ => {
                        let rest = r.rest();
                        let plain = rest.find(|c: char| c < ' ' || matches!(c, '"' | '\\')).unwrap_or(rest.len());
                        looked(plain);
                        out.push_str(&rest[..plain]);
                        r.at += plain;
                    }
                }
            }
        })
    }

    /// An escape of JSON. Others, which models write all the same, are mended unless it is to be strict: JavaScript's
    /// quote, a backslash that stands for itself, half a pair of surrogates.
    fn json_escape(&mut self, strict: bool, out: &mut String) -> Read {
        let escape = self.rest();
        let kind = escape[1..].chars().next().ok_or(Stop::More)?;
        if kind == 'u' {
            return self.json_unicode(strict, out);
        }
        if "\"\\/bfnrt".contains(kind) {
            out.push_str(&escape[..2]);
            self.at += 2;
        } else if strict {
            return Err(Stop::No);
        } else if kind == '\'' {
            out.push('\'');
            self.at += 2;
        } else {
            out.push_str("\\\\");
            self.at += 1;
        }
        Ok(())
    }

    fn json_unicode(&mut self, strict: bool, out: &mut String) -> Read {
        let escape = self.rest();
        // The code behind `\u`; `More` where its digits have not come yet.
        let code = |escape: &str| {
            let digits = escape.bytes().skip(2).take(4).take_while(u8::is_ascii_hexdigit).count();
            match digits {
                4 => Ok(u16::from_str_radix(&escape[2..6], 16).ok()),
                _ if 2 + digits >= escape.len() => Err(Stop::More),
                _ => Ok(None),
            }
        };
        let (written, taken) = match code(escape)? {
            None if strict => return Err(Stop::No),
            None => ("\\\\", 1),
            Some(_) if strict => (&escape[..6], 6),
            Some(0xD800..=0xDBFF) => {
                let low = &escape[6..];
                if low.len() < 2 && "\\u".starts_with(low) {
                    return Err(Stop::More);
                }
                let low = if low.starts_with("\\u") { code(low)? } else { None };
                if low.is_some_and(|low| (0xDC00..=0xDFFF).contains(&low)) {
                    (&escape[..12], 12)
                } else {
                    ("\\ufffd", 6)
                }
            }
            Some(0xDC00..=0xDFFF) => ("\\ufffd", 6),
            Some(_) => (&escape[..6], 6),
        };
        out.push_str(written);
        self.at += taken;
        Ok(())
    }

    /// A string in one of these quotes, written as one of JSON as it comes. `character`: the next one, none where what
    /// stands for it means nothing.
    pub fn quoted(
        &mut self,
        quotes: &[&str],
        character: fn(&mut Self) -> Read<Option<char>>,
        out: &mut String,
    ) -> Read {
        self.steps(&mut |r, step| {
            if step == 0 {
                let quote = r.eat_any(quotes)?.ok_or(Stop::No)?;
                out.push('"');
                return Ok(1 + quote as u8);
            }
            r.characters(Some(quotes[usize::from(step) - 1]), character, out)?;
            Ok(DONE)
        })
    }

    /// The rest of a string, up to and with `close`, or up to the end of the text; in a step, whose place it keeps.
    pub fn characters(
        &mut self,
        close: Option<&str>,
        character: fn(&mut Self) -> Read<Option<char>>,
        out: &mut String,
    ) -> Read {
        loop {
            self.keep();
            if close.map_or(Ok(self.done && self.rest().is_empty()), |close| self.eat(close))? {
                out.push('"');
                return Ok(());
            }
            if let Some(c) = character(self)? {
                escape_into(out, c);
            }
        }
    }
}

/// Whether this is a number of JSON that has digits only: most are.
fn is_natural(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit()) && (word.len() == 1 || !word.is_empty() && !word.starts_with('0'))
}

/// A character of a JSON string.
fn escape_into(out: &mut String, c: char) {
    if c >= ' ' && !matches!(c, '"' | '\\') {
        return out.push(c);
    }
    let quoted = Value::from(c.to_string()).to_string();
    out.push_str(&quoted[1..quoted.len() - 1]);
}
