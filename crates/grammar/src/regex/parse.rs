//! Reads a regular expression as ECMA-262 means it, which is what `pattern` is written in: `\d` is ASCII, `[[]` holds a
//! bracket, `{` may stand alone. Lookaround is kept; what no finite automaton can do (backreferences) is refused.

use super::property::property;
use crate::chars::{CharSet, MAX_CHAR};
use crate::error::{Error, ErrorKind, Result};

/// Groups inside each other.
const MAX_DEPTH: usize = 64;
/// The largest count of a repetition.
const MAX_REPEAT: u32 = 20_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ast {
    Set(CharSet),
    Concat(Vec<Ast>),
    Alternate(Vec<Ast>),
    Repeat {
        of: Box<Ast>,
        min: u32,
        max: Option<u32>,
    },
    Start,
    End,
    /// `\b`, or `\B` where it is false: between two characters, or none, of which one is in a word, or not.
    Boundary(bool),
    Look {
        of: Box<Ast>,
        ahead: bool,
        negative: bool,
    },
}

pub(crate) fn parse(source: &str) -> Result<Ast> {
    let mut p = Parser { chars: source.chars().collect(), at: 0, depth: 0 };
    let ast = p.alternatives()?;
    if p.at < p.chars.len() {
        return Err(invalid("a `)` without its `(`"));
    }
    Ok(ast)
}

fn invalid(reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidRegex, reason)
}

fn unsupported(reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, reason)
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn eat(&mut self, text: &str) -> bool {
        let fits = text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c));
        if fits {
            self.at += text.chars().count();
        }
        fits
    }

    fn alternatives(&mut self) -> Result<Ast> {
        let mut list = vec![self.concatenation()?];
        while self.eat("|") {
            list.push(self.concatenation()?);
        }
        Ok(if list.len() > 1 { Ast::Alternate(list) } else { list.remove(0) })
    }

    fn concatenation(&mut self) -> Result<Ast> {
        let mut list = Vec::new();
        while self.peek().is_some_and(|c| c != '|' && c != ')') {
            list.push(self.quantified()?);
        }
        Ok(Ast::Concat(list))
    }

    fn quantified(&mut self) -> Result<Ast> {
        let atom = self.atom()?;
        let Some((min, max)) = self.quantifier()? else { return Ok(atom) };
        // A lazy quantifier matches the same texts.
        self.eat("?");
        if self.quantifier()?.is_some() {
            return Err(invalid("a quantifier behind a quantifier"));
        }
        if matches!(atom, Ast::Look { .. } | Ast::Boundary(_)) {
            return Err(unsupported("a repeated lookaround"));
        }
        if max.is_some_and(|max| max < min) {
            return Err(invalid("a repetition whose bounds are the wrong way round"));
        }
        if min > MAX_REPEAT || max.is_some_and(|max| max > MAX_REPEAT) {
            return Err(Error::new(ErrorKind::TooLarge, format!("a repetition of more than {MAX_REPEAT}")));
        }
        Ok(Ast::Repeat { of: Box::new(atom), min, max })
    }

    fn quantifier(&mut self) -> Result<Option<(u32, Option<u32>)>> {
        Ok(match self.peek() {
            Some('*') => {
                self.at += 1;
                Some((0, None))
            }
            Some('+') => {
                self.at += 1;
                Some((1, None))
            }
            Some('?') => {
                self.at += 1;
                Some((0, Some(1)))
            }
            Some('{') => self.braces(),
            _ => None,
        })
    }

    /// `{2}`, `{2,}`, `{2,3}`; anything else is a brace of the text.
    fn braces(&mut self) -> Option<(u32, Option<u32>)> {
        let from = self.at;
        let found = (|| {
            self.at += 1;
            let min = self.number()?;
            if self.eat("}") {
                return Some((min, Some(min)));
            }
            if !self.eat(",") {
                return None;
            }
            if self.eat("}") {
                return Some((min, None));
            }
            let max = self.number()?;
            self.eat("}").then_some((min, Some(max)))
        })();
        if found.is_none() {
            self.at = from;
        }
        found
    }

    fn number(&mut self) -> Option<u32> {
        let from = self.at;
        let mut n = 0u32;
        while let Some(d) = self.peek().and_then(|c| c.to_digit(10)) {
            n = n.saturating_mul(10).saturating_add(d);
            self.at += 1;
        }
        (self.at > from).then_some(n)
    }

    fn atom(&mut self) -> Result<Ast> {
        let c = self.peek().ok_or_else(|| invalid("it ends too early"))?;
        self.at += 1;
        Ok(match c {
            '(' => self.group()?,
            '[' => Ast::Set(self.class()?),
            '.' => Ast::Set(line_ends().negated()),
            '^' => Ast::Start,
            '$' => Ast::End,
            '\\' => return self.escape_outside(),
            '*' | '+' | '?' => return Err(invalid(format!("nothing to repeat before `{c}`"))),
            c => Ast::Set(CharSet::one(c as u32)),
        })
    }

    fn group(&mut self) -> Result<Ast> {
        let mut look = None;
        if self.eat("?") {
            if self.eat(":") {
            } else if self.eat("=") {
                look = Some((true, false));
            } else if self.eat("!") {
                look = Some((true, true));
            } else if self.eat("<=") {
                look = Some((false, false));
            } else if self.eat("<!") {
                look = Some((false, true));
            } else if self.eat("<") || self.eat("P<") {
                while self.peek().is_some_and(|c| c != '>') {
                    self.at += 1;
                }
                if !self.eat(">") {
                    return Err(invalid("a group's name without its `>`"));
                }
            } else {
                return Err(unsupported("a group with flags"));
            }
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::new(ErrorKind::TooLarge, format!("more than {MAX_DEPTH} groups inside each other")));
        }
        let inner = self.alternatives()?;
        self.depth -= 1;
        if !self.eat(")") {
            return Err(invalid("a `(` without its `)`"));
        }
        Ok(match look {
            Some((ahead, negative)) => Ast::Look { of: Box::new(inner), ahead, negative },
            None => inner,
        })
    }

    fn class(&mut self) -> Result<CharSet> {
        let negative = self.eat("^");
        let mut ranges = Vec::new();
        loop {
            let c = self.peek().ok_or_else(|| invalid("a `[` without its `]`"))?;
            if c == ']' {
                self.at += 1;
                break;
            }
            let from = self.class_atom()?;
            let ranged = self.peek() == Some('-') && self.chars.get(self.at + 1).is_some_and(|&c| c != ']');
            let ([(lo, hi)], true) = (&from.0[..], ranged) else {
                ranges.extend(from.0);
                continue;
            };
            if lo != hi {
                ranges.extend(from.0);
                continue;
            }
            self.at += 1;
            let to = self.class_atom()?;
            match to.0[..] {
                [(a, b)] if a == b && a >= *lo => ranges.push((*lo, a)),
                [(a, b)] if a == b => return Err(invalid("a range whose ends are the wrong way round")),
                // `[a-\d]` holds three things, as it does in browsers.
                _ => ranges.extend(from.0.iter().copied().chain([(0x2d, 0x2d)]).chain(to.0)),
            }
        }
        let set = CharSet::new(ranges);
        Ok(if negative { set.negated() } else { set })
    }

    fn class_atom(&mut self) -> Result<CharSet> {
        let c = self.peek().ok_or_else(|| invalid("a `[` without its `]`"))?;
        self.at += 1;
        match c {
            '\\' if self.eat("b") => Ok(CharSet::one(8)),
            '\\' if self.eat("-") => Ok(CharSet::one(0x2d)),
            '\\' => self.escape(),
            c => Ok(CharSet::one(c as u32)),
        }
    }

    fn escape_outside(&mut self) -> Result<Ast> {
        match self.peek() {
            Some(letter @ ('b' | 'B')) => {
                self.at += 1;
                Ok(Ast::Boundary(letter == 'b'))
            }
            Some('k') => Err(unsupported("a backreference")),
            Some('1'..='9') => Err(unsupported("a backreference")),
            // ECMA-262 reads these as letters; in practice they are meant as anchors.
            Some('A') => {
                self.at += 1;
                Ok(Ast::Start)
            }
            Some('z' | 'Z') => {
                self.at += 1;
                Ok(Ast::End)
            }
            _ => self.escape().map(Ast::Set),
        }
    }

    /// What stands behind a backslash, in and outside of brackets.
    fn escape(&mut self) -> Result<CharSet> {
        let c = self.peek().ok_or_else(|| invalid("it ends with a backslash"))?;
        self.at += 1;
        let one = |c: u32| Ok(CharSet::one(c));
        match c {
            'd' => Ok(digits()),
            'D' => Ok(digits().negated()),
            'w' => Ok(words()),
            'W' => Ok(words().negated()),
            's' => Ok(spaces()),
            'S' => Ok(spaces().negated()),
            'n' => one(10),
            't' => one(9),
            'r' => one(13),
            'f' => one(12),
            'v' => one(11),
            '0' if !self.peek().is_some_and(|c| c.is_ascii_digit()) => one(0),
            'c' => match self.peek() {
                Some(letter) if letter.is_ascii_alphabetic() => {
                    self.at += 1;
                    one(letter as u32 & 31)
                }
                _ => Err(invalid("`\\c` without its letter")),
            },
            'x' => {
                let c = self.hex(2)?;
                one(c)
            }
            'u' => {
                let c = self.unicode()?;
                one(c)
            }
            'p' | 'P' => self.property(c == 'P'),
            c if c.is_ascii_alphanumeric() => Err(invalid(format!("`\\{c}` means nothing"))),
            c => one(c as u32),
        }
    }

    /// A property of Unicode: `{name}`, or, as other dialects have it, the letter of a group of categories.
    fn property(&mut self, negative: bool) -> Result<CharSet> {
        let mut name = String::new();
        if self.eat("{") {
            while !self.eat("}") {
                name.push(self.peek().ok_or_else(|| invalid("a `\\p{` without its `}`"))?);
                self.at += 1;
            }
        } else if let Some(group @ ('C' | 'L' | 'M' | 'N' | 'P' | 'S' | 'Z')) = self.peek() {
            name.push(group);
            self.at += 1;
        }
        let set = property(&name)
            .ok_or_else(|| unsupported(format!("`\\p{{{name}}}`: no property of one character that ECMA-262 names")))?;
        Ok(if negative { set.negated() } else { set })
    }

    fn unicode(&mut self) -> Result<u32> {
        if self.eat("{") {
            let mut c = 0u32;
            while let Some(d) = self.peek().and_then(|c| c.to_digit(16)) {
                c = c.saturating_mul(16).saturating_add(d);
                self.at += 1;
            }
            if !self.eat("}") || c > MAX_CHAR {
                return Err(invalid("a `\\u{` that is no code point"));
            }
            return Ok(c);
        }
        let high = self.hex(4)?;
        let from = self.at;
        if (0xd800..0xdc00).contains(&high) && self.eat("\\u") {
            let low = self.hex(4)?;
            if (0xdc00..0xe000).contains(&low) {
                return Ok(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00));
            }
            self.at = from;
        }
        Ok(high)
    }

    fn hex(&mut self, digits: usize) -> Result<u32> {
        let mut c = 0;
        for _ in 0..digits {
            let d = self
                .peek()
                .and_then(|c| c.to_digit(16))
                .ok_or_else(|| invalid("an escape that lacks hexadecimal digits"))?;
            c = c * 16 + d;
            self.at += 1;
        }
        Ok(c)
    }
}

fn digits() -> CharSet {
    CharSet(vec![(0x30, 0x39)])
}

pub(super) fn words() -> CharSet {
    CharSet(vec![(0x30, 0x39), (0x41, 0x5a), (0x5f, 0x5f), (0x61, 0x7a)])
}

fn line_ends() -> CharSet {
    CharSet(vec![(10, 10), (13, 13), (0x2028, 0x2029)])
}

/// White space and line ends as ECMA-262 lists them.
fn spaces() -> CharSet {
    CharSet(vec![
        (9, 13),
        (0x20, 0x20),
        (0xa0, 0xa0),
        (0x1680, 0x1680),
        (0x2000, 0x200a),
        (0x2028, 0x2029),
        (0x202f, 0x202f),
        (0x205f, 0x205f),
        (0x3000, 0x3000),
        (0xfeff, 0xfeff),
    ])
}
