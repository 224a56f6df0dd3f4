//! `tojson` as transformers gives it to chat templates: Python's `json.dumps`, which models were trained on to the
//! space.

use std::fmt::Write;

use super::guard::is_mark;
use super::range::no_list;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

/// Deeper values are refused; Python's own limit is near.
const MAX_DEPTH: usize = 500;

/// `json.dumps(value, ensure_ascii=…, indent=…, separators=…, sort_keys=…)`. Nothing is escaped for HTML, and
/// characters outside ASCII stay as they are unless `ensure_ascii` asks otherwise.
pub(super) fn tojson(value: &Value, ensure_ascii: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let given = |name: &str| -> Result<Option<Value>, Error> {
        Ok(kwargs.get::<Option<Value>>(name)?.filter(|v| !v.is_none()))
    };
    let ensure_ascii = match ensure_ascii {
        Some(v) => v.is_true(),
        None => given("ensure_ascii")?.is_some_and(|v| v.is_true()),
    };
    let indent = match given("indent")? {
        None => None,
        Some(v) => Some(match (v.as_usize(), v.as_str()) {
            (Some(width), _) if width <= 64 => " ".repeat(width),
            (None, Some(text)) => text.to_owned(),
            _ => return Err(invalid("tojson: indent should be a number up to 64 or a string")),
        }),
    };
    let (item, key) = match given("separators")? {
        Some(pair) => {
            let text = |i| pair.get_item_by_index(i).ok().and_then(|v| v.as_str().map(str::to_owned));
            text(0).zip(text(1)).ok_or_else(|| invalid("tojson: separators should be two strings"))?
        }
        // With an indent every item has a line of its own, and Python leaves out the space before it.
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let sort_keys = given("sort_keys")?.is_some_and(|v| v.is_true());
    kwargs.assert_all_used()?;
    let mut writer = Writer { out: String::new(), indent, item, key, ensure_ascii, sort_keys };
    writer.value(value, 0)?;
    Ok(Value::from(writer.out))
}

/// `json.dumps(value, ensure_ascii=False)`.
pub(super) fn dumps(value: &Value) -> Result<String, Error> {
    let mut writer = Writer {
        out: String::new(),
        indent: None,
        item: ", ".to_owned(),
        key: ": ".to_owned(),
        ensure_ascii: false,
        sort_keys: false,
    };
    writer.value(value, 0)?;
    Ok(writer.out)
}

/// A float as Python prints it: the shortest digits that read back the same, with an exponent below 1e-4 and from 1e16.
pub(super) fn python_float(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        return format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    }
    let mut plain = value.to_string();
    if !plain.contains('.') {
        plain.push_str(".0");
    }
    plain
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

struct Writer {
    out: String,
    /// What one level is indented by; none for everything on one line.
    indent: Option<String>,
    item: String,
    key: String,
    ensure_ascii: bool,
    sort_keys: bool,
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(invalid("tojson: the value is nested too deeply"));
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.number(value)?,
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable if no_list(value).is_none() => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.items('[', ']', items, depth, |writer, item| writer.value(&item, depth + 1))?;
            }
            ValueKind::Map => {
                let mut pairs = Vec::new();
                for key in value.try_iter()? {
                    let item = value.get_item(&key)?;
                    pairs.push((key_text(&key)?, item));
                }
                if self.sort_keys {
                    pairs.sort_by(|a, b| a.0.cmp(&b.0));
                }
                self.items('{', '}', pairs, depth, |writer, (key, item)| {
                    writer.string(&key);
                    let separator = writer.key.clone();
                    writer.out.push_str(&separator);
                    writer.value(&item, depth + 1)
                })?;
            }
            // Python: "Object of type Undefined is not JSON serializable".
            kind => {
                let kind = no_list(value).map_or_else(|| kind.to_string(), str::to_owned);
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("tojson: a value of type {kind} is not JSON"),
                ));
            }
        }
        Ok(())
    }

    fn items<T>(
        &mut self,
        open: char,
        close: char,
        items: Vec<T>,
        depth: usize,
        mut write: impl FnMut(&mut Self, T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.out.push(open);
        let empty = items.is_empty();
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                let separator = self.item.clone();
                self.out.push_str(&separator);
            }
            self.line(depth + 1);
            write(self, item)?;
        }
        if !empty {
            self.line(depth);
        }
        self.out.push(close);
        Ok(())
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            for _ in 0..depth {
                self.out.push_str(indent);
            }
        }
    }

    fn number(&mut self, value: &Value) -> Result<(), Error> {
        if value.is_integer() {
            self.out.push_str(&value.to_string());
        } else {
            self.out.push_str(&python_float(f64::try_from(value.clone())?));
        }
        Ok(())
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && c > '~' && !is_mark(c)) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        // Writing to a String does not fail.
                        let _ = write!(self.out, "\\u{unit:04x}");
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

/// A key of an object; numbers, booleans and none become text as in Python.
fn key_text(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_owned()),
        ValueKind::None => Ok("null".to_owned()),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_owned()),
        ValueKind::Number if key.is_integer() => Ok(key.to_string()),
        ValueKind::Number => Ok(python_float(f64::try_from(key.clone())?)),
        kind => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("tojson: keys must be strings, numbers or booleans, not {kind}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::python_float;

    #[test]
    fn floats_print_as_in_python() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (100.0, "100.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-2.5e-7, "-2.5e-07"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (value, text) in cases {
            assert_eq!(python_float(value), text);
        }
        assert_eq!(python_float(f64::NAN), "NaN");
    }
}
