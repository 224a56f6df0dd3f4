//! What Python does and minijinja does otherwise: how values print, numbers that are read from texts, `%`, and texts
//! that are marked as safe, which escape what is added to them.

use std::fmt::{self, Write};

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};

use super::guard::is_mark;
use super::jinja::whole;
use super::jinja_objects::Group;
use super::methods::is_space;
use super::range::{UNPRINTED, no_list};
use super::tojson::python_float;

/// `str(value)`.
pub(super) fn print(out: &mut impl Write, value: &Value) -> fmt::Result {
    match value.kind() {
        ValueKind::Undefined => Ok(()),
        ValueKind::String => out.write_str(value.as_str().unwrap_or_default()),
        _ => represent(out, value),
    }
}

/// `repr(value)`.
fn represent(out: &mut impl Write, value: &Value) -> fmt::Result {
    match value.kind() {
        ValueKind::Undefined => out.write_str("Undefined"),
        ValueKind::Number if !value.is_integer() => float(out, value),
        ValueKind::String if value.is_safe() => {
            out.write_str("Markup(")?;
            quoted(out, value.as_str().unwrap_or_default())?;
            out.write_char(')')
        }
        ValueKind::String => quoted(out, value.as_str().unwrap_or_default()),
        ValueKind::Seq if value.downcast_object_ref::<Group>().is_some() => write!(out, "{value}"),
        ValueKind::Iterable if no_list(value).is_some() => write!(out, "{value}"),
        ValueKind::Seq | ValueKind::Iterable => {
            let (open, close) = if value.is_tuple() { ('(', ")") } else { ('[', "]") };
            out.write_char(open)?;
            let mut count = 0;
            for item in value.try_iter().map_err(|_| fmt::Error)? {
                out.write_str(if count > 0 { ", " } else { "" })?;
                represent(out, &item)?;
                count += 1;
            }
            out.write_str(if value.is_tuple() && count == 1 { "," } else { "" })?;
            out.write_str(close)
        }
        ValueKind::Map if super::methods::is_own(value) => write!(out, "{UNPRINTED}object"),
        ValueKind::Map => {
            out.write_char('{')?;
            for (n, key) in value.try_iter().map_err(|_| fmt::Error)?.enumerate() {
                out.write_str(if n > 0 { ", " } else { "" })?;
                represent(out, &key)?;
                out.write_str(": ")?;
                represent(out, &value.get_item(&key).map_err(|_| fmt::Error)?)?;
            }
            out.write_char('}')
        }
        _ => write!(out, "{value}"),
    }
}

/// `repr(value)` as a text.
pub(super) fn repr(value: &Value) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = represent(&mut text, value);
    text
}

fn float(out: &mut impl Write, value: &Value) -> fmt::Result {
    let value = f64::try_from(value.clone()).map_err(|_| fmt::Error)?;
    match (value.is_finite(), value.is_nan()) {
        (true, _) => out.write_str(&python_float(value)),
        (_, true) => out.write_str("nan"),
        _ => out.write_str(if value > 0.0 { "inf" } else { "-inf" }),
    }
}

/// A text as Python writes it in its sources.
fn quoted(out: &mut impl Write, text: &str) -> fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.write_char(quote)?;
    for c in text.chars() {
        match c {
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            '\\' => out.write_str("\\\\")?,
            c if c == quote => write!(out, "\\{c}")?,
            c if c == UNPRINTED || is_printable(c) => out.write_char(c)?,
            c => out.write_str(&code(c))?,
        }
    }
    out.write_char(quote)
}

/// A character as an escape of Python's.
fn code(c: char) -> String {
    match u32::from(c) {
        code @ ..=0xFF => format!("\\x{code:02x}"),
        code @ ..=0xFFFF => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    }
}

/// Whether Python shows a character in such a text. Rust knows which are printable, but escapes what combines with the
/// one before only where it is the first.
fn is_printable(c: char) -> bool {
    matches!(c, '"' | '\'') || is_mark(c) || ["x", c.encode_utf8(&mut [0; 4])].concat().escape_debug().count() == 2
}

/// `markupsafe.escape`.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    out
}

/// `a + b` of two texts: where one is marked as safe, the other is escaped. Python does that though nothing else is
/// escaped in chat templates.
pub(super) fn join(a: &Value, b: &Value) -> Option<Value> {
    let (left, right) = (a.as_str()?, b.as_str()?);
    let of = |value: &Value, text: &str| if value.is_safe() { text.to_owned() } else { escape(text) };
    Some(match a.is_safe() || b.is_safe() {
        true => Value::from_safe_string(of(a, left) + &of(b, right)),
        false => Value::from([left, right].concat()),
    })
}

/// What was made of a text: safe if that was.
pub(super) fn as_safe_as(of: &Value, made: Value) -> Value {
    match made.as_str() {
        Some(text) if of.is_safe() => Value::from_safe_string(text.to_owned()),
        _ => made,
    }
}

/// `text % values`: a tuple has several, an object names them.
pub(super) fn format(state: &mut State, text: &Value, values: &Value) -> Result<Value, Error> {
    let mut args = vec![text.clone()];
    if values.is_tuple() {
        args.extend(values.try_iter()?);
    } else if values.kind() == ValueKind::Map && text.as_str().is_some_and(|text| text.contains("%(")) {
        let mut named = Vec::new();
        for key in values.try_iter()? {
            named.push((to_string(&key), values.get_item(&key)?));
        }
        args.push(named.into_iter().collect::<Kwargs>().into());
    } else {
        args.push(values.clone());
    }
    // What has items may be left over.
    let holds = !values.is_tuple() && matches!(values.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::Iterable);
    format_all(state, &args, holds)
}

/// The filter `format`. What minijinja has not is put in the place of values: `%r` and `%a`, values that are neither
/// text nor number, whole parts of numbers.
pub(super) fn format_all(state: &mut State, args: &[Value], may_be_left: bool) -> Result<Value, Error> {
    let (text, given) = (args[0].as_str().map_or_else(|| to_string(&args[0]), str::to_owned), &args[1..]);
    let named = given.last().filter(|last| last.is_kwargs());
    let mut places = given.iter().filter(|value| !value.is_kwargs());
    let (mut out, mut rest) = (String::new(), text.as_str());
    let (mut values, mut names) = (Vec::new(), Vec::new());
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
        let key = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let flags = key.map_or(rest, |(_, behind)| behind);
        let spec =
            flags.len() - flags.trim_start_matches(|c: char| c.is_ascii_digit() || "#0- +.*hlL".contains(c)).len();
        let Some(kind) = flags[spec..].chars().next() else { break };
        let stars = flags[..spec].matches('*').count();
        let mut plain = false;
        values.extend(places.by_ref().take(stars).cloned());
        if kind != '%' {
            let value = match key {
                Some((key, _)) => named.map_or_else(Value::default, |named| named.get_attr(key).unwrap_or_default()),
                None => match places.next() {
                    Some(value) => value.clone(),
                    // Too few: told below.
                    None => break,
                },
            };
            let mut value = printable(kind, value);
            // minijinja pads by bytes.
            if let Some(text) = value.as_str().filter(|text| !text.is_ascii()) {
                if stars > 0 {
                    return Err(Error::new(ErrorKind::InvalidOperation, "format: a width is given for a text"));
                }
                value = Value::from(fitted(&flags[..spec], text));
                plain = true;
            }
            match key {
                Some(_) => {
                    let name = format!("v{}", names.len());
                    out.push_str(&format!("({name})"));
                    names.push((name, value));
                }
                None => values.push(value),
            }
        }
        out.push_str(if plain { "" } else { &flags[..spec] });
        out.push(match kind {
            'r' | 'a' => 's',
            'i' | 'u' => 'd',
            kind => kind,
        });
        rest = &flags[spec + kind.len_utf8()..];
    }
    out.push_str(rest);
    if places.next().is_some() && !may_be_left {
        return Err(Error::new(ErrorKind::InvalidOperation, "not all arguments converted during string formatting"));
    }
    let out = if args[0].is_safe() { Value::from_safe_string(out) } else { Value::from(out) };
    let mut all = vec![out];
    all.extend(values);
    if !names.is_empty() {
        all.push(names.into_iter().collect::<Kwargs>().into());
    }
    Value::from_function(filters::format).call(state, &all)
}

/// A text with the width and the precision of a conversion, in characters.
fn fitted(spec: &str, text: &str) -> String {
    let (width, precision) = spec.split_once('.').map_or((spec, None), |(width, precision)| (width, Some(precision)));
    let number = |text: &str| text.trim_matches(|c: char| !c.is_ascii_digit()).parse::<usize>().unwrap_or(0);
    let text: String = text.chars().take(precision.map_or(usize::MAX, number)).collect();
    let method = if width.contains('-') { "ljust" } else { "rjust" };
    super::methods::padded(&text, method, number(width), None)
}

/// A value as a conversion of this kind takes it.
pub(super) fn printable(kind: char, value: Value) -> Value {
    match kind {
        'r' | 'a' => {
            let mut text = repr(&value);
            if kind == 'a' {
                text = text.chars().map(|c| if c.is_ascii() { c.to_string() } else { code(c) }).collect();
            }
            Value::from(text)
        }
        'd' | 'i' | 'u' => match (value.kind(), f64::try_from(value.clone())) {
            (ValueKind::Bool, _) => Value::from(i64::from(value.is_true())),
            (ValueKind::Number, Ok(number)) if !value.is_integer() && number.is_finite() => {
                Value::from(number.trunc() as i64)
            }
            _ => value,
        },
        's' if !matches!(value.kind(), ValueKind::Number | ValueKind::String) => Value::from(to_string(&value)),
        _ => value,
    }
}

pub(super) fn to_string(value: &Value) -> String {
    let mut out = String::new();
    // Writing to a String does not fail; an object that cannot be gone through prints what it could.
    let _ = print(&mut out, value);
    out
}

/// The filters `int` and `float`: what is no number is the default.
pub(super) fn add_numbers(environment: &mut Environment<'_>) {
    for name in ["int", "float"] {
        environment.add_filter(name, move |args: Rest<ValueOrKwargs>| -> Result<Value, Error> {
            let args = super::jinja::bind(name, args.into_values())?;
            let (of, given) = (&args[0], |n: usize| args.get(n).filter(|value| !value.is_undefined()));
            if of.is_undefined() {
                return Err(Error::new(ErrorKind::UndefinedError, format!("{name} of what is not defined")));
            }
            let text = of.as_str().map(|text| text.trim_matches(is_space));
            if text.is_some_and(|text| text.contains(|c: char| !c.is_ascii() && c.is_numeric())) {
                return Err(wrong(format!("{name}: digits other than 0 to 9 are not read")));
            }
            let plain = whole(of);
            if name == "int" {
                let base = given(2).map_or(Some(10), Value::as_i64);
                match text.zip(base).map(|(text, base)| integer(text, base)).transpose()?.flatten() {
                    Some(number) => return Ok(number),
                    None if plain.is_integer() => return Ok(plain),
                    None => (),
                }
            }
            let number = match text {
                Some(text) => joined(text, |c| c.is_ascii_digit()).and_then(|text| text.parse().ok()),
                None => f64::try_from(plain).ok(),
            };
            match number {
                Some(number) if name == "float" => Ok(Value::from(number)),
                Some(number) if number.is_finite() => integral(number),
                _ => Ok(given(1).cloned().unwrap_or_else(|| if name == "int" { 0.into() } else { 0.0.into() })),
            }
        });
    }
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// The whole part of a number.
fn integral(number: f64) -> Result<Value, Error> {
    if number.abs() >= 2f64.powi(127) {
        return Err(wrong("int: the number is too large".to_owned()));
    }
    let number = number as i128;
    Ok(i64::try_from(number).map_or_else(|_| Value::from(number), Value::from))
}

/// A text without the `_` between its digits; none where others stand in it.
fn joined(text: &str, is_digit: impl Fn(char) -> bool) -> Option<String> {
    let parts: Vec<&str> = text.split('_').collect();
    let fits = parts.windows(2).all(|pair| pair[0].ends_with(&is_digit) && pair[1].starts_with(&is_digit));
    fits.then(|| parts.concat())
}

/// `int(text, base)`.
fn integer(text: &str, base: i64) -> Result<Option<Value>, Error> {
    let (sign, text) =
        text.strip_prefix('-').map_or_else(|| ("", text.strip_prefix('+').unwrap_or(text)), |t| ("-", t));
    let Some(text) = joined(text, |c| c.is_ascii_alphanumeric()) else { return Ok(None) };
    let text = text.to_ascii_lowercase();
    let prefixed = [("0x", 16), ("0o", 8), ("0b", 2)]
        .into_iter()
        .find(|(prefix, of)| text.starts_with(prefix) && (base == 0 || base == *of));
    let (digits, base) = match prefixed {
        Some((_, base)) => (&text[2..], base),
        None if base == 0 && text.starts_with('0') && !text.trim_matches('0').is_empty() => return Ok(None),
        None => (text.as_str(), if base == 0 { 10 } else { base }),
    };
    let base = u32::try_from(base).unwrap_or(0);
    if !(2..=36).contains(&base) || digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        return Ok(None);
    }
    let number = i128::from_str_radix(&format!("{sign}{digits}"), base);
    let number = number.map_err(|_| wrong("int: the number is too large".to_owned()))?;
    Ok(Some(i64::try_from(number).map_or_else(|_| Value::from(number), Value::from)))
}

/// The tests `iterable` and `sequence`.
pub(super) fn add_tests(environment: &mut Environment<'_>) {
    let holds = |value: &Value| {
        matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Undefined)
    };
    environment.add_test("sequence", move |value: &Value| {
        holds(value) || value.kind() == ValueKind::Iterable && matches!(no_list(value), None | Some("range"))
    });
    environment.add_test("iterable", move |value: &Value| holds(value) || value.kind() == ValueKind::Iterable);
}
