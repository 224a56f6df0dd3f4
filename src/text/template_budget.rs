//! What bounds the memory and the time of a chat template beside its number of instructions: operators, filters and
//! methods count the bytes and values that they go through, make no text or list beyond a limit, and what is kept in a
//! variable nests only so deep.
//!
//! Operators are calls of the functions here ([`super::template_code`]).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use minijinja::value::{Rest, Tuple, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};

use super::jinja_objects::given;
use super::methods::Method;
use super::range::{Once, Range, no_list};
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
    let context = ["a", "b"].into_iter().zip(operands).map(|(name, value)| (name, (*value).clone()));
    let made = environment.compile_expression(expression)?.eval(Value::from_pairs(context));
    // Where it failed is a place of the template, not of the expression.
    made.map_err(|e| Error::new(e.kind(), e.detail().unwrap_or_default().to_owned()))
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

/// Python neither adds to a range nor multiplies it.
fn check_lists(operator: &str, a: &Value, b: &Value) -> Result<(), Error> {
    no_list(a).or_else(|| no_list(b)).map_or(Ok(()), |name| Err(wrong(format!("{operator} is not for a {name}"))))
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// `-a`.
fn negative(a: &Value) -> Made {
    plainly("-a", &[&jinja::whole(a)])
}

fn integers(a: &Value, b: &Value) -> Option<(i64, i64)> {
    (a.is_integer() && b.is_integer()).then_some(())?;
    a.as_i64().zip(b.as_i64())
}

/// `a ** b`. Python makes a complex number of some, and refuses what is too large.
fn power(a: &Value, b: &Value) -> Made {
    let made = plainly("a ** b", &[a, b])?;
    let is_finite = |value: &Value| f64::try_from(value.clone()).is_ok_and(f64::is_finite);
    if is_finite(a) && is_finite(b) && !is_finite(&made) {
        return Err(wrong(format!("unable to calculate {a} ** {b}")));
    }
    Ok(made)
}

fn add(budget: &Budget, a: &Value, b: &Value) -> Made {
    if let Some(sum) = integers(a, b).and_then(|(a, b)| a.checked_add(b)) {
        return Ok(Value::from(sum));
    }
    if let (Some(left), Some(right)) = (a.as_str(), b.as_str()) {
        budget.text(left.len().checked_add(right.len()))?;
        return python::join(a, b).ok_or_else(Budget::spent);
    }
    check_lists("+", a, b)?;
    if is_list(a) && is_list(b) {
        // A value without a known length counts as 0.
        budget.items(a.len().unwrap_or(0).checked_add(b.len().unwrap_or(0)))?;
    }
    plainly("a + b", &[a, b])
}

fn multiply(budget: &Budget, a: &Value, b: &Value) -> Made {
    check_lists("*", a, b)?;
    let (a, b) = (&jinja::whole(a), &jinja::whole(b));
    for (of, times) in [(a, b), (b, a)] {
        if of.as_str().is_none() && !is_list(of) {
            continue;
        }
        if !times.is_integer() {
            return Err(wrong(format!("* is not for {} and {}", a.kind(), b.kind())));
        }
        if *times < Value::from(0) {
            return multiply(budget, of, &Value::from(0));
        }
        let times = times.as_usize();
        if let Some(text) = of.as_str() {
            budget.text(times.map_or(Some(0), |times| text.len().checked_mul(times)))?;
        } else {
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

/// `of[start:stop:step]`, as Python's `slice.indices` goes through it.
fn slice(budget: &Budget, of: &Value, parts: [&Value; 3]) -> Made {
    let (text, list) = match of.as_str() {
        // Texts are gone through by characters.
        Some(text) => {
            budget.charge(text.len().saturating_mul(8))?;
            (text.chars().collect(), Vec::new())
        }
        None if is_list(of) => {
            budget.items(Some(of.len().unwrap_or(0)))?;
            (Vec::new(), of.try_iter()?.collect())
        }
        None => return Err(Error::new(ErrorKind::InvalidOperation, format!("a {} has no parts", of.kind()))),
    };
    let given = |part: &Value| match part.kind() {
        ValueKind::None => Some(None),
        // What is too large is far behind either end.
        ValueKind::Number if part.is_integer() => {
            Some(part.as_i64().or(Some(if *part > Value::from(0) { i64::MAX } else { i64::MIN })))
        }
        ValueKind::Bool => Some(Some(i64::from(part.is_true()))),
        _ => None,
    };
    let [Some(start), Some(stop), Some(step)] = parts.map(given) else {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "the ends and the step of a slice should be whole numbers",
        ));
    };
    let (step, length) = (step.unwrap_or(1), text.len().max(list.len()) as i64);
    if step == 0 {
        return Err(Error::new(ErrorKind::InvalidOperation, "the step of a slice is 0"));
    }
    // Backwards the ends are the last item and the place before the first.
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let place = |given: Option<i64>, default: i64| match given {
        None => default,
        Some(at) if at < 0 => at.saturating_add(length).max(low),
        Some(at) => at.min(high),
    };
    let (start, stop) =
        if step > 0 { (place(start, low), place(stop, high)) } else { (place(start, high), place(stop, low)) };
    if let Some(range) = Range::of(of) {
        return Ok(range.part(start, stop, step));
    }
    let mut places = Vec::new();
    let mut at = start;
    while if step > 0 { at < stop } else { at > stop } {
        places.push(at as usize);
        at = at.saturating_add(step);
    }
    if of.as_str().is_some() {
        let part: String = places.iter().filter_map(|at| text.get(*at)).collect();
        return Ok(python::as_safe_as(of, Value::from(part)));
    }
    let part: Vec<Value> = places.iter().filter_map(|at| list.get(*at).cloned()).collect();
    Ok(if of.is_tuple() { Value::from_object(Tuple::from(part)) } else { Value::from(part) })
}

/// What a loop goes through, with a known length: a text's characters, what is made as it is read. Python has no loop
/// over none, where minijinja's does nothing.
fn gone_through(budget: &Budget, of: Value) -> Made {
    if of.is_none() {
        return Err(Error::new(ErrorKind::InvalidOperation, "none is not iterable"));
    }
    if let Some(text) = of.as_str() {
        let characters: Vec<String> = text.chars().map(String::from).collect();
        budget.items(Some(characters.len()))?;
        return Ok(Value::from(characters));
    }
    if of.kind() != ValueKind::Iterable || of.len().is_some() {
        return Ok(of);
    }
    let mut items = Vec::new();
    for item in of.try_iter()? {
        budget.items(Some(1))?;
        items.push(item);
    }
    Ok(Value::from(items))
}

/// `of[key]`. Python has no item at a number with a fraction part, even of 0, where minijinja takes 2.0 for 2; keys of
/// objects are equal where numbers are.
fn item(of: &Value, key: &Value) -> Made {
    if no_list(of).is_some_and(|name| name != "range") && key.as_str().is_none() {
        return Ok(Value::UNDEFINED);
    }
    let key = match key.kind() {
        ValueKind::Bool if of.kind() != ValueKind::Map => &Value::from(i64::from(key.is_true())),
        ValueKind::Number if !key.is_integer() && of.kind() != ValueKind::Map => &Value::UNDEFINED,
        _ => key,
    };
    let found = of.get_item(key)?;
    let method = key.as_str().filter(|_| found.is_undefined()).and_then(|name| Method::of(of, name));
    Ok(method.unwrap_or(found))
}

/// `a < b` and the like.
fn compare(budget: &Budget, operator: &str, a: &Value, b: &Value) -> Result<bool, Error> {
    if operator == "in" {
        jinja::may_be_in(a, b)?;
        if b.kind() != ValueKind::Map {
            budget.skim(b)?;
        }
        return Ok(plainly("a in b", &[a, b])?.is_true());
    }
    compared(budget, a, b)?;
    match operator {
        // A range is no list with the same numbers.
        "==" | "!=" => {
            let equal = match (no_list(a), no_list(b)) {
                (Some("range"), Some("range")) | (None, None) => a == b,
                (Some(a), Some(b)) => return Err(wrong(format!("{operator} is not for a {a} and a {b}"))),
                _ => false,
            };
            Ok(equal == (operator == "=="))
        }
        _ => jinja::ordered(operator, a, b),
    }
}

/// One comparison of `a < b < c`: its result, and what the next one compares.
fn compare_in_chain(budget: &Budget, a: &Value, b: &Value, operator: &str) -> Result<Vec<Value>, Error> {
    // As minijinja calls them.
    let of = |operator| compare(budget, operator, a, b);
    let holds = match operator {
        "Eq" => of("=="),
        "Ne" => of("!="),
        "Lt" => of("<"),
        "Lte" => of("<="),
        "Gt" => of(">"),
        "Gte" => of(">="),
        "In" => of("in"),
        _ => of("in").map(|is| !is),
    };
    Ok(vec![Value::from(holds?), b.clone()])
}

/// Puts the functions into an environment, and in front of each filter a look at what it is given.
pub(super) fn limit(environment: &mut Environment<'_>, budget: &Budget) {
    let of = |work: fn(&Budget, &Value, &Value) -> Made| {
        let budget = budget.clone();
        move |a: &Value, b: &Value| work(&budget, a, b)
    };
    environment.add_function("+", of(add));
    environment.add_function("*", of(multiply));
    environment.add_function("-", negative);
    environment.add_function("**", power);
    environment.add_function("~", of(concatenate));
    for operator in ["==", "!=", "<", "<=", ">", ">=", "in"] {
        let own = budget.clone();
        environment.add_function(operator, move |a: &Value, b: &Value| compare(&own, operator, a, b));
    }
    let own = budget.clone();
    environment
        .add_function("a<b<c", move |a: &Value, b: &Value, operator: &str| compare_in_chain(&own, a, b, operator));
    let own = budget.clone();
    environment.add_function("for", move |of: Value| gone_through(&own, of));
    environment.add_function("[]", item);
    environment.add_function(".", |of: &Value, name: &str| match Method::of(of, name) {
        Some(method) => Ok(method),
        None => of.get_attr(name),
    });
    // What is not in Jinja.
    for name in ["bool", "chain", "lines", "split", "zip"] {
        environment.remove_filter(name);
    }
    for name in ["endingwith", "int", "safe", "startingwith"] {
        environment.remove_test(name);
    }
    environment.remove_global("debug");
    let own = budget.clone();
    environment.add_function("[:]", move |of: &Value, start: &Value, stop: &Value, step: &Value| {
        slice(&own, of, [start, stop, step])
    });
    let own = budget.clone();
    environment.add_function("%", move |state: &mut State, a: &Value, b: &Value| remainder(state, &own, a, b));
    let own = budget.clone();
    environment.add_function("=", move |value: Value| own.walk(&value, false).map(|()| given(value)));
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
            let is_generator = Once::of(&args[0]).is_some();
            match args[0].kind() {
                _ if Once::of(&args[0]).is_some() => match name {
                    "default" | "d" | "first" | "attr" | "string" | "pprint" => (),
                    "length" | "count" | "last" => return Err(wrong(format!("{name} is not for a generator"))),
                    _ => Once::read(&mut args[0]),
                },
                // Texts are made of other values as Python does.
                ValueKind::Bool if name == "round" => args[0] = jinja::whole(&args[0]),
                ValueKind::String | ValueKind::Undefined => (),
                _ if matches!(name, "capitalize" | "lower" | "replace" | "title" | "trim" | "upper") => {
                    args[0] = Value::from(printed(&args[0], &budget)?);
                }
                _ => (),
            }
            for arg in &args {
                match name {
                    "length" | "count" if arg.as_str().is_none() => (),
                    "join" | "string" | "pprint" | "format" | "sort" | "dictsort" | "unique" | "groupby" | "min"
                    | "max" => budget.walk(arg, true)?,
                    _ => budget.skim(arg)?,
                }
            }
            check_filter(name, &args)?;
            jinja::check(state, name, &args)?;
            let of = args.first().cloned().unwrap_or_default();
            match name {
                "length" | "count" if of.is_undefined() => return Ok(Value::from(0)),
                "indent" => return jinja::indent(&of, &args[1..]),
                "replace" if args.len() == 4 => return replace(&args, &budget),
                "format" => return python::format_all(state, &args, false),
                "string" | "pprint" => {
                    let made = if name == "string" && of.as_str().is_some() {
                        of
                    } else if of.as_str().is_some() || name == "pprint" && of.is_undefined() {
                        Value::from(python::repr(&of))
                    } else {
                        Value::from(printed(&of, &budget)?)
                    };
                    // Python sorts keys, and breaks lines.
                    let text = made.as_str().unwrap_or_default();
                    if name == "pprint" && (text.len() > 76 || text.contains('{') && text.contains(", ")) {
                        return Err(wrong("pprint of what takes more than one line".to_owned()));
                    }
                    return Ok(made);
                }
                "max" => {
                    // The first of equal ones.
                    let mut items: Vec<Value> = of.try_iter()?.collect();
                    items.reverse();
                    args[0] = Value::from(items);
                }
                "join" if args.len() < 3 => {
                    let items = of.try_iter()?.map(|item| printed(&item, &budget).map(Value::from));
                    args[0] = items.collect::<Result<Vec<_>, _>>()?.into();
                    if let Some(between) = args.get_mut(1).filter(|between| between.is_none()) {
                        *between = Value::from("None");
                    }
                }
                _ => (),
            }
            let made = match jinja::instead(name, &args) {
                Some(made) => made,
                None => filter.call(state, &args)?,
            };
            if name == "groupby" {
                return jinja::groups(state, &made, &args);
            }
            let once = match name {
                "map" | "select" | "reject" | "selectattr" | "rejectattr" => true,
                "unique" | "batch" | "slice" | "items" => true,
                _ => name == "reverse" && of.as_str().is_none() && !is_generator,
            };
            if once {
                return Ok(Once::made(made.try_iter()?.collect()));
            }
            let keeps = matches!(name, "lower" | "upper" | "title" | "capitalize" | "trim");
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
