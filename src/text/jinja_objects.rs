//! The objects that Jinja's functions and filters give: macros, cyclers, joiners, the groups of `groupby`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Tuple, from_args};
use minijinja::{Error, ErrorKind, State, Value};

use super::jinja::wrong;
use super::python::repr;
use super::range::UNPRINTED;

/// One of the groups of `groupby`: a pair, whose parts have names too.
#[derive(Debug)]
pub(super) struct Group {
    pub grouper: Value,
    pub list: Value,
}

impl Object for Group {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match (key.as_i64(), key.as_str()) {
            (Some(0 | -2), None) | (None, Some("grouper")) => Some(self.grouper.clone()),
            (Some(1 | -1), None) | (None, Some("list")) => Some(self.list.clone()),
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(2)
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({}, {})", repr(&self.grouper), repr(&self.list))
    }
}

/// Stands for an argument that a macro is not given. One that is given may be undefined, and then has no default.
#[derive(Debug)]
pub(super) struct Missing;

impl Object for Missing {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{UNPRINTED}missing")
    }
}

/// An argument as a macro without a default for it has it.
pub(super) fn given(value: Value) -> Value {
    if value.downcast_object_ref::<Missing>().is_some() { Value::UNDEFINED } else { value }
}

/// A macro. The code of one that reads `varargs` or `kwargs` has both as two more arguments.
#[derive(Debug)]
pub(super) struct Macro {
    pub inner: Value,
    /// Whether it reads `varargs`, which takes more arguments than it declares.
    pub varargs: bool,
    /// Whether it reads `kwargs`, which takes arguments of any name.
    pub kwargs: bool,
}

impl Macro {
    fn open(&self) -> bool {
        self.varargs || self.kwargs
    }
}

impl Object for Macro {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str() {
            Some("catch_varargs") => return Some(Value::from(self.varargs)),
            Some("catch_kwargs") => return Some(Value::from(self.kwargs)),
            _ => (),
        }
        let found = self.inner.get_item(key).ok()?;
        if key.as_str() != Some("arguments") {
            return Some(found);
        }
        let mut names: Vec<Value> = found.try_iter().ok()?.collect();
        names.truncate(names.len().saturating_sub(if self.open() { 2 } else { 0 }));
        Some(Value::from_object(Tuple::new(names)))
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<Macro {}>", repr(&self.inner.get_attr("name").unwrap_or_default()))
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let names = self.get_value(&Value::from("arguments")).unwrap_or_default();
        let names: Vec<Value> = names.try_iter()?.collect();
        let (mut given, named) = match args.split_last() {
            Some((last, args)) if last.is_kwargs() => (args.to_vec(), Some(last)),
            _ => (args.to_vec(), None),
        };
        let more = given.split_off(given.len().min(names.len()));
        let count = given.len();
        given.resize(names.len(), Value::from_object(Missing));
        let (mut others, mut caller) = (Vec::new(), None);
        for key in named.iter().flat_map(|named| named.try_iter()).flatten() {
            let value = named.map_or(Ok(Value::UNDEFINED), |named| named.get_item(&key))?;
            match names.iter().position(|name| *name == key) {
                Some(at) if at < count => return Err(wrong(format!("the macro got two values for '{key}'"))),
                Some(at) => given[at] = value,
                None if key.as_str() == Some("caller") => caller = Some(("caller".to_owned(), value)),
                None => others.push((key, value)),
            }
        }
        if let Some((key, _)) = others.first().filter(|_| !self.kwargs) {
            return Err(wrong(format!("the macro takes no keyword argument '{key}'")));
        }
        if !more.is_empty() && !self.varargs {
            return Err(wrong(format!("the macro takes not more than {} arguments", names.len())));
        }
        if self.open() {
            given.extend([Value::from_object(Tuple::from(more)), Value::from_pairs(others)]);
        }
        if caller.is_some() {
            given.push(caller.into_iter().collect::<Kwargs>().into());
        }
        self.inner.call(state, &given)
    }
}

/// `cycler('odd', 'even')`.
#[derive(Debug)]
pub(super) struct Cycler {
    pub items: Vec<Value>,
    pub at: AtomicUsize,
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (key.as_str() == Some("current")).then(|| self.items[self.at.load(Ordering::Relaxed)].clone())
    }

    fn call_method(self: &Arc<Self>, _: &mut State<'_, '_>, method: &str, args: &[Value]) -> Result<Value, Error> {
        let () = from_args(args)?;
        match method {
            "next" => {
                let at = self.at.load(Ordering::Relaxed);
                self.at.store((at + 1) % self.items.len(), Ordering::Relaxed);
                Ok(self.items[at].clone())
            }
            "reset" => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

/// `joiner(', ')`: nothing when it is called first, then what it was given.
#[derive(Debug)]
pub(super) struct Joiner {
    pub between: Value,
    pub used: AtomicBool,
}

impl Object for Joiner {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let () = from_args(args)?;
        Ok(if self.used.swap(true, Ordering::Relaxed) { self.between.clone() } else { Value::from("") })
    }
}
