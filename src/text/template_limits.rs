//! What a chat template may not ask for: expressions whose parsing or evaluation would need more stack than there is,
//! and texts that a single filter or method makes far longer than what it is given.

use minijinja::value::ValueKind;
use minijinja::{Error as TemplateError, ErrorKind, Value};

use super::methods::is_line_end;
use crate::error::{Error, Result};

/// Bytes of a template. Published ones have up to 20 kB.
const MOST_BYTES: usize = 1 << 20;
/// Words and signs of one tag: the longest of a published template has some hundred. Operators and filters in a row
/// nest that deep.
const MOST_TOKENS: usize = 1000;
/// Branches of conditions in all, which nest as well.
const MOST_BRANCHES: usize = 250;
/// Columns that a text may be padded to or indented by.
pub(super) const MOST_WIDTH: usize = 10_000;
/// Bytes that a filter or method may make.
const MOST_MADE: usize = 16 << 20;

/// Refuses a template that is too long to be looked at, `TEMPLATE`.
pub(super) fn check_length(source: &str) -> Result<()> {
    if source.len() <= MOST_BYTES {
        return Ok(());
    }
    Err(Error::template(format!("the chat template has {} bytes; {MOST_BYTES} are the most", source.len())))
}

/// Refuses what could not be parsed. `TEMPLATE` names the line.
pub(super) fn check_source(source: &str) -> Result<()> {
    let (mut branches, mut rest, mut line, mut product) = (0, source, 1, 0usize);
    while let Some(at) = next_tag(rest, b"{%") {
        let (before, tag) = rest.split_at(at);
        line += before.matches('\n').count();
        let (tokens, length) = tokens(&tag[2..]);
        branches += usize::from(tag[2..].trim_start_matches(['-', '+']).trim_start().starts_with("elif"));
        if tokens > MOST_TOKENS {
            return Err(Error::template(format!(
                "the chat template has an expression of more than {MOST_TOKENS} words and signs in line {line}"
            )));
        }
        if branches > MOST_BRANCHES {
            return Err(Error::template(format!(
                "the chat template has more than {MOST_BRANCHES} branches (elif), the last one in line {line}"
            )));
        }
        let (tag, after) = tag.split_at(2 + length);
        product = product.saturating_add(multiplied(tag));
        if product > MOST_MADE {
            return Err(Error::template(format!(
                "the chat template multiplies texts or lists by more than {MOST_MADE} in line {line}"
            )));
        }
        line += tag.matches('\n').count();
        rest = after;
    }
    Ok(())
}

/// Where the first tag begins: a `{` with one of `signs` behind it. Nothing is looked at behind that tag, so that all
/// tags of a template together cost one look at it.
pub(super) fn next_tag(text: &str, signs: &[u8]) -> Option<usize> {
    text.as_bytes().windows(2).position(|pair| pair[0] == b'{' && signs.contains(&pair[1]))
}

/// Numbers that a text or list is multiplied by, all of a template together: minijinja does that when it reads the
/// template.
fn multiplied(tag: &str) -> usize {
    let (mut plain, mut made, mut quote, mut escaped) = (String::new(), false, None, false);
    for c in tag.chars() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(end) if c == end => quote = None,
            Some(_) => (),
            None if matches!(c, '\'' | '"') => (quote, made) = (Some(c), true),
            None => {
                made |= c == '[';
                plain.push(c);
            }
        }
    }
    if !made {
        return 0;
    }
    // The numbers beside the signs, whatever else stands there.
    let beside = |text: &str| {
        text.replace('_', "").parse::<usize>().unwrap_or(if text.is_empty() { 1 } else { usize::MAX }).max(1)
    };
    let other = |c: char| !c.is_ascii_digit() && c != '_';
    let signs = plain.match_indices('*').map(|(at, _)| {
        let (left, right) = (plain[..at].trim_end_matches([' ', ')']), plain[at + 1..].trim_start_matches([' ', '(']));
        let (left, right) =
            (left.rsplit(other).next().unwrap_or_default(), right.split(other).next().unwrap_or_default());
        beside(left).saturating_mul(beside(right))
    });
    signs.reduce(usize::saturating_mul).unwrap_or(0)
}

/// The number of words and signs in the tag whose inside `text` begins with, and its bytes up to its end.
fn tokens(text: &str) -> (usize, usize) {
    let (mut count, mut in_word, mut quote, mut escaped) = (0, false, None, false);
    for (at, c) in text.char_indices() {
        if let Some(end) = quote {
            (quote, escaped) = if escaped || c != end { (quote, !escaped && c == '\\') } else { (None, false) };
            continue;
        }
        if matches!(c, '}' | '%') && text[at + 1..].starts_with('}') {
            return (count, at);
        }
        let word = c.is_alphanumeric() || c == '_';
        count += usize::from(!(c.is_whitespace() || word && in_word));
        in_word = word;
        if matches!(c, '\'' | '"') {
            quote = Some(c);
        }
    }
    (count, text.len())
}

fn too_much(what: &str) -> TemplateError {
    TemplateError::new(
        ErrorKind::InvalidOperation,
        format!("{what} would make more than {} MiB, or pad to more than {MOST_WIDTH} columns", MOST_MADE >> 20),
    )
}

fn within(bytes: Option<usize>, what: &str) -> std::result::Result<(), TemplateError> {
    bytes.filter(|bytes| *bytes <= MOST_MADE).map(drop).ok_or_else(|| too_much(what))
}

/// Whether replacing may be done.
fn replacing(text: &str, from: &str, to: &str, what: &str) -> std::result::Result<(), TemplateError> {
    let grown = to.len().saturating_sub(from.len());
    within(if grown == 0 { Some(0) } else { text.matches(from).count().checked_mul(grown) }, what)
}

/// Whether joining may be done, as far as what is put between the items goes.
fn joining(items: &Value, between: &str, what: &str) -> std::result::Result<(), TemplateError> {
    within(items.len().unwrap_or(0).checked_mul(between.len()), what)
}

/// Checks that a format asks for no column wider than `MOST_WIDTH`; `*` and `{}` take their width from an argument.
fn formatting(text: &str, args: &[Value], what: &str) -> std::result::Result<(), TemplateError> {
    let widths = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let wide = |digits: &str| digits.parse::<usize>().map_or(true, |width| width > MOST_WIDTH);
    let taken = (text.contains('*') || text.contains(":{"))
        && args.iter().any(|arg| arg.as_usize().is_some_and(|width| width > MOST_WIDTH));
    if taken || widths.into_iter().any(wide) { Err(too_much(what)) } else { Ok(()) }
}

/// Whether a method of a text or list may be called.
pub(super) fn check_method(value: &Value, method: &str, args: &[Value]) -> std::result::Result<(), TemplateError> {
    let Some(text) = value.as_str() else { return Ok(()) };
    let arg = |n: usize| args.get(n).and_then(Value::as_str);
    match method {
        "replace" => replacing(text, arg(0).unwrap_or_default(), arg(1).unwrap_or_default(), method),
        "join" => args.first().map_or(Ok(()), |items| joining(items, text, method)),
        "format" => formatting(text, args, method),
        "ljust" | "rjust" | "center" | "zfill"
            if args.first().and_then(Value::as_usize).is_none_or(|width| width > MOST_WIDTH) =>
        {
            Err(too_much(method))
        }
        _ => Ok(()),
    }
}

/// Whether a filter may be applied.
pub(super) fn check_filter(name: &str, args: &[Value]) -> std::result::Result<(), TemplateError> {
    let arg = |n: usize| args.get(n).and_then(Value::as_str);
    // Named arguments come last.
    let named = |key: &str| {
        args.last()
            .filter(|last| last.kind() == ValueKind::Map)
            .and_then(|last| last.get_attr(key).ok())
            .filter(|v| !v.is_undefined())
    };
    match (name, arg(0)) {
        ("replace", Some(text)) => replacing(text, arg(1).unwrap_or_default(), arg(2).unwrap_or_default(), name),
        ("join", _) => {
            let between =
                arg(1).map(str::to_owned).or_else(|| named("d")?.as_str().map(str::to_owned)).unwrap_or_default();
            args.first().map_or(Ok(()), |items| joining(items, &between, name))
        }
        ("indent", Some(text)) => {
            let width = args.get(1).and_then(Value::as_usize).or_else(|| named("width")?.as_usize()).unwrap_or(0);
            let width = arg(1).map_or(width, str::len);
            if width > MOST_WIDTH {
                return Err(too_much(name));
            }
            within(text.split(is_line_end).count().checked_mul(width), name)
        }
        ("format", Some(text)) => formatting(text, args, name),
        // Lists that may all be empty, and what fills the last one.
        ("slice", _) | ("batch", _) if name == "slice" || args.len() > 2 => match args.get(1).and_then(Value::as_i64) {
            Some(count) if count > MOST_WIDTH as i64 => Err(too_much(name)),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}
