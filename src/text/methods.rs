//! Python's methods of strings that chat templates use and minijinja-contrib lacks.

use minijinja::value::{Tuple, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

/// Calls `value.method(args)`, for methods that are not the template engine's own.
pub(super) fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    super::template_limits::check_method(value, method, args)?;
    let Some(text) = value.as_str() else { return pycompat::unknown_method_callback(state, value, method, args) };
    match method {
        "rsplit" => {
            let (separator, count): (Option<&str>, Option<i64>) = from_args(args)?;
            rsplit(text, separator, count)
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
            let at = at.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "substring not found"))?;
            Ok(Value::from(text[..at].chars().count()))
        }
        "ljust" | "rjust" | "center" | "zfill" => {
            let (width, fill): (usize, Option<char>) = from_args(args)?;
            Ok(Value::from(padded(text, method, width, fill)))
        }
        "title" => {
            let mut inside = false;
            let title = text.chars().flat_map(|c| {
                let begins = !std::mem::replace(&mut inside, c.is_alphabetic());
                if begins { c.to_uppercase().collect::<Vec<_>>() } else { c.to_lowercase().collect() }
            });
            Ok(Value::from(title.collect::<String>()))
        }
        "casefold" => Ok(Value::from(text.to_lowercase())),
        "swapcase" => {
            let swap =
                |c: char| if c.is_uppercase() { c.to_lowercase().to_string() } else { c.to_uppercase().to_string() };
            Ok(Value::from(text.chars().map(swap).collect::<String>()))
        }
        _ => pycompat::unknown_method_callback(state, value, method, args),
    }
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
    if separator.is_empty() { Err(Error::new(ErrorKind::InvalidOperation, "empty separator")) } else { Ok(separator) }
}

/// `str.rsplit(sep=None, maxsplit=-1)`: the last separators split, what is left over stays in one piece.
fn rsplit(text: &str, separator: Option<&str>, count: Option<i64>) -> Result<Value, Error> {
    // A negative number of splits means all of them.
    let limit = count.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let mut parts: Vec<&str> = match separator {
        Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
        Some(separator) => text.rsplitn(limit.saturating_add(1), separator).collect(),
        None => {
            let mut parts = Vec::new();
            let mut rest = text.trim_end();
            while !rest.is_empty() {
                let at = if parts.len() < limit { rest.rfind(char::is_whitespace) } else { None };
                let Some(at) = at else {
                    parts.push(rest);
                    break;
                };
                let word = rest[at..].trim_start();
                parts.push(word);
                rest = rest[..at].trim_end();
            }
            parts
        }
    };
    parts.reverse();
    Ok(parts.into_iter().map(Value::from).collect())
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
        assert!(environment.compile_expression("'x'.rsplit('')").unwrap().eval(()).is_err());
    }
}
