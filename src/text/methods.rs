//! Python's methods of strings that chat templates use and minijinja-contrib lacks.

use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Tuple, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

use super::jinja::{Takes, bound};
use super::python::{printable, to_string};
use super::range::{Once, UNPRINTED, View, no_list};

/// Methods whose arguments have names, and one that has none but takes them by position.
const NAMED: &[(&str, &[&str])] = &[
    ("replace", &["old", "new", "count"]),
    ("rsplit", &["sep", "maxsplit"]),
    ("split", &["sep", "maxsplit"]),
    ("splitlines", &["keepends"]),
];

/// Methods of objects, of lists and of texts that Jinja's sandbox gives. An object's other methods change it: of these
/// the sandbox gives nothing, whatever the object holds.
const OF_OBJECTS: &[&str] = &["copy", "fromkeys", "get", "items", "keys", "values"];
const CHANGING: &[&str] = &["clear", "pop", "popitem", "setdefault", "update"];
const OF_LISTS: &[&str] = &["copy", "count", "index"];
const OF_TEXTS: &[&str] = &[
    "capitalize",
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "maketrans",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "zfill",
];

/// Methods of numbers, which are not here: an error where one is printed or called.
const OF_WHOLE: &[&str] =
    &["as_integer_ratio", "bit_count", "bit_length", "conjugate", "from_bytes", "is_integer", "to_bytes"];
const OF_FLOATS: &[&str] = &["as_integer_ratio", "conjugate", "fromhex", "hex", "is_integer"];
/// What numbers have beside methods.
const PARTS: &[&str] = &["denominator", "imag", "numerator", "real"];

/// Whether some value has a method of that name, or a number a part.
pub(super) fn is_method(name: &str) -> bool {
    let all = [OF_OBJECTS, CHANGING, OF_LISTS, OF_TEXTS, OF_WHOLE, OF_FLOATS, PARTS];
    all.iter().any(|names| names.contains(&name))
}

/// A part of a number, as Python has them; truth values are 0 and 1.
fn part_of_number(of: &Value, name: &str) -> Option<Value> {
    let whole = of.kind() == ValueKind::Bool || of.is_integer();
    match name {
        "real" | "numerator" if of.kind() == ValueKind::Bool => Some(Value::from(i64::from(of.is_true()))),
        "imag" => Some(if whole { Value::from(0) } else { Value::from(0.0) }),
        "denominator" if whole => Some(Value::from(1)),
        "real" => Some(of.clone()),
        "numerator" if whole => Some(of.clone()),
        _ => None,
    }
}

fn is_a(value: &Value, names: &[&str]) -> bool {
    value.as_object().is_some_and(|object| names.iter().any(|name| object.type_name().ends_with(name)))
}

/// Whether a value is a loop or a macro, which minijinja has as objects with keys.
pub(super) fn is_own(value: &Value) -> bool {
    is_a(value, &["::Loop", "::Macro"])
}

pub(super) fn is_namespace(value: &Value) -> bool {
    is_a(value, &["::Namespace"])
}

/// `value.method` that is not called at once.
#[derive(Debug)]
pub(super) struct Method {
    of: Value,
    name: String,
}

impl Method {
    /// The method of that name, or what is not defined where Jinja's sandbox keeps it back; of a number its part. None
    /// where the value has neither.
    pub fn of(of: &Value, name: &str) -> Option<Value> {
        let names = match of.kind() {
            ValueKind::Number | ValueKind::Bool if PARTS.contains(&name) => return part_of_number(of, name),
            ValueKind::Number if !of.is_integer() => OF_FLOATS,
            ValueKind::Number | ValueKind::Bool => OF_WHOLE,
            ValueKind::Map if is_own(of) || is_namespace(of) => return None,
            ValueKind::Map if CHANGING.contains(&name) => return Some(Value::UNDEFINED),
            ValueKind::Map => OF_OBJECTS,
            ValueKind::String => OF_TEXTS,
            ValueKind::Seq | ValueKind::Iterable if no_list(of).is_none() => OF_LISTS,
            _ => return None,
        };
        let has = names.contains(&name) && !(name == "copy" && of.is_tuple());
        has.then(|| Value::from_object(Self { of: of.clone(), name: name.to_owned() }))
    }
}

impl Object for Method {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        self.of.call_method(state, &self.name, args)
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{UNPRINTED}method {}", self.name)
    }
}

/// Calls `value.method(args)`, for methods that are not the template engine's own.
pub(super) fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let mut args = args.to_vec();
    args.iter_mut().for_each(Once::read);
    if args.last().is_some_and(Value::is_kwargs) && method != "format" {
        let known = NAMED.iter().find(|(known, _)| *known == method && value.as_str().is_some());
        let Some((_, names)) = known else {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("{method} takes no arguments by name: {}", args[args.len() - 1]),
            ));
        };
        args.insert(0, value.clone());
        args = bound(method, names, Takes::Positions, args)?;
        args.remove(0);
    }
    let args = &args[..];
    super::template_limits::check_method(value, method, args)?;
    let Some(text) = value.as_str() else {
        return match (value.kind(), method) {
            (ValueKind::Seq, "index") => {
                let (what,): (&Value,) = from_args(args)?;
                let at = value.try_iter()?.position(|item| item == *what);
                at.map(Value::from).ok_or_else(|| failed("the value is not in the list"))
            }
            (ValueKind::Map, "keys" | "values" | "items") => {
                pycompat::unknown_method_callback(state, value, method, args).map(|items| View::made(method, items))
            }
            (ValueKind::Seq | ValueKind::Map, "copy") if !value.is_tuple() => from_args(args).map(|()| value.clone()),
            _ => pycompat::unknown_method_callback(state, value, method, args),
        };
    };
    match method {
        // Within a part of the text.
        "find" | "rfind" | "index" | "rindex" | "count" | "startswith" | "endswith" if args.len() > 1 => {
            let (what, start, end): (&Value, Option<i64>, Option<i64>) = from_args(args)?;
            let length = text.chars().count() as i64;
            let place = |at: i64| if at < 0 { (at.saturating_add(length)).max(0) } else { at };
            let (start, end) = (start.map_or(0, place), end.map_or(length, place).min(length));
            let none = match method {
                "find" | "rfind" => Ok(Value::from(-1)),
                "index" | "rindex" => Err(failed("substring not found")),
                "count" => Ok(Value::from(0)),
                _ => Ok(Value::from(false)),
            };
            if start > end {
                return none;
            }
            let part: String = text.chars().skip(start as usize).take((end - start) as usize).collect();
            let found = call(state, &Value::from(part), method, std::slice::from_ref(what))?;
            Ok(match found.as_i64() {
                Some(at) if at >= 0 && method != "count" && found.is_integer() => Value::from(at + start),
                _ => found,
            })
        }
        "split" | "rsplit" => {
            let (separator, count): (Option<&str>, Option<i64>) = from_args(args)?;
            split(text, separator, count, method == "rsplit")
        }
        "splitlines" => {
            let (keep,): (Option<bool>,) = from_args(args)?;
            let (mut lines, mut rest) = (Vec::new(), text);
            while !rest.is_empty() {
                let (line, end) = line(rest);
                lines.push(Value::from(&rest[..if keep == Some(true) { end } else { line }]));
                rest = &rest[end..];
            }
            Ok(Value::from(lines))
        }
        "join" => {
            let (items,): (&Value,) = from_args(args)?;
            let mut texts = Vec::new();
            for item in items.try_iter()? {
                texts.push(item.as_str().map(str::to_owned).ok_or_else(|| failed("what is joined should be texts"))?);
            }
            Ok(Value::from(texts.join(text)))
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text)))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text)))
        }
        "partition" => {
            let separator = separator(args)?;
            let (before, after) = text.split_once(separator).map_or(((text, ""), ""), |(b, a)| ((b, separator), a));
            Ok(tuple([before.0, before.1, after]))
        }
        "rpartition" => {
            let separator = separator(args)?;
            let (before, after) = text.rsplit_once(separator).map_or((("", ""), text), |(b, a)| ((b, separator), a));
            Ok(tuple([before.0, before.1, after]))
        }
        "index" | "rindex" => {
            let (part,): (&str,) = from_args(args)?;
            let at = if method == "index" { text.find(part) } else { text.rfind(part) };
            let at = at.ok_or_else(|| failed("substring not found"))?;
            Ok(Value::from(text[..at].chars().count()))
        }
        "ljust" | "rjust" | "center" | "zfill" => {
            let (width, fill): (usize, Option<char>) = from_args(args)?;
            Ok(Value::from(padded(text, method, width, fill)))
        }
        "title" => {
            let mut inside = false;
            let cased = |c: char| c.is_uppercase() || c.is_lowercase() || matches!(c, 'ǅ' | 'ǈ' | 'ǋ' | 'ǲ');
            Ok(recased(text, |c, lower| {
                let begins = !std::mem::replace(&mut inside, cased(c));
                if begins { titled(c) } else { lower.to_owned() }
            }))
        }
        "capitalize" => from_args(args).map(|()| capitalized(text)),
        "strip" | "lstrip" | "rstrip" if args.first().is_none_or(Value::is_none) => Ok(Value::from(match method {
            "strip" => text.trim_matches(is_space),
            "lstrip" => text.trim_start_matches(is_space),
            _ => text.trim_end_matches(is_space),
        })),
        "isalpha" => from_args(args).and_then(|()| consists(text, is_letter)),
        "isalnum" => from_args(args).and_then(|()| consists(text, is_word)),
        "isdigit" if text.contains(|c: char| !c.is_ascii() && c.is_numeric()) => {
            Err(failed("isdigit: digits other than 0 to 9 are not told apart"))
        }
        "casefold" if text.contains(folds_otherwise) => Err(failed("casefold is not for this script")),
        "isspace" => from_args(args).map(|()| Value::from(!text.is_empty() && text.chars().all(is_space))),
        "startswith" | "endswith" if args.first().is_some_and(|what| what.as_str().is_none() && !what.is_tuple()) => {
            Err(failed(format!("{method} takes a text or a tuple of texts")))
        }
        "format" => {
            let (text, values) = format(text, args)?;
            pycompat::unknown_method_callback(state, &Value::from(text), method, &values)
        }
        "casefold" => {
            let folded = text.chars().flat_map(char::to_lowercase).flat_map(|c| {
                // Its capital letter is that of another.
                let upper = if c == 'ı' { c.to_string() } else { c.to_uppercase().to_string() };
                upper.chars().flat_map(char::to_lowercase).collect::<Vec<_>>()
            });
            Ok(Value::from(folded.collect::<String>()))
        }
        "swapcase" => Ok(recased(text, |c, lower| match c {
            c if c.is_uppercase() => lower.to_owned(),
            c if c.is_lowercase() => c.to_uppercase().to_string(),
            c => c.to_string(),
        })),
        _ => pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// The text and the values for minijinja's `format`, which prints lists and objects otherwise and has no `!r`: each
/// field has a value of its own, which is a text, a number, true or false.
fn format(text: &str, args: &[Value]) -> Result<(String, Vec<Value>), Error> {
    let (named, places) = match args.split_last() {
        Some((last, places)) if last.is_kwargs() => (Some(last), places),
        _ => (None, args),
    };
    let (mut out, mut values, mut rest) = (String::new(), Vec::new(), text);
    let (mut counted, mut numbered) = (0, false);
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with('}') || rest.starts_with("{{") {
            // One alone is refused by minijinja.
            let length = if rest.starts_with("{{") || rest.starts_with("}}") { 2 } else { 1 };
            out.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        let Some(end) = rest.find('}') else { break };
        let field = &rest[1..end];
        rest = &rest[end + 1..];
        let (name, spec) = field.split_once(':').unwrap_or((field, ""));
        let (name, conversion) = name.split_once('!').map_or((name, None), |(name, kind)| (name, Some(kind)));
        let (first, path) = name.split_at(name.find(['.', '[']).unwrap_or(name.len()));
        let value = if first.is_empty() {
            counted += 1;
            places.get(counted - 1).cloned()
        } else if let Ok(number) = first.parse::<usize>() {
            numbered = true;
            places.get(number).cloned()
        } else {
            named.and_then(|named| named.get_attr(first).ok()).filter(|value| !value.is_undefined())
        };
        if numbered && counted > 0 {
            return Err(failed("format: fields are numbered all or none"));
        }
        let value = value.ok_or_else(|| failed(format!("format: nothing is given for '{{{field}}}'")))?;
        let value = within(value, path)?;
        let is_plain = matches!(value.kind(), ValueKind::String | ValueKind::Number | ValueKind::Bool);
        let value = match conversion {
            None if is_plain => value,
            None if spec.is_empty() => Value::from(to_string(&value)),
            None => return Err(failed(format!("format: '{spec}' is not for a {}", value.kind()))),
            Some("s") => Value::from(to_string(&value)),
            Some("r") => printable('r', value),
            Some("a") => printable('a', value),
            Some(other) => return Err(failed(format!("format: unknown conversion '{other}'"))),
        };
        match value.as_str() {
            Some(text) => {
                values.push(Value::from(fitted(text, spec)?));
                out.push_str(&format!("{{{}}}", values.len() - 1));
            }
            None => {
                values.push(value);
                out.push_str(&format!("{{{}:{spec}}}", values.len() - 1));
            }
        }
    }
    out.push_str(rest);
    Ok((out, values))
}

/// A text as `format` writes it by what stands behind the colon: `[[fill]align][0][width][.precision][s]`.
fn fitted(text: &str, spec: &str) -> Result<String, Error> {
    let refused = || failed(format!("format: '{spec}' is not for a text"));
    let mut signs = spec.chars().peekable();
    let (mut fill, mut align) = (' ', '<');
    let is_align = |c: char| matches!(c, '<' | '>' | '^');
    let mut two = spec.chars();
    match (two.next(), two.next()) {
        (Some(first), Some(second)) if is_align(second) => {
            (fill, align) = (first, second);
            signs = spec[first.len_utf8() + 1..].chars().peekable();
        }
        (Some(first), second) if is_align(first) => {
            align = first;
            signs.next();
            fill = if second == Some('0') { '0' } else { ' ' };
        }
        (Some('0'), _) => fill = '0',
        _ => (),
    }
    let mut number = || {
        let digits: String = std::iter::from_fn(|| signs.next_if(char::is_ascii_digit)).collect();
        let number = digits.parse::<usize>().ok();
        (number, signs.next())
    };
    let (width, mut next) = number();
    let mut precision = None;
    if next == Some('.') {
        (precision, next) = number();
        precision = Some(precision.ok_or_else(refused)?);
    }
    if next == Some('s') {
        next = number().1;
    }
    if next.is_some() {
        return Err(refused());
    }
    let text: String = text.chars().take(precision.unwrap_or(usize::MAX)).collect();
    let missing = width.unwrap_or(0).saturating_sub(text.chars().count());
    let before = match align {
        '<' => 0,
        '^' => missing / 2,
        _ => missing,
    };
    let pad = |count: usize| std::iter::repeat_n(fill, count).collect::<String>();
    Ok([pad(before), text, pad(missing - before)].concat())
}

/// What a field's path, as `.name[key][0]`, leads to.
fn within(mut value: Value, mut path: &str) -> Result<Value, Error> {
    while !path.is_empty() {
        let (name, rest) = match path.strip_prefix('[') {
            Some(path) => path.split_once(']').ok_or_else(|| failed("format: a field's '[' has no ']'"))?,
            None => {
                let name = path.strip_prefix('.').ok_or_else(|| failed("format: what stands behind ']'?"))?;
                name.split_at(name.find(['.', '[']).unwrap_or(name.len()))
            }
        };
        let number = name.parse::<u32>().ok().filter(|_| path.starts_with('['));
        value = value.get_item(&number.map_or_else(|| Value::from(name), Value::from))?;
        path = rest;
    }
    Ok(value)
}

/// Python's whitespace, which has four control characters more than Rust's.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// Cherokee, Georgian capitals, Greek with a iota below: their folded forms are not those of small letters.
fn folds_otherwise(c: char) -> bool {
    matches!(c, '\u{13A0}'..='\u{13FF}' | '\u{1C80}'..='\u{1CBF}' | '\u{1F80}'..='\u{1FFF}' | '\u{AB70}'..='\u{ABBF}')
}

/// Whether a character is a letter. Rust takes some marks and numbers for letters, so scripts with such are refused.
fn is_letter(c: char) -> Result<bool, Error> {
    let known = matches!(c, '\0'..='\u{344}' | '\u{370}'..='\u{52F}' | '\u{1E00}'..='\u{1FFF}')
        || matches!(c, '\u{3041}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}');
    if c.is_alphabetic() && !known {
        return Err(failed(format!("whether '{c}' is a letter is not known")));
    }
    Ok(c.is_alphabetic())
}

/// Whether a character is a letter or a number.
pub(super) fn is_word(c: char) -> Result<bool, Error> {
    Ok(c.is_numeric() || is_letter(c)?)
}

fn consists(text: &str, of: fn(char) -> Result<bool, Error>) -> Result<Value, Error> {
    let all = text.chars().map(of).collect::<Result<Vec<_>, _>>()?;
    Ok(Value::from(!all.is_empty() && !all.contains(&false)))
}

/// The filter `title`, which has other words than the method.
pub(super) fn titled_words(text: &str) -> Value {
    let words = text.split_inclusive(|c| is_space(c) || matches!(c, '-' | '(' | '{' | '[' | '<'));
    let of = |word: &str| {
        let mut rest = word.chars();
        let first = rest.next().map_or_else(String::new, |c| c.to_uppercase().collect());
        first + &rest.as_str().to_lowercase()
    };
    Value::from(words.map(of).collect::<String>())
}

/// A character as the first one of a title.
fn titled(c: char) -> String {
    match c {
        'Ǆ' | 'ǅ' | 'ǆ' => "ǅ".to_owned(),
        'Ǉ' | 'ǈ' | 'ǉ' => "ǈ".to_owned(),
        'Ǌ' | 'ǋ' | 'ǌ' => "ǋ".to_owned(),
        'Ǳ' | 'ǲ' | 'ǳ' => "ǲ".to_owned(),
        'ŉ' => "ʼN".to_owned(),
        // Georgian titles have no capitals.
        '\u{10D0}'..='\u{10FF}' => c.to_string(),
        _ => {
            let mut upper = c.to_uppercase();
            upper.next().into_iter().chain(upper.flat_map(char::to_lowercase)).collect()
        }
    }
}

/// What is made of each character and of its small letter, which is another for a sigma at the end of a word.
fn recased(text: &str, mut make: impl FnMut(char, &str) -> String) -> Value {
    let (lower, mut at) = (text.to_lowercase(), 0);
    let each = text.chars().map(|c| {
        let start = at;
        at += c.to_lowercase().map(char::len_utf8).sum::<usize>();
        make(c, &lower[start..at])
    });
    Value::from(each.collect::<String>())
}

pub(super) fn capitalized(text: &str) -> Value {
    let mut first = true;
    recased(text, |c, lower| if std::mem::take(&mut first) { titled(c) } else { lower.to_owned() })
}

fn tuple(parts: [&str; 3]) -> Value {
    Value::from_object(Tuple::from(parts.map(Value::from)))
}

pub(super) fn padded(text: &str, method: &str, width: usize, fill: Option<char>) -> String {
    let missing = width.saturating_sub(text.chars().count());
    let before = match method {
        "ljust" => 0,
        "center" => missing / 2 + (missing & width & 1),
        _ => missing,
    };
    let fill = fill.unwrap_or(if method == "zfill" { '0' } else { ' ' });
    // Zeros go behind a sign.
    let (sign, text) = match text.split_at_checked(1) {
        Some((sign @ ("-" | "+"), rest)) if method == "zfill" => (sign, rest),
        _ => ("", text),
    };
    let pad = |count: usize| std::iter::repeat_n(fill, count).collect::<String>();
    [sign, &pad(before), text, &pad(missing - before)].concat()
}

fn separator(args: &[Value]) -> Result<&str, Error> {
    let (separator,): (&str,) = from_args(args)?;
    if separator.is_empty() { Err(failed("empty separator")) } else { Ok(separator) }
}

/// `str.split(sep=None, maxsplit=-1)`, or `rsplit`, where the last separators split; what is left over stays in one
/// piece.
fn split(text: &str, separator: Option<&str>, count: Option<i64>, behind: bool) -> Result<Value, Error> {
    // A negative number of splits means all of them.
    let limit = count.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let mut parts: Vec<&str> = match separator {
        Some("") => return Err(failed("empty separator")),
        Some(separator) if behind => text.rsplitn(limit.saturating_add(1), separator).collect(),
        Some(separator) => text.splitn(limit.saturating_add(1), separator).collect(),
        None => {
            fn trimmed(text: &str, behind: bool) -> &str {
                if behind { text.trim_end_matches(is_space) } else { text.trim_start_matches(is_space) }
            }
            let trim = |text| trimmed(text, behind);
            let (mut parts, mut rest) = (Vec::new(), trim(text));
            while !rest.is_empty() {
                let at = if behind { rest.rfind(is_space) } else { rest.find(is_space) };
                let Some(at) = at.filter(|_| parts.len() < limit) else {
                    parts.push(rest);
                    break;
                };
                let (before, after) = rest.split_at(at);
                let (word, others) =
                    if behind { (after.trim_start_matches(is_space), before) } else { (before, after) };
                parts.push(word);
                rest = trim(others);
            }
            parts
        }
    };
    if behind {
        parts.reverse();
    }
    Ok(parts.into_iter().map(Value::from).collect())
}

pub(super) fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Where a text's first line ends by Python's `splitlines`, and where the next one begins.
pub(super) fn line(text: &str) -> (usize, usize) {
    let at = text.find(is_line_end).unwrap_or(text.len());
    let end = if text[at..].starts_with("\r\n") { 2 } else { text[at..].chars().next().map_or(0, char::len_utf8) };
    (at, at + end)
}

fn failed(what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}

#[cfg(test)]
mod tests {
    use minijinja::Environment;

    #[test]
    fn strings_behave_as_in_python() {
        let mut environment = Environment::new();
        environment.set_unknown_method_callback(super::call);
        let cases = [
            ("'a b c'.rsplit(' ', 1)", "['a b', 'c']"),
            ("'a b c'.rsplit(' ')", "['a', 'b', 'c']"),
            ("'  a  b c '.rsplit()", "['a', 'b', 'c']"),
            ("'  a  b c '.rsplit(none, 1)", "['  a  b', 'c']"),
            ("'a,b'.rsplit(',', 0)", "['a,b']"),
            ("''.rsplit()", "[]"),
            ("''.rsplit(',')", "['']"),
            ("'  a  b c '.split(none, 1)", "['a', 'b c ']"),
            ("'  a  b c '.split(maxsplit=1)", "['a', 'b c ']"),
            ("'a-b-c'.split(sep='-', maxsplit=1)", "['a', 'b-c']"),
            ("'a-b-c'.split('-', maxsplit=-1)", "['a', 'b', 'c']"),
            ("'a-b-c'.rsplit(maxsplit=1, sep='-')", "['a-b', 'c']"),
            ("'aXaX'.replace('a', 'b', count=1)", "bXaX"),
            ("'a\\r\\nb\\rc\\fd'.splitlines()", "['a', 'b', 'c', 'd']"),
            ("'a\\r\\nb'.splitlines(keepends=true)|length", "2"),
            ("'abcabc'.find('c', 3)", "5"),
            ("'abcabc'.find('c', 3, 5)", "-1"),
            ("'abcabc'.rfind('a', 0, -3)", "0"),
            ("'abcabc'.count('a', 1)", "1"),
            ("'abc'.startswith('b', 1)", "True"),
            ("'abc'.endswith('b', 0, 2)", "True"),
            ("'abc'.find('', 4)", "-1"),
            ("[1, 2, 3].index(2)", "1"),
            ("'x-y-z'.partition('-')", "('x', '-', 'y-z')"),
            ("'x-y-z'.rpartition('-')", "('x-y', '-', 'z')"),
            ("'x'.partition('-')", "('x', '', '')"),
            ("'x'.rpartition('-')", "('', '', 'x')"),
            ("'éxé'.index('é', )", "0"),
            ("'éxé'.rindex('é')", "2"),
            ("'x'.ljust(3, '-')", "x--"),
            ("'x'.rjust(3)", "  x"),
            ("'xy'.center(5, '.')", "..xy."),
            ("'xyz'.center(6, '.')", ".xyz.."),
            ("'-7'.zfill(4)", "-007"),
            ("'aB'.swapcase()", "Ab"),
            ("'<b>x'.removeprefix('<b>')", "x"),
            ("'x</b>'.removesuffix('</b>')", "x"),
            ("'x'.removesuffix('y')", "x"),
            ("' x '.strip()", "x"),
        ];
        for (expression, expected) in cases {
            let got = environment.compile_expression(expression).unwrap().eval(()).unwrap().to_string();
            assert_eq!(got, expected, "{expression}");
        }
        for expression in [
            "'x'.rsplit('')",
            "'x'.split(by=' ')",
            "'x'.split(' ', sep=' ')",
            "'x'.upper(x=1)",
            "{'a': 1}.get('b', default=2)",
            "[1].index(2)",
            "'x'.index('x', 1)",
            "', '.join([1])",
        ] {
            assert!(environment.compile_expression(expression).unwrap().eval(()).is_err(), "{expression}");
        }
    }
}
