//! `range` as Python has it: it prints as the numbers that it was made of, its parts are ranges, and it is no list.

use std::sync::Arc;

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
