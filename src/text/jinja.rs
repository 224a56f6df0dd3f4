//! What Jinja has and minijinja has otherwise or not at all: parameters of filters and tests by name and by position,
//! further filters, `cycler`, `joiner`.

use std::sync::atomic::{AtomicBool, AtomicUsize};

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, tests};

use super::jinja_objects::{Cycler, Group, Joiner, Macro, Missing};
use super::methods::{Method, capitalized, is_namespace, is_space, is_word, line, padded, titled_words};
use super::python::{as_safe_as, escape, to_string};
use super::range::no_list;
use super::template_budget::Budget;
use super::template_code::same_keys;

/// How minijinja takes what a filter is given beside its value.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Takes {
    Positions,
    Names,
}
use Takes::{Names, Positions};

/// Filters with their parameters behind the value, as Jinja 3.1 has them. Filters that are not listed take any.
const FILTERS: &[(&str, &[&str], Takes)] = &[
    ("abs", &[], Positions),
    ("attr", &["name"], Positions),
    ("batch", &["linecount", "fill_with"], Positions),
    ("capitalize", &[], Positions),
    ("center", &["width"], Positions),
    ("count", &[], Positions),
    ("d", &["default_value", "boolean"], Positions),
    ("default", &["default_value", "boolean"], Positions),
    ("dictsort", &["case_sensitive", "by", "reverse"], Names),
    ("e", &[], Positions),
    ("escape", &[], Positions),
    ("filesizeformat", &["binary"], Positions),
    ("first", &[], Positions),
    ("float", &["default"], Positions),
    ("groupby", &["attribute", "default", "case_sensitive"], Names),
    ("indent", &["width", "first", "blank"], Positions),
    ("int", &["default", "base"], Positions),
    ("items", &[], Positions),
    ("join", &["d", "attribute"], Positions),
    ("last", &[], Positions),
    ("length", &[], Positions),
    ("list", &[], Positions),
    ("lower", &[], Positions),
    ("max", &["case_sensitive", "attribute"], Names),
    ("min", &["case_sensitive", "attribute"], Names),
    ("pprint", &[], Positions),
    ("replace", &["old", "new", "count"], Positions),
    ("reverse", &[], Positions),
    ("round", &["precision", "method"], Positions),
    ("safe", &[], Positions),
    ("slice", &["slices", "fill_with"], Positions),
    ("sort", &["reverse", "case_sensitive", "attribute"], Names),
    ("string", &[], Positions),
    ("sum", &["attribute", "start"], Positions),
    ("title", &[], Positions),
    ("trim", &["chars"], Positions),
    ("truncate", &["length", "killwords", "end", "leeway"], Positions),
    ("unique", &["case_sensitive", "attribute"], Names),
    ("upper", &[], Positions),
    ("urlencode", &[], Positions),
    ("wordcount", &[], Positions),
    ("xmlattr", &["autospace"], Positions),
];

pub(super) fn wrong(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// What a filter is given, as minijinja takes it.
pub(super) fn bind(name: &str, args: Vec<Value>) -> Result<Vec<Value>, Error> {
    match FILTERS.iter().find(|(known, ..)| *known == name) {
        Some((_, parameters, takes)) => bound(name, parameters, *takes, args),
        None => Ok(args),
    }
}

pub(super) fn bound(name: &str, parameters: &[&str], takes: Takes, mut args: Vec<Value>) -> Result<Vec<Value>, Error> {
    let named = if args.last().is_some_and(Value::is_kwargs) { args.pop() } else { None };
    if args.is_empty() {
        return Err(wrong(format!("{name} is applied to nothing")));
    }
    let mut given: Vec<Option<Value>> = args.drain(1..).map(Some).collect();
    if given.len() > parameters.len() {
        return Err(wrong(format!("{name} takes {} arguments at most, not {}", parameters.len(), given.len())));
    }
    given.resize(parameters.len(), None);
    for key in named.iter().flat_map(Value::try_iter).flatten() {
        let Some(at) = parameters.iter().position(|parameter| key.as_str() == Some(parameter)) else {
            return Err(wrong(format!("{name} got an unexpected keyword argument '{key}'")));
        };
        let value = named.as_ref().map(|named| named.get_item(&key)).transpose()?;
        if std::mem::replace(&mut given[at], value).is_some() {
            return Err(wrong(format!("{name} got two values for '{key}'")));
        }
    }
    match takes {
        Positions => {
            let count = given.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
            args.extend(given.into_iter().take(count).map(Option::unwrap_or_default));
        }
        Names => {
            let kwargs: Kwargs =
                parameters.iter().zip(given).filter_map(|(name, value)| Some(((*name).to_owned(), value?))).collect();
            args.push(kwargs.into());
        }
    }
    Ok(args)
}

/// Adds what minijinja has not.
pub(super) fn add(environment: &mut Environment<'_>, budget: &Budget) {
    for (name, filter) in [
        ("center", center as fn(&Value, &[Value]) -> Result<Value, Error>),
        ("filesizeformat", file_size),
        ("truncate", truncate),
        ("xmlattr", attributes),
        ("wordcount", |value, _| {
            let text = to_string(value);
            let in_word = text.chars().map(|c| Ok(c == '_' || is_word(c)?)).collect::<Result<Vec<_>, Error>>()?;
            Ok(Value::from(in_word.split(|is| !is).filter(|word| !word.is_empty()).count()))
        }),
    ] {
        let budget = budget.clone();
        environment.add_filter(name, move |args: Rest<ValueOrKwargs>| -> Result<Value, Error> {
            let args = bind(name, args.into_values())?;
            budget.walk(&args[0], true)?;
            filter(&args[0], &args[1..])
        });
    }
    let own = budget.clone();
    environment.add_filter("urlencode", move |value: Value| -> Result<Value, Error> {
        own.walk(&value, true)?;
        urlencode(&value)
    });
    for name in ["e", "escape", "forceescape"] {
        environment.add_filter(name, move |value: &Value| {
            if value.is_safe() && name != "forceescape" {
                value.clone()
            } else {
                Value::from_safe_string(escape(&to_string(value)))
            }
        });
    }
    environment.add_function("cycler", |items: Rest<Value>| -> Result<Value, Error> {
        if items.is_empty() {
            Err(wrong("cycler: at least one item has to be given".to_owned()))
        } else {
            Ok(Value::from_object(Cycler { items: items.0, at: AtomicUsize::new(0) }))
        }
    });
    environment.add_function(".cycle", |state: &mut State, of: Value, items: Rest<Value>| -> Result<Value, Error> {
        // minijinja divides by their number.
        if items.is_empty() {
            return Err(wrong("cycle: at least one item has to be given".to_owned()));
        }
        of.call_method(state, "cycle", &items)
    });
    for (name, varargs, kwargs) in [
        ("closed macro", false, false),
        ("macro of varargs", true, false),
        ("macro of kwargs", false, true),
        ("macro of both", true, true),
    ] {
        environment.add_function(name, move |inner: Value| Value::from_object(Macro { inner, varargs, kwargs }));
    }
    environment.add_function("{}", |parts: Value| {
        let parts: Vec<Value> = parts.try_iter()?.collect();
        object(parts.as_chunks().0.iter().map(|[key, value]| (key.clone(), value.clone())).collect())
    });
    environment.add_function("filter block", |made: Value| match made.kind() {
        ValueKind::String => Ok(made),
        kind => Err(wrong(format!("what the filter of a block makes is no text, but a {kind}"))),
    });
    environment.add_function("is missing", |value: &Value| value.downcast_object_ref::<Missing>().is_some());
    environment.add_function("namespace", |state: &mut State, of: Option<Value>, named: Kwargs| {
        let all = minijinja::functions::dict(of.map(of_pairs).transpose()?, named)?;
        Value::from_function(minijinja::functions::namespace).call(state, &[all])
    });
    environment.add_function("dict", |of: Option<Value>, named: Kwargs| {
        minijinja::functions::dict(of.map(of_pairs).transpose()?, named)
    });
    environment.add_function("range", super::range::range);
    environment.add_function("joiner", |args: Rest<ValueOrKwargs>| -> Result<Value, Error> {
        // The value of a filter stands where a function has none.
        let args = [vec![Value::default()], args.into_values()].concat();
        let between = bound("joiner", &["sep"], Positions, args)?.into_iter().nth(1);
        Ok(Value::from_object(Joiner {
            between: between.unwrap_or_else(|| Value::from(", ")),
            used: AtomicBool::new(false),
        }))
    });
    for (name, parameter, test) in [
        (
            "sameas",
            "other",
            Value::from_function(|a: &Value, b: &Value| -> Result<bool, Error> {
                let same = tests::is_sameas(a, b);
                let small = a.is_integer() && a.as_i64().is_some_and(|number| (-5..=256).contains(&number));
                // In Python equal ones are the same or not by where they come from.
                if same && !small && matches!(a.kind(), ValueKind::Number | ValueKind::String) {
                    return Err(wrong(format!("sameas is not for a {}", a.kind())));
                }
                Ok(same)
            }),
        ),
        (
            "divisibleby",
            "num",
            Value::from_function(|a: &Value, b: &Value| -> Result<bool, Error> {
                numbers("%", a, b)?;
                if f64::try_from(whole(b))? == 0.0 {
                    return Err(wrong("divisibleby: 0 divides nothing".to_owned()));
                }
                Ok(tests::is_divisibleby(a, b))
            }),
        ),
        (
            "in",
            "seq",
            Value::from_function(|state: &State, a: &Value, b: &Value| {
                may_be_in(a, b).and_then(|()| tests::is_in(state, a, b))
            }),
        ),
    ] {
        environment.add_test(name, move |state: &mut State, args: Rest<ValueOrKwargs>| -> Result<bool, Error> {
            Ok(test.call(state, &bound(name, &[parameter], Positions, args.into_values())?)?.is_true())
        });
    }
    for (names, operator) in [
        (["lt", "lessthan", "<"], "<"),
        (["le", "le", "<="], "<="),
        (["gt", "greaterthan", ">"], ">"),
        (["ge", "ge", ">="], ">="),
    ] {
        for name in names {
            environment.add_test(name, move |a: &Value, b: &Value| ordered(operator, a, b));
        }
    }
    for (name, upper) in [("upper", true), ("lower", false)] {
        environment.add_test(name, move |value: &Value| {
            let text = to_string(value);
            let is = |c: char| if upper { c.is_uppercase() } else { c.is_lowercase() };
            text.chars().any(is) && !text.chars().any(|c| (c.is_uppercase() || c.is_lowercase()) && !is(c))
        });
    }
    for (name, rest) in [("odd", 1), ("even", 0)] {
        environment.add_test(name, move |value: &Value| -> Result<bool, Error> {
            numbers("%", value, &Value::from(2))?;
            Ok(f64::try_from(whole(value))?.rem_euclid(2.0) == f64::from(rest))
        });
    }
    environment.add_test("callable", |value: &Value| {
        value.kind() == ValueKind::Plain && value.as_object().is_some_and(|object| !object.is::<Cycler>())
    });
}

/// An object of what `dict` takes: another, or a list of pairs.
fn of_pairs(of: Value) -> Result<Value, Error> {
    if !matches!(of.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Ok(of);
    }
    let pair = |pair: Value| match pair.len() {
        Some(2) => Ok((pair.get_item_by_index(0)?, pair.get_item_by_index(1)?)),
        _ => Err(wrong("an object is made of another or of pairs".to_owned())),
    };
    object(of.try_iter()?.map(pair).collect::<Result<_, _>>()?)
}

/// An object of keys and values.
fn object(pairs: Vec<(Value, Value)>) -> Result<Value, Error> {
    let keys: Vec<Value> = pairs.iter().map(|pair| pair.0.clone()).collect();
    same_keys(&keys).map_or_else(|| Ok(Value::from_pairs(pairs)), |e| Err(wrong(e)))
}

fn is_number(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Number | ValueKind::Bool)
}

/// True and false as numbers; others as they are.
pub(super) fn whole(value: &Value) -> Value {
    if value.kind() == ValueKind::Bool { Value::from(i64::from(value.is_true())) } else { value.clone() }
}

fn numbers(operator: &str, a: &Value, b: &Value) -> Result<(), Error> {
    if is_number(a) && is_number(b) {
        Ok(())
    } else {
        Err(wrong(format!("{operator} is not for {} and {}", a.kind(), b.kind())))
    }
}

/// Whether `a in b` may be asked. Python finds nothing but texts in texts.
pub(super) fn may_be_in(a: &Value, b: &Value) -> Result<(), Error> {
    let texts = b.as_str().is_none() || a.as_str().is_some();
    let holds = matches!(
        b.kind(),
        ValueKind::String
            | ValueKind::Seq
            | ValueKind::Map
            | ValueKind::Iterable
            | ValueKind::Undefined
            | ValueKind::Plain
    );
    // Keys of objects are what has a hash.
    let hashed = b.kind() != ValueKind::Map || !has_no_hash(a);
    if texts && holds && hashed { Ok(()) } else { Err(wrong(format!("a {} cannot be in a {}", a.kind(), b.kind()))) }
}

fn has_no_hash(value: &Value) -> bool {
    let is_list = matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) && no_list(value).is_none();
    value.kind() == ValueKind::Map || is_list && !value.is_tuple()
}

/// `a < b` and the like, of what Python orders: numbers, texts, and lists of these.
pub(super) fn ordered(operator: &str, a: &Value, b: &Value) -> Result<bool, Error> {
    let order = compared(a, b).ok_or_else(|| wrong(format!("{operator} is not for {} and {}", a.kind(), b.kind())))?;
    // What is no number is in no order.
    Ok(order.is_some_and(|order| match operator {
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    }))
}

/// The order of two values; none where Python has none, and none within where one is no number.
fn compared(a: &Value, b: &Value) -> Option<Option<std::cmp::Ordering>> {
    match (a.as_str(), b.as_str()) {
        (Some(a), Some(b)) => return Some(Some(a.cmp(b))),
        (None, None) => (),
        _ => return None,
    }
    if is_number(a) && is_number(b) {
        let (a, b) = (whole(a), whole(b));
        return Some(match (i128::try_from(a.clone()).ok(), i128::try_from(b.clone()).ok()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => f64::try_from(a).ok()?.partial_cmp(&f64::try_from(b).ok()?),
        });
    }
    if a.kind() != ValueKind::Seq || b.kind() != ValueKind::Seq || a.is_tuple() != b.is_tuple() {
        return None;
    }
    for (a, b) in a.try_iter().ok()?.zip(b.try_iter().ok()?) {
        if a != b {
            return compared(&a, &b);
        }
    }
    Some(Some(a.len().cmp(&b.len())))
}

/// Refuses capital letters that minijinja does not take for their small ones where these are to be the same.
fn comparable(name: &str, args: &[Value], keys: &[Value]) -> Result<(), Error> {
    let sensitive = args.last().filter(|last| last.is_kwargs()).and_then(|named| named.get_attr("case_sensitive").ok());
    let is_other = |c: char| !c.is_ascii() && !c.to_lowercase().eq([c]);
    if !sensitive.is_some_and(|value| value.is_true())
        && keys.iter().filter_map(Value::as_str).any(|key| key.contains(is_other))
    {
        return Err(wrong(format!("{name}: capital letters beyond A to Z, without case_sensitive")));
    }
    Ok(())
}

fn all_ordered(keys: &[Value]) -> Result<(), Error> {
    keys.windows(2).try_for_each(|pair| ordered("<", &pair[0], &pair[1]).map(drop))
}

/// What a path leads to in each of some values.
fn attributes_of(state: &mut State, of: &[Value], path: Value, default: Option<Value>) -> Result<Vec<Value>, Error> {
    let default = default.map(|value| ("default".to_owned(), value));
    let named: Kwargs = [("attribute".to_owned(), path)].into_iter().chain(default).collect();
    let found = Value::from_function(minijinja::filters::map).call(state, &[Value::from(of), named.into()])?;
    Ok(found.try_iter()?.collect())
}

/// What Jinja refuses of what is given to a filter, and minijinja takes.
pub(super) fn check(state: &mut State, name: &str, args: &[Value]) -> Result<(), Error> {
    let of = &args[0];
    match name {
        "batch" | "slice" | "list" | "sort" | "unique" | "sum" | "join" | "first" | "last" | "reverse" | "groupby"
        | "min" | "max" | "length" | "count"
            if of.is_none() || is_number(of) =>
        {
            Err(wrong(format!("{name}: a {} has no items", of.kind())))
        }
        "dictsort" if of.kind() == ValueKind::Map => {
            let by = args.last().and_then(|named| named.get_attr("by").ok());
            let by = by.filter(|by| !by.is_undefined());
            let by_value = by.as_ref().is_some_and(|by| by.as_str() == Some("value"));
            if by.is_some_and(|by| !matches!(by.as_str(), Some("key" | "value"))) {
                return Err(wrong("dictsort: by should be 'key' or 'value'".to_owned()));
            }
            let key = |key: Value| if by_value { of.get_item(&key) } else { Ok(key) };
            let keys = of.try_iter()?.map(key).collect::<Result<Vec<_>, _>>()?;
            comparable(name, args, &keys)?;
            all_ordered(&keys)
        }
        "unique"
            if !args.last().is_some_and(|named| {
                named.is_kwargs() && named.get_attr("attribute").is_ok_and(|name| !name.is_undefined())
            }) =>
        {
            let is_bool = |item: &Value| item.kind() == ValueKind::Bool;
            let mixed = of.try_iter()?.any(|item| is_bool(&item))
                && of.try_iter()?.any(|item| item.kind() == ValueKind::Number);
            let whole = of.try_iter()?.find(|item| has_no_hash(item) || mixed && is_bool(item));
            comparable(name, args, &of.try_iter()?.collect::<Vec<_>>())?;
            whole.map_or(Ok(()), |item| Err(wrong(format!("unique: a {} is not told apart", item.kind()))))
        }
        "attr" if args.get(1).is_none_or(|name| name.as_str().is_none()) => {
            Err(wrong("attr: the name of an attribute should be a text".to_owned()))
        }
        "sum" if args.get(2).is_some_and(|start| start.as_str().is_some()) => {
            Err(wrong("sum: texts are joined by join".to_owned()))
        }
        "trim" if args.get(1).is_some_and(|chars| !chars.is_none() && chars.as_str().is_none()) => {
            Err(wrong("trim: the characters should be a text".to_owned()))
        }
        "replace" if args.get(3).is_some_and(|count| !count.is_none() && !whole(count).is_integer()) => {
            Err(wrong("replace: the count should be a whole number".to_owned()))
        }
        "round"
            if args.get(2).is_some_and(|method| {
                !method.as_str().is_some_and(|method| matches!(method, "common" | "ceil" | "floor"))
            }) =>
        {
            Err(wrong("round: the method should be common, ceil or floor".to_owned()))
        }
        "indent" if of.as_str().is_none() => Err(wrong(format!("indent: a {} has no lines", of.kind()))),
        "sort" | "min" | "max" | "sum" | "unique" | "groupby" => {
            let reverse = args.last().and_then(|named| named.get_attr("reverse").ok());
            if reverse.is_some_and(|reverse| reverse.is_none()) {
                return Err(wrong(format!("{name}: reverse should be true or false")));
            }
            let is_compared = matches!(name, "sort" | "min" | "max");
            let named = match name {
                "sum" => args.get(1).cloned(),
                _ => args.last().filter(|last| last.is_kwargs()).and_then(|named| named.get_attr("attribute").ok()),
            };
            let items: Vec<Value> = of.try_iter()?.collect();
            let Some(named) = named.filter(|name| !name.is_undefined() && !name.is_none()) else {
                if is_compared {
                    comparable(name, args, &items)?;
                    all_ordered(&items)?;
                }
                return Ok(());
            };
            let Some(paths) = named.as_str() else {
                return all_ordered(&items.iter().map(|item| item.get_item(&named)).collect::<Result<Vec<_>, _>>()?);
            };
            // Several attributes are compared one after the other.
            for path in paths.split(',') {
                let keys = attributes_of(state, &items, path.into(), None)?;
                if name != "sum" {
                    comparable(name, args, &keys)?;
                }
                if keys.iter().any(Value::is_undefined) && (is_compared && keys.len() > 1 || name == "sum") {
                    return Err(wrong(format!("{name}: an item has no '{path}'")));
                }
                if path == paths && is_compared {
                    all_ordered(&keys)?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// What filters make that Jinja has otherwise; none where minijinja does it right.
pub(super) fn instead(name: &str, args: &[Value]) -> Option<Value> {
    let of = &args[0];
    match name {
        // Jinja tests the value's truth first: for none and 0 it gives an empty list.
        "map" | "select" | "reject" | "selectattr" | "rejectattr"
            if (of.is_none() || is_number(of)) && !of.is_true() =>
        {
            Some(Value::from(Vec::<Value>::new()))
        }
        // An object has methods and no other attributes.
        "attr" if of.kind() == ValueKind::Map => {
            let name = args.get(1).and_then(Value::as_str)?;
            if is_namespace(of) {
                return None;
            }
            Some(Method::of(of, name).unwrap_or_default())
        }
        "capitalize" => of.as_str().map(capitalized),
        "title" => of.as_str().map(titled_words),
        "trim" if args.get(1).is_none_or(|chars| chars.is_none() || chars.is_undefined()) => {
            of.as_str().map(|text| Value::from(text.trim_matches(is_space)))
        }
        "abs" if of.kind() == ValueKind::Bool => Some(whole(of)),
        "round" => rounded(args),
        "last" if of.kind() == ValueKind::Map => of.try_iter().ok()?.last(),
        "reverse" if of.kind() == ValueKind::Map => {
            let mut keys: Vec<Value> = of.try_iter().ok()?.collect();
            keys.reverse();
            Some(Value::from(keys))
        }
        _ => None,
    }
}

/// `round` of a whole number by another method than the usual one is no whole number any more.
fn rounded(args: &[Value]) -> Option<Value> {
    let method = args.get(2).and_then(Value::as_str).filter(|method| matches!(*method, "ceil" | "floor"))?;
    let value = i128::try_from(args[0].clone()).ok().filter(|_| args[0].is_integer())? as f64;
    let places = args.get(1).and_then(Value::as_i64).unwrap_or(0);
    if places >= 0 {
        return Some(Value::from(value));
    }
    let factor = 10f64.powi(places as i32);
    let scaled = value * factor;
    Some(Value::from(if method == "ceil" { scaled.ceil() } else { scaled.floor() } / factor))
}

/// The groups that minijinja made, each with what groups its first item.
pub(super) fn groups(state: &mut State, made: &Value, args: &[Value]) -> Result<Value, Error> {
    let given = |name: &str| args.last()?.get_attr(name).ok().filter(|value| !value.is_undefined() && !value.is_none());
    let (path, default) = (given("attribute").unwrap_or_default(), given("default"));
    let mut groups = Vec::new();
    for group in made.try_iter()? {
        let list: Vec<Value> = group.get_item_by_index(1)?.try_iter()?.collect();
        let by = attributes_of(state, &list, path.clone(), default.clone())?;
        let grouper = by.first().filter(|_| !by.iter().any(Value::is_undefined));
        let grouper = grouper.ok_or_else(|| wrong(format!("groupby: an item has no '{path}'")))?.clone();
        groups.push(Value::from_object(Group { grouper, list: Value::from(list) }));
    }
    Ok(Value::from(groups))
}

fn center(value: &Value, args: &[Value]) -> Result<Value, Error> {
    let width = args.first().map_or(Some(80), |width| width.as_i64().map(|width| width.max(0) as usize));
    let width = width.ok_or_else(|| wrong("center: the width should be a whole number".to_owned()))?;
    if width > super::template_limits::MOST_WIDTH {
        return Err(wrong(format!("center would make more than {} columns", super::template_limits::MOST_WIDTH)));
    }
    Ok(Value::from(padded(&to_string(value), "center", width, None)))
}

/// `truncate(length=255, killwords=False, end='...', leeway=5)`.
fn truncate(value: &Value, args: &[Value]) -> Result<Value, Error> {
    let given = |n: usize| args.get(n).filter(|value| !value.is_undefined());
    let number = |n: usize, default: usize| match given(n) {
        None => Ok(default),
        Some(value) if value.is_none() && n == 3 => Ok(default),
        Some(value) => value
            .as_usize()
            .ok_or_else(|| wrong("truncate: length and leeway should be whole numbers from 0 on".to_owned())),
    };
    let (length, leeway) = (number(0, 255)?, number(3, 5)?);
    let end = match given(2).map(|end| end.as_str()) {
        None => "...",
        Some(Some(end)) => end,
        Some(None) => return Err(wrong("truncate: the end should be a text".to_owned())),
    };
    let room = length
        .checked_sub(end.chars().count())
        .ok_or_else(|| wrong(format!("truncate: expected length >= {}, got {length}", end.chars().count())))?;
    if value.is_undefined() || value.len().is_some_and(|len| len <= length.saturating_add(leeway)) {
        return Ok(value.clone());
    }
    let text = value.as_str().ok_or_else(|| wrong(format!("truncate: a {} cannot be cut", value.kind())))?;
    let cut: String = text.chars().take(room).collect();
    let cut = if given(1).is_some_and(Value::is_true) {
        &cut
    } else {
        cut.rsplit_once(' ').map_or(cut.as_str(), |(before, _)| before)
    };
    Ok(Value::from(format!("{cut}{end}")))
}

/// `indent(width=4, first=False, blank=False)`. The width may be a text.
pub(super) fn indent(value: &Value, args: &[Value]) -> Result<Value, Error> {
    let text = value.as_str().unwrap_or_default();
    let is = |n: usize| args.get(n).is_some_and(Value::is_true);
    let by = match args.first() {
        None => " ".repeat(4),
        Some(width) if width.is_undefined() => " ".repeat(4),
        Some(width) => match (width.as_str(), whole(width).as_i64()) {
            (Some(text), _) => text.to_owned(),
            (None, Some(width)) => " ".repeat(width.clamp(0, super::template_limits::MOST_WIDTH as i64) as usize),
            _ => return Err(wrong("indent: the width should be a whole number or a text".to_owned())),
        },
    };
    let (mut out, mut rest) = (String::new(), text);
    loop {
        let (end, next) = line(rest);
        if if out.is_empty() && rest.len() == text.len() { is(1) } else { is(2) || end > 0 } {
            out.push_str(&by);
        }
        out.push_str(&rest[..end]);
        if next == end {
            break;
        }
        out.push('\n');
        rest = &rest[next..];
    }
    Ok(as_safe_as(value, Value::from(out)))
}

/// `filesizeformat(binary=False)`.
fn file_size(value: &Value, args: &[Value]) -> Result<Value, Error> {
    let number = match value.as_str() {
        Some(text) => text.trim().parse().ok(),
        None => f64::try_from(whole(value)).ok(),
    };
    let bytes: f64 = number
        .filter(|number: &f64| !number.is_nan() && *number != f64::NEG_INFINITY)
        .ok_or_else(|| wrong(format!("filesizeformat: a {} is no number", value.kind())))?;
    let binary = args.first().is_some_and(Value::is_true);
    let (base, unit) = if binary { (1024.0, "iB") } else { (1000.0, "B") };
    if bytes == 1.0 {
        return Ok(Value::from("1 Byte"));
    }
    if bytes < base {
        // Adding 0 takes the sign of a zero away: an integer has none.
        return Ok(Value::from(format!("{} Bytes", bytes.trunc() + 0.0)));
    }
    let prefixes = if binary { "KMGTPEZY" } else { "kMGTPEZY" };
    let unit_of = |n: usize| base.powi(n as i32 + 2);
    let (n, prefix) =
        prefixes.chars().enumerate().find(|(n, _)| bytes < unit_of(*n) || n + 1 == prefixes.len()).unwrap_or_default();
    Ok(Value::from(format!("{:.1} {prefix}{unit}", base * bytes / unit_of(n))))
}

/// `xmlattr(autospace=True)`: attributes of an element.
fn attributes(value: &Value, args: &[Value]) -> Result<Value, Error> {
    if value.kind() != ValueKind::Map {
        return Err(wrong(format!("xmlattr: a {} has no keys", value.kind())));
    }
    let text = |value: &Value| if value.is_safe() { to_string(value) } else { escape(&to_string(value)) };
    let mut out = String::new();
    for key in value.try_iter()? {
        let item = value.get_item(&key)?;
        if item.is_none() || item.is_undefined() {
            continue;
        }
        let name = to_string(&key);
        if name.contains([' ', '\t', '\n', '\r', '\u{b}', '\u{c}', '/', '>', '=']) {
            return Err(wrong(format!("xmlattr: '{name}' is no name of an attribute")));
        }
        let space = if out.is_empty() && args.first().is_some_and(|auto| !auto.is_undefined() && !auto.is_true()) {
            ""
        } else {
            " "
        };
        out.push_str(&format!("{space}{}=\"{}\"", text(&key), text(&item)));
    }
    Ok(Value::from(out))
}

/// Percent-encodes a text for an address's path, or pairs as a query.
fn urlencode(value: &Value) -> Result<Value, Error> {
    let quote = |value: &Value, query: bool| {
        let mut out = String::new();
        for byte in to_string(value).bytes() {
            match byte {
                b' ' if query => out.push('+'),
                b'/' if !query => out.push('/'),
                _ if byte.is_ascii_alphanumeric() || b"_.-~".contains(&byte) => out.push(char::from(byte)),
                _ => out.push_str(&format!("%{byte:02X}")),
            }
        }
        out
    };
    let pair = |key: &Value, value: &Value| format!("{}={}", quote(key, true), quote(value, true));
    let pairs = match value.kind() {
        ValueKind::Map => {
            value.try_iter()?.map(|key| Ok(pair(&key, &value.get_item(&key)?))).collect::<Result<Vec<_>, Error>>()?
        }
        ValueKind::Seq | ValueKind::Iterable => {
            // As Python unpacks pairs: a map is its keys, a text its characters.
            let of = |item: Value| match item.try_iter()?.take(3).collect::<Vec<_>>().as_slice() {
                [key, value] => Ok(pair(key, value)),
                _ => Err(wrong("urlencode: a list should be of pairs".to_owned())),
            };
            value.try_iter()?.map(of).collect::<Result<Vec<_>, Error>>()?
        }
        _ => return Ok(Value::from(quote(value, false))),
    };
    Ok(Value::from(pairs.join("&")))
}

/// `map('filter', …)` and `map(attribute=…, default=…)`. What stands behind the filter's name it gets, also by name.
pub(super) fn map(state: &mut State, value: Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    match args.first().filter(|first| !first.is_kwargs()) {
        Some(name) => {
            let name = name.as_str().ok_or_else(|| wrong("map: the name of a filter should be a text".to_owned()))?;
            let apply = |item: Value| state.apply_filter(name, &[&[item], &args[1..]].concat());
            Ok(Value::from(value.try_iter()?.map(apply).collect::<Result<Vec<_>, _>>()?))
        }
        None => {
            // A default of none is none.
            let named = args.last().filter(|last| last.is_kwargs());
            let of = |name: &str| Some((name.to_owned(), named?.get_attr(name).ok().filter(|value| !value.is_none())?));
            let mut args = args.clone();
            if of("default").is_none() && named.and_then(Value::len) == Some(2) {
                args = vec![["attribute"].into_iter().filter_map(of).collect::<Kwargs>().into()];
            }
            Value::from_function(minijinja::filters::map).call(state, &[&[value], &args[..]].concat())
        }
    }
}
