//! Reads what a model writes of a call, as far as it has come: each step says that it is there, that more must come, or that it is something else.

use serde_json::Value;

use super::grammar::schema::{Kinds, is_free, kinds};

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

/// Where reading a value of JSON is.
#[derive(Debug, Clone, Copy, Default)]
enum Phase {
    /// A value comes.
    #[default]
    Value,
    /// An array or object has begun.
    First,
    Key,
    /// Within a key, within a string.
    KeyText,
    Colon,
    Text,
    /// A value has been.
    After,
}

/// A value that was being read when the text was over.
#[derive(Debug)]
struct Unfinished {
    /// Where it begins, and how much had been written before it: by these it is known again.
    start: usize,
    before: usize,
    /// Up to where it is read, and what is written of it, with what was written before.
    at: usize,
    written: String,
    /// Whether that is the last call's arguments.
    arguments: bool,
    /// Of JSON: the brackets that close what is open.
    open: Vec<char>,
    phase: Phase,
}

/// What need not be read again once there is more text. A call is read from its beginning each time, but for the value at its end: that is what is long.
#[derive(Debug, Default)]
pub struct Memo {
    value: Option<Unfinished>,
    /// What was looked for, from where, and up to where it is not.
    missing: Option<(String, usize, usize)>,
}

impl Memo {
    /// Gives what is written of the last call's arguments to the call, or takes it back.
    pub fn lend(&mut self, calls: &mut [Call]) {
        if let (Some(value), Some(call)) = (self.value.as_mut().filter(|value| value.arguments), calls.last_mut()) {
            std::mem::swap(&mut value.written, &mut call.arguments);
        }
    }
}

/// A place in a text that may go on.
pub struct Reader<'a> {
    text: &'a str,
    pub at: usize,
    /// Whether nothing more will come.
    done: bool,
    tools: &'a [Tool],
    pub calls: Vec<Call>,
    pub memo: Memo,
    /// Whether what is written goes to the last call's arguments.
    writing: bool,
}

impl<'a> Reader<'a> {
    /// `memo`: of the same text, when it was shorter.
    pub fn new(text: &'a str, done: bool, tools: &'a [Tool], memo: Memo) -> Self {
        Self { text, at: 0, done, tools, calls: Vec::new(), memo, writing: false }
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
        let found = self.find(end).ok_or(Stop::More)?;
        let text = &self.rest()[..found];
        self.at += found + end.len();
        Ok(text)
    }

    /// Where in the rest this is. What was looked through in vain is not looked through again.
    fn find(&mut self, wanted: &str) -> Option<usize> {
        let rest = self.rest();
        let missing = self.memo.missing.as_ref().filter(|(what, start, _)| what == wanted && *start == self.at);
        let from = missing.map_or(0, |(.., end)| *end).min(rest.len());
        // As much of its beginning as may be there.
        let from = (0..=from.saturating_sub(wanted.len())).rev().find(|from| rest.is_char_boundary(*from)).unwrap_or(0);
        let found = rest[from..].find(wanted).map(|at| from + at);
        if found.is_none() {
            self.memo.missing = Some((wanted.to_owned(), self.at, rest.len()));
        }
        found
    }

    /// Goes on with the value that begins here, where it was being read when the text was over.
    fn resumed(&mut self, out: &mut String) -> Option<(Vec<char>, Phase)> {
        let value = self.memo.value.take_if(|value| value.start == self.at && value.before == out.len() && value.arguments == self.writing)?;
        (*out, self.at) = (value.written, value.at);
        Some((value.open, value.phase))
    }

    /// Keeps a value for when there is more text.
    fn suspend(&mut self, start: usize, before: usize, out: &mut String, open: Vec<char>, phase: Phase) {
        if !self.done {
            let written = std::mem::take(out);
            self.memo.value = Some(Unfinished { start, before, at: self.at, written, arguments: self.writing, open, phase });
        }
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

    /// A string of JSON after its first quote, up to and with the last, written to `out` as it comes.
    fn text(&mut self, out: &mut String) -> Read {
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

    /// A string that is no JSON's, after its opening quote, up to and with `close`, or up to the end of the text; written as one of JSON as it comes.
    /// `character`: the next one, none where what stands for it means nothing.
    pub fn quoted(&mut self, out: &mut String, close: Option<&str>, character: fn(&mut Self) -> Read<Option<char>>) -> Read {
        let (start, before) = (self.at, out.len());
        if self.resumed(out).is_none() {
            out.push('"');
        }
        loop {
            let at = self.at;
            let ended = close.map_or(Ok(self.done && self.rest().is_empty()), |close| self.eat(close));
            let next = ended.and_then(|ended| if ended { Ok(None) } else { character(self).map(Some) });
            match next {
                Ok(None) => {
                    out.push('"');
                    return Ok(());
                }
                Ok(Some(c)) => c.into_iter().for_each(|c| escape_into(out, c)),
                Err(stop) => {
                    if stop == Stop::More {
                        self.at = at;
                        self.suspend(start, before, out, Vec::new(), Phase::Text);
                    }
                    return Err(stop);
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
        let (start, before) = (self.at, out.len());
        let (mut open, mut phase) = self.resumed(out).unwrap_or_default();
        let read = self.json_from(&mut open, &mut phase, out);
        if read == Err(Stop::More) {
            self.suspend(start, before, out, open, phase);
        }
        read
    }

    fn json_from(&mut self, open: &mut Vec<char>, phase: &mut Phase, out: &mut String) -> Read {
        loop {
            // A string is read as it comes; what else there is between them is short.
            if !matches!(phase, Phase::Text | Phase::KeyText) {
                self.copy_space(out);
            }
            *phase = match *phase {
                Phase::Value => match self.peek()? {
                    '"' => {
                        out.push(self.next()?);
                        Phase::Text
                    }
                    c @ ('{' | '[') => {
                        out.push(self.next()?);
                        open.push(if c == '{' { '}' } else { ']' });
                        Phase::First
                    }
                    _ => {
                        self.word(out)?;
                        Phase::After
                    }
                },
                Phase::First => match (self.peek()?, open.last().copied()) {
                    (c, Some(close)) if c == close => {
                        out.push(self.next()?);
                        open.pop();
                        Phase::After
                    }
                    (_, Some('}')) => Phase::Key,
                    _ => Phase::Value,
                },
                Phase::Key => {
                    if self.peek()? != '"' {
                        return Err(Stop::No);
                    }
                    out.push(self.next()?);
                    Phase::KeyText
                }
                Phase::KeyText => {
                    self.text(out)?;
                    Phase::Colon
                }
                Phase::Colon => {
                    if self.peek()? != ':' {
                        return Err(Stop::No);
                    }
                    out.push(self.next()?);
                    Phase::Value
                }
                Phase::Text => {
                    self.text(out)?;
                    Phase::After
                }
                Phase::After => match (open.last().copied(), self.peek()?) {
                    (Some('}'), ',') => {
                        out.push(self.next()?);
                        Phase::Key
                    }
                    (Some(_), ',') => {
                        out.push(self.next()?);
                        Phase::Value
                    }
                    (Some(close), c) if c == close => {
                        out.push(self.next()?);
                        open.pop();
                        Phase::After
                    }
                    _ => return Err(Stop::No),
                },
            };
            if matches!(phase, Phase::After) && open.is_empty() {
                return Ok(());
            }
        }
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
                self.json(&mut text)?;
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
        let outer = std::mem::replace(&mut self.writing, true);
        let read = read(self, &mut out);
        self.writing = outer;
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
        let schema = self.schema(name);
        let kinds = self.kinds(schema);
        let text = kinds.string && string != Some(false) || string == Some(true);
        // Whether it is null shows when it is whole.
        let streams = text && !kinds.null;
        let lead = match self.rest().as_bytes().first() {
            None if !self.done => return Err(Stop::More),
            Some(b'\n') => 1,
            _ => 0,
        };
        if streams {
            return self.plain_text(name, close, lead);
        }
        let json = string == Some(false) || !text && schema.is_some_and(|schema| !is_free(schema));
        let mut closed = self.find(close);
        let rest = self.rest();
        // A string within JSON may hold the tag.
        while let Some(end) = closed.filter(|end| json && is_cut_in_string(&rest[lead.min(*end)..*end])) {
            let next = rest[end + close.len()..].find(close).map(|at| end + close.len() + at);
            closed = if next.is_none() && self.done { break } else { next };
        }
        let Some(end) = closed else { return Err(Stop::More) };
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

    /// A string that stands as plain text, told as it comes. `lead`: how much before it belongs to the tags, and whether a line's end after it does.
    fn plain_text(&mut self, name: &str, close: &str, lead: usize) -> Read {
        self.argument(name);
        self.write(|r, out| {
            let (start, before) = (r.at, out.len());
            if r.resumed(out).is_none() {
                r.at += lead;
                out.push('"');
            }
            let rest = r.rest();
            let closed = rest.find(close);
            let mut ready = closed.unwrap_or(rest.len());
            if closed.is_some() {
                ready -= usize::from(lead == 1 && rest[..ready].ends_with('\n'));
            } else if !r.done {
                // What may belong to the closing tag waits.
                ready -= (1..close.len()).rev().find(|n| close.is_char_boundary(*n) && rest.ends_with(&close[..*n])).unwrap_or(0);
                ready -= usize::from(lead == 1 && rest[..ready].ends_with('\n'));
            }
            let written = Value::from(&rest[..ready]).to_string();
            out.push_str(&written[1..written.len() - 1]);
            if let Some(end) = closed {
                r.at += end + close.len();
                out.push('"');
                return Ok(());
            }
            r.at += ready;
            r.suspend(start, before, out, Vec::new(), Phase::Text);
            Err(Stop::More)
        })
    }
}

/// Whether this is the beginning of JSON that ends within a string.
fn is_cut_in_string(text: &str) -> bool {
    serde_json::from_str::<Value>(text.trim_start()).is_err_and(|error| error.to_string().starts_with("EOF while parsing a string"))
}

/// A character of a JSON string.
fn escape_into(out: &mut String, c: char) {
    let quoted = Value::from(c.to_string()).to_string();
    out.push_str(&quoted[1..quoted.len() - 1]);
}
