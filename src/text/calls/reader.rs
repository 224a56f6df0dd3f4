//! Reads what a model writes of a call, as far as it has come: each step says that it is there, that more must come, or
//! that it is something else.

use serde_json::Value;

use super::grammar::schema::{Kinds, is_free, kinds};
use super::object::Parts;
use super::tags::Level;
use super::typed::typed;
use super::value::{JSON, STRICT, Spelling};

/// Why reading ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// A prefix that fits; more text has to come.
    More,
    /// Not a call.
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

/// The number of the step behind the last one.
pub const DONE: u8 = u8::MAX;

/// What is kept of a passage of calls until there is more text: nothing of it is read again but the beginning of one
/// step.
#[derive(Debug, Default)]
pub struct Memo {
    pub calls: Vec<Call>,
    /// For each reading under way, outermost first: its step, and where that begins.
    steps: Vec<(u8, usize)>,
    /// Closing brackets of the current value.
    pub open: Vec<char>,
    /// A value that does not belong to the arguments yet.
    pub aside: String,
    /// The argument at hand.
    pub key: String,
    pub parts: Parts,
    pub levels: Vec<Level>,
    /// What was looked for, from where, and up to where it is not.
    missing: Option<(String, usize, usize)>,
}

/// A place in a text that may go on.
pub struct Reader<'a> {
    pub text: &'a str,
    pub at: usize,
    /// Whether nothing more will come.
    pub done: bool,
    tools: &'a [Tool],
    /// Whether whatever name is that of a tool.
    pub any_tool: bool,
    pub memo: &'a mut Memo,
    /// How many readings are within one another here.
    depth: usize,
}

impl<'a> Reader<'a> {
    /// `memo`: of the same text, when it was shorter.
    pub fn new(text: &'a str, done: bool, tools: &'a [Tool], memo: &'a mut Memo) -> Self {
        Self { text, at: 0, done, tools, any_tool: false, memo, depth: 0 }
    }

    /// Reads by steps from step 0 on; each gives the number of the next one. Where the text ends within a step, that
    /// step is begun again once there is more: it writes when nothing of it can be missing any more, or keeps its
    /// place, and a reading by steps within it is the last that it reads.
    pub fn steps(&mut self, step: &mut dyn FnMut(&mut Self, u8) -> Read<u8>) -> Read {
        let depth = self.depth;
        match self.memo.steps.get_mut(depth) {
            // What precedes it may have had more white space.
            Some((_, at)) => *at = self.at.max(*at),
            None => self.memo.steps.push((0, self.at)),
        }
        self.depth += 1;
        let read = loop {
            let (number, at) = self.memo.steps[depth];
            self.at = at;
            match step(self, number) {
                Ok(DONE) => break Ok(()),
                Ok(next) => self.memo.steps[depth] = (next, self.at),
                Err(stop) => break Err(stop),
            }
        };
        self.depth = depth;
        if read != Err(Stop::More) {
            self.memo.steps.truncate(depth);
        }
        read
    }

    /// The step at hand goes on from here.
    pub fn keep(&mut self) {
        self.memo.steps[self.depth - 1].1 = self.at;
    }

    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The next character, which stays.
    pub fn peek(&self) -> Read<char> {
        looked(1);
        self.rest().chars().next().ok_or(Stop::More)
    }

    pub fn next(&mut self) -> Read<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Ok(c)
    }

    /// White space. A step that begins with it goes on behind it.
    pub fn space(&mut self) {
        let before = self.at;
        if self.rest().bytes().next().is_some_and(|byte| byte.is_ascii_graphic()) {
            return;
        }
        self.at += self.rest().len() - self.rest().trim_start().len();
        looked(self.at - before);
        if self.depth > 0 && self.memo.steps[self.depth - 1].1 == before {
            self.keep();
        }
    }

    /// Exactly this.
    pub fn expect(&mut self, text: &str) -> Read {
        if self.eat(text)? { Ok(()) } else { Err(Stop::No) }
    }

    /// This, if it is there.
    pub fn eat(&mut self, text: &str) -> Read<bool> {
        looked(1);
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
        let found = self.find(end, &|rest| rest.find(end)).ok_or(Stop::More)?;
        let text = &self.rest()[..found];
        self.at += found + end.len();
        Ok(text)
    }

    /// What stands before a character of a kind, which stays.
    pub fn until_any(&mut self, kind: fn(char) -> bool) -> Read<&'a str> {
        let found = self.find("", &|rest| rest.find(kind)).ok_or(Stop::More)?;
        let text = &self.rest()[..found];
        self.at += found;
        Ok(text)
    }

    /// Where in the rest something is. What was looked through in vain is not looked through again. `wanted`: its text,
    /// empty for one character.
    pub fn find(&mut self, wanted: &str, find: &dyn Fn(&str) -> Option<usize>) -> Option<usize> {
        let rest = self.rest();
        let missing = self.memo.missing.as_ref().filter(|(what, start, _)| what == wanted && *start == self.at);
        // As much of its beginning as may be there.
        let mut from = missing.map_or(0, |(.., end)| *end).saturating_sub(wanted.len());
        while !rest.is_char_boundary(from) {
            from -= 1;
        }
        let found = find(&rest[from..]).map(|at| from + at);
        looked(found.unwrap_or(rest.len()) - from);
        if found.is_none() {
            self.memo.missing = Some((wanted.to_owned(), self.at, rest.len()));
        }
        found
    }

    /// Whether nothing more comes.
    pub fn finished(&self) -> Read {
        if self.done { Ok(()) } else { Err(Stop::More) }
    }

    /// The name of a tool that was offered: the longest that stands here. `No` where none does.
    pub fn name(&mut self) -> Read<&'a str> {
        let rest = self.rest();
        let end = if self.any_tool {
            rest.find(|c: char| !(c.is_alphanumeric() || "_-.:/".contains(c)))
                .or_else(|| self.done.then_some(rest.len()))
                .ok_or(Stop::More)?
        } else {
            let names = self.tools.iter().map(|tool| tool.name.as_str());
            if !self.done && names.clone().any(|name| name.starts_with(rest)) {
                return Err(Stop::More);
            }
            names.filter(|name| rest.starts_with(name)).map(str::len).max().unwrap_or(0)
        };
        looked(end);
        let goes_on = rest[end..].chars().next().is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
        if end == 0 || goes_on {
            return Err(Stop::No);
        }
        self.at += end;
        Ok(&rest[..end])
    }

    pub fn is_tool(&self, name: &str) -> bool {
        self.any_tool || self.tools.iter().any(|tool| tool.name == name)
    }

    /// A call of this tool begins; `No` where it was not offered.
    pub fn begin(&mut self, name: &str, id: Option<String>) -> Read {
        if !self.is_tool(name) {
            return Err(Stop::No);
        }
        self.memo.calls.push(Call { name: name.to_owned(), id, ..Call::default() });
        Ok(())
    }

    /// The call is complete.
    pub fn end(&mut self) {
        let at = self.at;
        if let Some(call) = self.memo.calls.last_mut() {
            if call.arguments.is_empty() {
                call.arguments.push_str("{}");
            }
            call.end = Some(at);
        }
    }

    /// Where the arguments go.
    pub fn arguments(&mut self) -> &mut String {
        &mut self.memo.calls.last_mut().expect("a call has begun").arguments
    }

    /// The schema of an argument of the call at hand.
    pub fn schema(&self, argument: &str) -> Option<&'a Value> {
        let name = &self.memo.calls.last()?.name;
        let tool = self.tools.iter().find(|tool| tool.name == *name)?;
        tool.parameters.get("properties")?.get(argument)
    }

    /// What an argument may be.
    pub fn kinds(&self, schema: Option<&Value>) -> Kinds {
        let tool = self.memo.calls.last().and_then(|call| self.tools.iter().find(|tool| tool.name == call.name));
        schema.zip(tool).map_or(Kinds::default(), |(schema, tool)| kinds(schema, &tool.parameters))
    }

    /// The arguments of the call at hand: an object of JSON, or a string that holds one.
    pub fn json_arguments(&mut self) -> Read {
        self.steps(&mut |r, step| {
            match step {
                0 => {
                    r.space();
                    match r.peek()? {
                        '{' => return Ok(1),
                        '"' => return Ok(2),
                        // None at all, by some.
                        _ => {
                            let mut word = String::new();
                            r.word(true, &mut word)?;
                            if word != "null" {
                                return Err(Stop::No);
                            }
                        }
                    }
                }
                1 => r.write(|r, out| r.value(&JSON, None, out))?,
                _ => {
                    let text = r.aside()?;
                    let text: String = serde_json::from_str(&text).map_err(|_| Stop::No)?;
                    r.arguments().push_str(&text);
                }
            }
            Ok(DONE)
        })
    }

    /// A value of JSON that is not written to the arguments; by steps.
    pub fn aside(&mut self) -> Read<String> {
        self.aside_as(&JSON)
    }

    /// As [`Reader::aside`], for a value in the notation `spelling`.
    pub fn aside_as(&mut self, spelling: &Spelling) -> Read<String> {
        let mut out = std::mem::take(&mut self.memo.aside);
        match self.value(spelling, None, &mut out) {
            Ok(()) => Ok(out),
            Err(stop) => {
                self.memo.aside = out;
                Err(stop)
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

    /// The last of them has been, and the call is whole.
    pub fn close(&mut self) {
        let out = self.arguments();
        out.push_str(if out.is_empty() { "{}" } else { "}" });
        self.end();
    }

    /// The argument at hand, whose value stands as plain text before `close`, which is taken too: a string where the
    /// schema says so, else JSON, else a string all the same. A line's end after the opening tag belongs to the tags,
    /// and then one before the closing one, too. `string`: what the model says itself.
    pub fn plain(&mut self, close: &str, string: Option<bool>) -> Read {
        self.steps(&mut |r, step| {
            let start = r.at;
            let lead = usize::from(r.rest().starts_with('\n'));
            if matches!(step, 1 | 2) {
                r.write(|r, out| r.tagged(close, step == 2, out))?;
                return Ok(DONE);
            }
            // Whether it is text, may be null, and is free.
            let wanted = |r: &Self| {
                let schema = r.schema(&r.memo.key);
                let kinds = r.kinds(schema);
                (kinds.string && string != Some(false) || string == Some(true), kinds.null, schema.is_none_or(is_free))
            };
            if step == 0 {
                if r.rest().is_empty() && !r.done {
                    return Err(Stop::More);
                }
                let (text, null, free) = wanted(r);
                // Whether it is null shows when it is whole.
                if text && !null {
                    let name = std::mem::take(&mut r.memo.key);
                    r.argument(&name);
                    r.arguments().push('"');
                    r.at += lead;
                    return Ok(1 + lead as u8);
                }
                return Ok(if string == Some(false) || !text && !free { 4 } else { 3 });
            }
            match if step == 3 { r.until(close).map(drop) } else { r.json_before(close) } {
                // Of tags within a string that has no end the last one counts.
                Err(Stop::More) if step == 4 && r.done => {
                    r.at = start + r.text[start..].rfind(close).ok_or(Stop::More)? + close.len()
                }
                read => read?,
            }
            let value = &r.text[start + lead..r.at - close.len()];
            let value = if lead == 1 { value.strip_suffix('\n').unwrap_or(value) } else { value };
            let schema = r.schema(&r.memo.key);
            let kinds = r.kinds(schema);
            let written =
                typed(value, Kinds { string: kinds.string && string != Some(false) || string == Some(true), ..kinds });
            let name = std::mem::take(&mut r.memo.key);
            r.argument(&name);
            r.arguments().push_str(&written);
            Ok(DONE)
        })
    }

    /// What should be JSON up to and with `close`, which may also stand within a string of it.
    fn json_before(&mut self, close: &str) -> Read {
        self.steps(&mut |r, step| {
            if step == 0 {
                let read = r.value(&STRICT, Some(close), &mut String::new());
                if read == Err(Stop::More) {
                    return Err(Stop::More);
                }
                r.memo.open.clear();
                if read.is_err() || !r.text[..r.at].ends_with(close) {
                    return Ok(1);
                }
            } else {
                r.until(close)?;
            }
            Ok(DONE)
        })
    }

    /// The text of a string before `close`, told as it comes. `lead`: whether a line's end before that belongs to it.
    fn tagged(&mut self, close: &str, lead: bool, out: &mut String) -> Read {
        let rest = self.rest();
        let closed = rest.find(close);
        let mut ready = closed.unwrap_or(rest.len());
        looked(ready);
        if closed.is_none() && !self.done {
            // What may belong to the closing tag waits.
            ready -= (1..close.len())
                .rev()
                .find(|n| close.is_char_boundary(*n) && rest.ends_with(&close[..*n]))
                .unwrap_or(0);
        }
        if closed.is_some() || !self.done {
            ready -= usize::from(lead && rest[..ready].ends_with('\n'));
        }
        let written = Value::from(&rest[..ready]).to_string();
        out.push_str(&written[1..written.len() - 1]);
        match closed {
            Some(end) => {
                self.at += end + close.len();
                out.push('"');
                Ok(())
            }
            None => {
                self.at += ready;
                self.keep();
                Err(Stop::More)
            }
        }
    }
}

#[cfg(feature = "lab")]
thread_local! {
    static LOOKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How many characters of answers this thread has looked at.
#[cfg(feature = "lab")]
pub fn looked_at() -> usize {
    LOOKED.get()
}

/// Counts characters that are looked at, for tests.
pub fn looked(_characters: usize) {
    #[cfg(feature = "lab")]
    LOOKED.set(LOOKED.get() + _characters);
}
