//! Reads what a model writes of a call, as far as it has come: each step says that it is there, that more must come, or that it is something else.

use serde_json::Value;

use super::grammar::schema::{Kinds, kinds};

/// Why reading ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// What is there fits; the rest has not come.
    More,
    /// It is no call.
    No,
}

pub type Read<T = ()> = std::result::Result<T, Stop>;

/// A tool that the model was offered.
#[derive(Debug, Clone)]
pub struct Tool {
    pub name: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
    /// Whether its arguments have to satisfy it.
    pub strict: bool,
}

/// A call as far as it has been read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    /// The model's own, where it gives one.
    pub id: Option<String>,
    /// JSON: only ever grows.
    pub arguments: String,
    /// Where it ends in the text; `None` while it is being written.
    pub end: Option<usize>,
}

/// A place in a text that may go on.
pub struct Reader<'a> {
    text: &'a str,
    pub at: usize,
    /// Whether nothing more will come.
    done: bool,
    tools: &'a [Tool],
    pub calls: Vec<Call>,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str, done: bool, tools: &'a [Tool]) -> Self {
        Self { text, at: 0, done, tools, calls: Vec::new() }
    }

    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The next character, which stays.
    pub fn peek(&self) -> Read<char> {
        self.rest().chars().next().ok_or(Stop::More)
    }

    pub fn next(&mut self) -> Read<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Ok(c)
    }

    pub fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Exactly this.
    pub fn expect(&mut self, text: &str) -> Read {
        if self.eat(text)? { Ok(()) } else { Err(Stop::No) }
    }

    /// This, if it is there.
    pub fn eat(&mut self, text: &str) -> Read<bool> {
        if self.rest().starts_with(text) {
            self.at += text.len();
            return Ok(true);
        }
        if !self.done && text.starts_with(self.rest()) { Err(Stop::More) } else { Ok(false) }
    }

    /// The first of these that is there, and which. Where one is the beginning of another it must come later.
    pub fn eat_any(&mut self, texts: &[&str]) -> Read<Option<usize>> {
        for (i, text) in texts.iter().enumerate() {
            if self.eat(text)? {
                return Ok(Some(i));
            }
        }
        Ok(None)
    }

    /// What stands before `end`, which is taken as well.
    pub fn until(&mut self, end: &str) -> Read<&'a str> {
        let found = self.rest().find(end).ok_or(Stop::More)?;
        let text = &self.rest()[..found];
        self.at += found + end.len();
        Ok(text)
    }

    /// What stands before a character of a kind, which stays.
    pub fn until_any(&mut self, kind: impl Fn(char) -> bool) -> Read<&'a str> {
        let found = self.rest().find(kind).ok_or(Stop::More)?;
        let text = &self.rest()[..found];
        self.at += found;
        Ok(text)
    }

    /// Whether nothing more comes.
    pub fn finished(&self) -> Read {
        if self.done { Ok(()) } else { Err(Stop::More) }
    }

    /// Letters, digits, `_`, `-`, `.` and `:`. `No` where there are none, or where they begin no tool's name.
    pub fn name(&mut self) -> Read<&'a str> {
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let end = self.rest().find(|c| !is_name(c)).unwrap_or(self.rest().len());
        let name = &self.rest()[..end];
        if self.at + end == self.text.len() && !self.done {
            return if self.tools.iter().any(|tool| tool.name.starts_with(name)) { Err(Stop::More) } else { Err(Stop::No) };
        }
        if name.is_empty() {
            return Err(Stop::No);
        }
        self.at += end;
        Ok(name)
    }

    pub fn is_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    /// A call of this tool begins; `No` where it was not offered.
    pub fn begin(&mut self, name: &str, id: Option<String>) -> Read {
        if !self.is_tool(name) {
            return Err(Stop::No);
        }
        self.calls.push(Call { name: name.to_owned(), id, ..Call::default() });
        Ok(())
    }

    /// It is whole.
    pub fn end(&mut self) {
        let at = self.at;
        if let Some(call) = self.calls.last_mut() {
            if call.arguments.is_empty() {
                call.arguments.push_str("{}");
            }
            call.end = Some(at);
        }
    }

    /// Where the arguments go.
    pub fn arguments(&mut self) -> &mut String {
        &mut self.calls.last_mut().expect("a call has begun").arguments
    }

    /// The schema of an argument of the call at hand.
    pub fn schema(&self, argument: &str) -> Option<&'a Value> {
        let name = &self.calls.last()?.name;
        let tool = self.tools.iter().find(|tool| tool.name == *name)?;
        tool.parameters.get("properties")?.get(argument)
    }

    /// What an argument may be.
    pub fn kinds(&self, schema: Option<&Value>) -> Kinds {
        let tool = self.calls.last().and_then(|call| self.tools.iter().find(|tool| tool.name == call.name));
        schema.zip(tool).map_or(Kinds::default(), |(schema, tool)| kinds(schema, &tool.parameters))
    }

    /// A string of JSON with its quotes, written to `out` as it comes.
    fn string(&mut self, out: &mut String) -> Read {
        out.push(self.next()?);
        loop {
            match self.peek()? {
                '"' => {
                    out.push(self.next()?);
                    return Ok(());
                }
                '\\' => {
                    let escape = self.rest();
                    let len = if escape.as_bytes().get(1) == Some(&b'u') { 6 } else { 2 };
                    let escape = escape.get(..len).ok_or(if escape.len() < len { Stop::More } else { Stop::No })?;
                    if serde_json::from_str::<String>(&format!("\"{escape}\"")).is_err() && !escape.starts_with("\\u") {
                        return Err(Stop::No);
                    }
                    out.push_str(escape);
                    self.at += len;
                }
                // A line's end within a string: models forget to escape it.
                c if c < ' ' => {
                    escape_into(out, c);
                    self.at += 1;
                }
                c => {
                    out.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
    }

    /// A number, `true`, `false` or `null`: whole, as its end shows only afterwards.
    fn word(&mut self, out: &mut String) -> Read {
        let end = self.rest().find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))).unwrap_or(self.rest().len());
        if self.at + end == self.text.len() && !self.done {
            return Err(Stop::More);
        }
        let word = &self.rest()[..end];
        match serde_json::from_str::<Value>(word) {
            Ok(_) => {
                out.push_str(word);
                self.at += end;
                Ok(())
            }
            Err(_) => Err(Stop::No),
        }
    }

    /// A value of JSON, written to `out` as it comes, as it stands.
    pub fn json(&mut self, out: &mut String) -> Read {
        let mut open = Vec::new();
        loop {
            // Before a value.
            self.copy_space(out);
            match self.peek()? {
                '"' => self.string(out)?,
                c @ ('{' | '[') => {
                    out.push(self.next()?);
                    self.copy_space(out);
                    let close = if c == '{' { '}' } else { ']' };
                    if self.peek()? != close {
                        open.push(close);
                        if c == '{' {
                            self.key(out)?;
                        }
                        continue;
                    }
                    out.push(self.next()?);
                }
                _ => self.word(out)?,
            }
            // After one.
            loop {
                let Some(&close) = open.last() else { return Ok(()) };
                self.copy_space(out);
                match self.peek()? {
                    ',' => {
                        out.push(self.next()?);
                        if close == '}' {
                            self.copy_space(out);
                            self.key(out)?;
                        }
                        break;
                    }
                    c if c == close => {
                        out.push(self.next()?);
                        open.pop();
                    }
                    _ => return Err(Stop::No),
                }
            }
        }
    }

    fn key(&mut self, out: &mut String) -> Read {
        if self.peek()? != '"' {
            return Err(Stop::No);
        }
        self.string(out)?;
        self.copy_space(out);
        if self.peek()? != ':' {
            return Err(Stop::No);
        }
        out.push(self.next()?);
        Ok(())
    }

    fn copy_space(&mut self, out: &mut String) {
        let before = self.at;
        self.space();
        out.push_str(&self.text[before..self.at]);
    }

    /// The arguments of the call at hand: an object of JSON, or a string that holds one.
    pub fn json_arguments(&mut self) -> Read {
        self.space();
        match self.peek()? {
            '{' => self.write(Self::json),
            '"' => {
                let mut text = String::new();
                self.string(&mut text)?;
                let text: String = serde_json::from_str(&text).map_err(|_| Stop::No)?;
                self.arguments().push_str(&text);
                Ok(())
            }
            _ => {
                // None at all, by some.
                let mut word = String::new();
                self.word(&mut word)?;
                if word == "null" { Ok(()) } else { Err(Stop::No) }
            }
        }
    }

    /// Reads with something that writes to the arguments, as far as it comes.
    pub fn write(&mut self, read: impl FnOnce(&mut Self, &mut String) -> Read) -> Read {
        let mut out = std::mem::take(self.arguments());
        let read = read(self, &mut out);
        *self.arguments() = out;
        read
    }

    /// `"name": ` of an argument, after those before it.
    pub fn argument(&mut self, name: &str) {
        let key = Value::from(name).to_string();
        let out = self.arguments();
        out.push_str(if out.is_empty() { "{" } else { ", " });
        out.push_str(&key);
        out.push_str(": ");
    }

    /// The last of them has been.
    pub fn close_arguments(&mut self) {
        let out = self.arguments();
        out.push_str(if out.is_empty() { "{}" } else { "}" });
    }

    /// An argument that stands as plain text before `close`, which is taken too: a string where the schema says so, else JSON, else a string all
    /// the same. A line's end after the opening tag belongs to the tags, and then one before the closing one, too. `string`: what the model says itself.
    pub fn plain(&mut self, name: &str, close: &str, string: Option<bool>) -> Read {
        let kinds = self.kinds(self.schema(name));
        let text = kinds.string && string != Some(false) || string == Some(true);
        // Whether it is null shows when it is whole.
        let streams = text && !kinds.null;
        let rest = self.rest();
        let lead = match rest.as_bytes().first() {
            None if !self.done => return Err(Stop::More),
            Some(b'\n') => 1,
            _ => 0,
        };
        match rest.find(close) {
            Some(end) => {
                let value = &rest[lead.min(end)..end];
                let value = if lead == 1 { value.strip_suffix('\n').unwrap_or(value) } else { value };
                self.at += end + close.len();
                self.argument(name);
                let json = serde_json::from_str::<Value>(value.trim()).ok().filter(|json| if text { kinds.null && json.is_null() } else { true });
                let written = match json {
                    Some(_) => value.trim().to_owned(),
                    None => Value::from(value).to_string(),
                };
                self.arguments().push_str(&written);
                Ok(())
            }
            None => {
                if streams {
                    // What may belong to the closing tag waits.
                    let value = &rest[lead..];
                    let mut ready = value.len();
                    if !self.done {
                        let open = (1..close.len()).rev().find(|n| close.is_char_boundary(*n) && value.ends_with(&close[..*n])).unwrap_or(0);
                        ready -= open;
                        ready -= usize::from(lead == 1 && value[..ready].ends_with('\n'));
                    }
                    self.argument(name);
                    let written = Value::from(&value[..ready]).to_string();
                    self.arguments().push_str(&written[..written.len() - 1]);
                }
                Err(Stop::More)
            }
        }
    }
}

/// A character of a JSON string.
pub fn escape_into(out: &mut String, c: char) {
    let quoted = Value::from(c.to_string()).to_string();
    out.push_str(&quoted[1..quoted.len() - 1]);
}
