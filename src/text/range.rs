//! What is gone through in Python and is no list: ranges, which print as the numbers that they were made of, what
//! filters make as it is read, and what the methods of objects give.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::value::{Enumerator, Object, ObjectRepr, Rest, ValueKind};
use minijinja::{Error, ErrorKind, Value};

/// Jinja's sandbox makes none that is longer.
const MOST: i128 = 100_000;

#[derive(Debug)]
pub(super) struct Range {
    start: i64,
    stop: i64,
    step: i64,
}

/// Begins the text of what prints in Python as a place in memory. A template that writes it is refused.
pub(super) const UNPRINTED: char = '\u{1FFFE}';

fn wrong(message: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.to_owned())
}

/// `range(stop)`, `range(start, stop, step)`.
pub(super) fn range(args: Rest<Value>) -> Result<Value, Error> {
    let whole = |value: &Value| match value.kind() {
        ValueKind::Bool => Ok(i64::from(value.is_true())),
        ValueKind::Number if value.is_integer() => value.as_i64().ok_or_else(|| wrong("range has too many elements")),
        kind => Err(wrong(&format!("range: a {kind} is no whole number"))),
    };
    let range = match &args[..] {
        [stop] => Range { start: 0, stop: whole(stop)?, step: 1 },
        [start, stop] => Range { start: whole(start)?, stop: whole(stop)?, step: 1 },
        [start, stop, step] => Range { start: whole(start)?, stop: whole(stop)?, step: whole(step)? },
        _ => return Err(wrong(&format!("range takes 1 to 3 arguments, not {}", args.len()))),
    };
    if range.step == 0 {
        return Err(wrong("cannot create range with step of 0"));
    }
    if range.count() > MOST {
        return Err(wrong("range has too many elements"));
    }
    Ok(Value::from_object(range))
}

impl Range {
    pub fn of(value: &Value) -> Option<&Self> {
        value.downcast_object_ref()
    }

    fn count(&self) -> i128 {
        let (start, stop, step) = (i128::from(self.start), i128::from(self.stop), i128::from(self.step));
        let span = if step > 0 { stop - start } else { start - stop };
        (span.max(0) + step.abs() - 1) / step.abs()
    }

    fn at(&self, n: i64) -> i64 {
        self.start.saturating_add(n.saturating_mul(self.step))
    }

    /// What lies between two places, which are counted from 0.
    pub fn part(&self, start: i64, stop: i64, step: i64) -> Value {
        Value::from_object(Self { start: self.at(start), stop: self.at(stop), step: self.step.saturating_mul(step) })
    }
}

/// What a value that is gone through is called where it is no list.
pub(super) fn no_list(value: &Value) -> Option<&'static str> {
    match (Range::of(value), Once::of(value), value.downcast_object_ref::<View>()) {
        (Some(_), ..) => Some("range"),
        (_, Some(_), _) => Some("generator"),
        (.., Some(view)) => Some(view.name),
        _ => None,
    }
}

/// What filters as `map` make: it is gone through once, is always true, and has neither a length nor items.
#[derive(Debug)]
pub(super) struct Once {
    items: Vec<Value>,
    at: AtomicUsize,
}

impl Once {
    pub fn of(value: &Value) -> Option<&Self> {
        value.downcast_object_ref()
    }

    pub fn made(items: Vec<Value>) -> Value {
        Value::from_object(Self { items, at: AtomicUsize::new(0) })
    }

    fn next(&self) -> Option<Value> {
        self.items.get(self.at.fetch_add(1, Ordering::Relaxed)).cloned()
    }

    /// The value; what is left of one that is gone through once, as a list.
    pub fn read(value: &mut Value) {
        let left = Self::of(value).map(|once| Value::from(std::iter::from_fn(|| once.next()).collect::<Vec<_>>()));
        *value = left.unwrap_or_else(|| std::mem::take(value));
    }
}

impl Object for Once {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let of = self.clone();
        Enumerator::Iter(Box::new(std::iter::from_fn(move || of.next())))
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{UNPRINTED}generator")
    }
}

/// What the methods `keys`, `values` and `items` of an object give.
#[derive(Debug)]
pub(super) struct View {
    name: &'static str,
    items: Value,
}

impl View {
    pub fn made(method: &str, items: Value) -> Value {
        let name = match method {
            "keys" => "dict_keys",
            "values" => "dict_values",
            _ => "dict_items",
        };
        Value::from_object(Self { name, items })
    }
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.items.try_iter().map_or(Enumerator::Empty, |items| Enumerator::Values(items.collect()))
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.name, super::python::repr(&self.items))
    }
}

impl Object for Range {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let of = self.clone();
        Enumerator::Iter(Box::new((0..self.count() as usize).map(move |n| Value::from(of.at(n as i64)))))
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "range({}, {}", self.start, self.stop)?;
        if self.step != 1 {
            write!(f, ", {}", self.step)?;
        }
        f.write_str(")")
    }
}
