//! What bounds the memory and the time of a chat template beside its number of instructions: operators, filters and
//! methods count the bytes and values that they go through, make no text or list beyond a limit, and what is kept in a
//! variable nests only so deep.
//!
//! minijinja counts instructions and nothing else: doubling a text takes one. So the compiled instructions are gone
//! through, and operators that make something are calls of the functions here, which have names that no template can
//! write.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use minijinja::machinery::{Instruction, Instructions};
use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};

use super::template_limits::check_filter;
use super::{jinja, python};

/// Bytes of a text that a template makes: more than any context holds.
const MOST_TEXT: usize = 16 << 20;
/// Values of a list that it makes.
const MOST_ITEMS: usize = 1 << 20;
/// Levels of lists and objects within one another.
const MOST_LEVELS: u32 = 100;
/// What may be gone through in all: a byte of text is one.
const MOST_WORK: u64 = 256 << 20;
/// What going through one value of a list counts as.
const VALUE: usize = 64;
/// In the error that stops a template.
pub(super) const SPENT: &str = "the chat template needs more memory or time than any conversation takes";

type Made = Result<Value, Error>;

/// What is left of the work that a template may do.
#[derive(Clone)]
pub(super) struct Budget {
    left: Arc<AtomicU64>,
    written: Arc<AtomicU64>,
}

impl Budget {
    /// One part in `parts` of what a template may do.
    pub fn new(parts: u64) -> Self {
        Self { left: Arc::new(AtomicU64::new(MOST_WORK / parts)), written: Arc::default() }
    }

    fn spent() -> Error {
        Error::new(ErrorKind::InvalidOperation, SPENT)
    }

    /// Counts work.
    pub fn charge(&self, work: usize) -> Result<(), Error> {
        let left = self.left.load(Ordering::Relaxed).checked_sub(work as u64).ok_or_else(Self::spent)?;
        self.left.store(left, Ordering::Relaxed);
        Ok(())
    }

    /// Counts the making of a text or list of that size.
    fn make(&self, size: Option<usize>, most: usize, each: usize) -> Result<(), Error> {
        let size = size.filter(|size| *size <= most).ok_or_else(Self::spent)?;
        self.charge(size.saturating_mul(each))
    }

    fn text(&self, size: Option<usize>) -> Result<(), Error> {
        self.make(size, MOST_TEXT, 1)
    }

    fn items(&self, size: Option<usize>) -> Result<(), Error> {
        self.make(size, MOST_ITEMS, VALUE)
    }

    /// Counts what is written.
    pub fn write(&self, bytes: usize) -> Result<(), Error> {
        let written = self.written.fetch_add(bytes as u64, Ordering::Relaxed);
        if written.saturating_add(bytes as u64) > MOST_TEXT as u64 {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("the chat template writes more than {} MiB", MOST_TEXT >> 20),
            ));
        }
        Ok(())
    }

    /// Counts going through all of a value, texts by their bytes where these are read.
    pub fn walk(&self, value: &Value, reads: bool) -> Result<(), Error> {
        self.descend(value, reads, MOST_LEVELS)
    }

    /// What is made as it is read counts as one.
    fn descend(&self, value: &Value, reads: bool, levels: u32) -> Result<(), Error> {
        self.charge(VALUE)?;
        if let Some(text) = value.as_str() {
            return self.charge(if reads { text.len() } else { 0 });
        }
        let kind = value.kind();
        let holds =
            matches!(kind, ValueKind::Seq | ValueKind::Map) || kind == ValueKind::Iterable && value.len().is_some();
        if !holds {
            return Ok(());
        }
        if levels == 0 || value.len().is_some_and(|len| len > MOST_ITEMS) {
            return Err(Self::spent());
        }
        for item in value.try_iter()? {
            if kind == ValueKind::Map {
                self.descend(&value.get_item(&item)?, reads, levels - 1)?;
            }
            self.descend(&item, reads, levels - 1)?;
        }
        Ok(())
    }

    /// Counts going through a text, or through the items of a list and not into them.
    pub fn skim(&self, value: &Value) -> Result<(), Error> {
        match value.as_str() {
            Some(text) => self.charge(text.len()),
            None => self.charge(value.len().unwrap_or(1).saturating_mul(VALUE)),
        }
    }
}

/// Text that ends with an error where it becomes too long.
struct Bounded<'a>(String, &'a Budget);

impl fmt::Write for Bounded<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = self.0.len() + text.len() <= MOST_TEXT;
        self.1.charge(text.len()).ok().filter(|()| fits).ok_or(fmt::Error)?;
        self.0.push_str(text);
        Ok(())
    }
}

/// What a value prints as. What nests too deep is not gone into.
pub(super) fn printed(value: &Value, budget: &Budget) -> Result<String, Error> {
    budget.walk(value, true)?;
    let mut out = Bounded(String::new(), budget);
    python::print(&mut out, value).map_err(|_| Budget::spent())?;
    Ok(out.0)
}

/// `a ~ b`: what both print as.
fn concatenate(budget: &Budget, a: &Value, b: &Value) -> Made {
    let of = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| printed(value, budget), |text| budget.text(Some(text.len())).map(|()| text.to_owned()))
    };
    let mut made = of(a)?;
    let more = of(b)?;
    budget.text(made.len().checked_add(more.len()))?;
    made.push_str(&more);
    Ok(Value::from(made))
}

/// Has minijinja do it as it would.
fn plainly(expression: &str, operands: &[&Value]) -> Made {
    let environment = Environment::new();
    let names = ["a", "b", "c", "d"];
    let context = names.into_iter().zip(operands).map(|(name, value)| (name, (*value).clone()));
    let made = environment.compile_expression(expression)?.eval(Value::from_pairs(context));
    // Where it failed is a place of the template, not of the expression.
    made.map_err(|e| Error::new(e.kind(), e.detail().unwrap_or_default().to_owned()))
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

fn integers(a: &Value, b: &Value) -> Option<(i64, i64)> {
    (a.is_integer() && b.is_integer()).then_some(())?;
    a.as_i64().zip(b.as_i64())
}

fn add(budget: &Budget, a: &Value, b: &Value) -> Made {
    if let Some(sum) = integers(a, b).and_then(|(a, b)| a.checked_add(b)) {
        return Ok(Value::from(sum));
    }
    if let (Some(left), Some(right)) = (a.as_str(), b.as_str()) {
        budget.text(left.len().checked_add(right.len()))?;
        return python::join(a, b).ok_or_else(Budget::spent);
    }
    if is_list(a) && is_list(b) {
        // A value without a known length counts as 0.
        budget.items(a.len().unwrap_or(0).checked_add(b.len().unwrap_or(0)))?;
    }
    plainly("a + b", &[a, b])
}

fn multiply(budget: &Budget, a: &Value, b: &Value) -> Made {
    for (of, times) in [(a, b), (b, a)] {
        let times = times.as_usize();
        if let Some(text) = of.as_str() {
            budget.text(times.map_or(Some(0), |times| text.len().checked_mul(times)))?;
        } else if is_list(of) {
            budget.items(times.map_or(Some(0), |times| of.len().unwrap_or(0).checked_mul(times)))?;
        }
    }
    let safe = if a.is_safe() { a } else { b };
    plainly("a * b", &[a, b]).map(|made| python::as_safe_as(safe, made))
}

fn remainder(state: &mut State, budget: &Budget, a: &Value, b: &Value) -> Made {
    if a.as_str().is_none() {
        return plainly("a % b", &[a, b]);
    }
    budget.skim(a)?;
    budget.walk(b, true)?;
    check_filter("format", &[a.clone(), b.clone()])?;
    python::format(state, a, b)
}

fn slice(budget: &Budget, of: &Value, start: &Value, stop: &Value, step: &Value) -> Made {
    match of.as_str() {
        // Texts are gone through by characters.
        Some(text) => budget.charge(text.len().saturating_mul(8))?,
        None if !is_list(of) => {
            return Err(Error::new(ErrorKind::InvalidOperation, format!("a {} has no parts", of.kind())));
        }
        None => budget.items(Some(of.len().unwrap_or(0)))?,
    }
    plainly("a[b:c:d]", &[of, start, stop, step]).map(|made| python::as_safe_as(of, made))
}

/// Has the compiled template call what is above.
pub(super) fn bound<'s>(old: &Instructions<'s>) -> Instructions<'s> {
    use Instruction::{
        Add, BuildMacro, CallFunction, Emit, EmitRaw, Eq, Gt, Gte, In, Iterate, Jump, JumpIfFalse, JumpIfFalseOrPop,
        JumpIfTrueOrPop, LoadConst, Lt, Lte, Mul, Ne, Rem, SetAttr, Slice, StoreLocal, StringConcat, Swap,
    };
    let mut new = Instructions::new(old.name(), old.source());
    // Where each of the old ones begins.
    let mut places = Vec::new();
    let mut index = 0;
    while let Some(instruction) = old.get(index) {
        let line = old.get_line(index).unwrap_or(0) as u16;
        let call = |name, operands| CallFunction(name, Some(operands));
        let list = match instruction {
            Add => vec![call("+", 2)],
            Mul => vec![call("*", 2)],
            Rem => vec![call("%", 2)],
            StringConcat => vec![call("~", 2)],
            Slice => vec![call("[:]", 4)],
            Eq => vec![call("==", 2)],
            Ne => vec![call("!=", 2)],
            In => vec![call("in", 2)],
            Lt => vec![call("<", 2)],
            Lte => vec![call("<=", 2)],
            Gt => vec![call(">", 2)],
            Gte => vec![call(">=", 2)],
            EmitRaw(text) => vec![LoadConst(Value::from(*text)), Emit],
            StoreLocal(_) => vec![call("=", 1), instruction.clone()],
            SetAttr(_) => vec![Swap, call("=", 1), Swap, instruction.clone()],
            _ => vec![instruction.clone()],
        };
        places.push(0);
        for (n, one) in list.into_iter().enumerate() {
            let at = new.add_with_line(one, line);
            if n == 0 {
                places[index as usize] = at;
            }
        }
        index += 1;
    }
    let mut at = 0;
    while let Some(instruction) = new.get_mut(at) {
        match instruction {
            Iterate(to)
            | Jump(to)
            | JumpIfFalse(to)
            | JumpIfFalseOrPop(to)
            | JumpIfTrueOrPop(to)
            | BuildMacro(_, to, _) => {
                *to = places.get(*to as usize).copied().unwrap_or(u32::MAX);
            }
            _ => (),
        }
        at += 1;
    }
    new
}

/// Puts the functions into an environment, and in front of each filter a look at what it is given.
pub(super) fn limit(environment: &mut Environment<'_>, budget: &Budget) {
    let of = |work: fn(&Budget, &Value, &Value) -> Made| {
        let budget = budget.clone();
        move |a: &Value, b: &Value| work(&budget, a, b)
    };
    environment.add_function("+", of(add));
    environment.add_function("*", of(multiply));
    environment.add_function("~", of(concatenate));
    environment.add_function("==", of(|budget, a, b| compared(budget, a, b).map(|()| Value::from(a == b))));
    environment.add_function("!=", of(|budget, a, b| compared(budget, a, b).map(|()| Value::from(a != b))));
    for operator in ["<", "<=", ">", ">="] {
        let own = budget.clone();
        environment.add_function(operator, move |a: &Value, b: &Value| {
            compared(&own, a, b)?;
            jinja::ordered(operator, a, b).map(Value::from)
        });
    }
    environment.add_function(
        "in",
        of(|budget, a, b| {
            jinja::may_be_in(a, b)?;
            match b.kind() {
                ValueKind::Map => (),
                _ => budget.skim(b)?,
            }
            plainly("a in b", &[a, b])
        }),
    );
    let own = budget.clone();
    environment.add_function("[:]", move |of: &Value, start: &Value, stop: &Value, step: &Value| {
        slice(&own, of, start, stop, step)
    });
    let own = budget.clone();
    environment.add_function("%", move |state: &mut State, a: &Value, b: &Value| remainder(state, &own, a, b));
    let own = budget.clone();
    environment.add_function("=", move |value: Value| own.walk(&value, false).map(|()| value));
    let filters = [
        ("lower", Value::from_function(filters::lower)),
        ("upper", Value::from_function(filters::upper)),
        ("title", Value::from_function(filters::title)),
        ("capitalize", Value::from_function(filters::capitalize)),
        ("replace", Value::from_function(filters::replace)),
        ("length", Value::from_function(filters::length)),
        ("count", Value::from_function(filters::length)),
        ("dictsort", Value::from_function(filters::dictsort)),
        ("items", Value::from_function(filters::items)),
        ("reverse", Value::from_function(filters::reverse)),
        ("trim", Value::from_function(filters::trim)),
        ("join", Value::from_function(filters::join)),
        ("split", Value::from_function(filters::split)),
        ("lines", Value::from_function(filters::lines)),
        ("min", Value::from_function(filters::min)),
        ("max", Value::from_function(filters::max)),
        ("sort", Value::from_function(filters::sort)),
        ("list", Value::from_function(filters::list)),
        ("string", Value::from_function(filters::string)),
        ("batch", Value::from_function(filters::batch)),
        ("slice", Value::from_function(filters::slice)),
        ("sum", Value::from_function(filters::sum)),
        ("indent", Value::from_function(filters::indent)),
        ("select", Value::from_function(filters::select)),
        ("reject", Value::from_function(filters::reject)),
        ("selectattr", Value::from_function(filters::selectattr)),
        ("rejectattr", Value::from_function(filters::rejectattr)),
        ("map", Value::from_function(jinja::map)),
        ("groupby", Value::from_function(filters::groupby)),
        ("unique", Value::from_function(filters::unique)),
        ("chain", Value::from_function(filters::chain)),
        ("zip", Value::from_function(filters::zip)),
        ("pprint", Value::from_function(filters::pprint)),
        ("format", Value::from_function(filters::format)),
        ("abs", Value::from_function(filters::abs)),
        ("attr", Value::from_function(filters::attr)),
        ("d", Value::from_function(filters::default)),
        ("default", Value::from_function(filters::default)),
        ("first", Value::from_function(filters::first)),
        ("last", Value::from_function(filters::last)),
        ("round", Value::from_function(filters::round)),
    ];
    for (name, filter) in filters {
        let budget = budget.clone();
        environment.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| -> Made {
            let mut args = jinja::bind(name, args.into_values())?;
            for arg in &args {
                match name {
                    "length" | "count" if arg.as_str().is_none() => (),
                    "join" | "string" | "pprint" | "format" | "sort" | "dictsort" | "unique" | "groupby" | "min"
                    | "max" => budget.walk(arg, true)?,
                    _ => budget.skim(arg)?,
                }
            }
            check_filter(name, &args)?;
            jinja::check(name, &args)?;
            if let Some(made) = jinja::instead(name, &args) {
                return Ok(made);
            }
            let of = args.first().cloned().unwrap_or_default();
            match name {
                "length" | "count" if of.is_undefined() => return Ok(Value::from(0)),
                "replace" if args.len() == 4 => return replace(&args, &budget),
                "format" => return python::format_all(state, &args),
                "string" | "pprint" => {
                    let text = if name == "string" && of.as_str().is_some() {
                        of
                    } else if of.as_str().is_some() {
                        Value::from(python::repr(&of))
                    } else {
                        Value::from(printed(&of, &budget)?)
                    };
                    return Ok(text);
                }
                "join" if args.len() < 3 && of.as_str().is_none() => {
                    let items = of.try_iter()?.map(|item| printed(&item, &budget).map(Value::from));
                    args[0] = items.collect::<Result<Vec<_>, _>>()?.into();
                }
                _ => (),
            }
            let made = filter.call(state, &args)?;
            let keeps = matches!(name, "lower" | "upper" | "title" | "capitalize" | "trim" | "indent");
            Ok(if keeps { python::as_safe_as(&of, made) } else { made })
        });
    }
}

/// `text|replace(from, to, count)`.
fn replace(args: &[Value], budget: &Budget) -> Made {
    let of = |n: usize| printed(&args[n], budget);
    let (text, from, to) = (of(0)?, of(1)?, of(2)?);
    check_filter("replace", &[&text, &from, &to].map(|text| Value::from(text.as_str())))?;
    Ok(Value::from(
        args[3].as_usize().map_or_else(|| text.replace(&from, &to), |count| text.replacen(&from, &to, count)),
    ))
}

/// Texts end where they differ; of others all may be gone through.
fn compared(budget: &Budget, a: &Value, b: &Value) -> Result<(), Error> {
    match (a.as_str(), b.as_str()) {
        (Some(a), Some(b)) => budget.charge(a.len().min(b.len())),
        (None, None) => budget.walk(a, true).and_then(|()| budget.walk(b, true)),
        _ => Ok(()),
    }
}
