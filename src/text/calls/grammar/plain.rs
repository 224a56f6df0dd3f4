//! Strings that stand as plain text, up to a mark that ends them.

use serde_json::{Value, json};

use super::super::reader::Tool;
use super::schema::{is_free, kinds, refuse, resolve, step};
use super::writer::{ANY, Writer, escape, sequence, union};
use crate::error::Result;

/// Alternatives inside each other.
const MOST_LEVELS: usize = 8;

/// What a string has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plain {
    Any,
    One(String),
    /// Any string that one of the expressions matches, with `min` to `max` characters.
    Like {
        patterns: Vec<String>,
        min: u64,
        max: Option<u64>,
    },
}

impl Plain {
    /// The strings that `schema` allows, where the text is taken for a string whatever it says; with `null` where that
    /// is read as such.
    pub fn of(tool: &Tool, schema: &Value, pointer: &str) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        collect(tool, schema, pointer, &mut all, MOST_LEVELS)?;
        if kinds(schema, &tool.parameters).null && !all.contains(&Self::Any) {
            all.push(Self::One("null".to_owned()));
        }
        if all.is_empty() {
            return Err(refuse(tool, pointer, "type", "no string satisfies it"));
        }
        Ok(all)
    }

    /// An expression for the strings in which `end` does not occur, and that do not begin with `avoided`.
    fn expression(&self, end: Option<&str>, avoided: Option<&str>) -> String {
        let mut out = "^".to_owned();
        if let Some(end) = end {
            out.push_str(&format!("(?!{ANY}{})", escape(end)));
        }
        if let Some(avoided) = avoided {
            out.push_str(&format!("(?!{})", escape(avoided)));
        }
        match self {
            Self::Any => out.push_str(ANY),
            Self::One(text) => out.push_str(&escape(text)),
            Self::Like { patterns, min, max } => {
                patterns.iter().for_each(|pattern| out.push_str(&format!("(?={ANY}(?:{pattern}))")));
                let max = max.map_or(String::new(), |max| max.to_string());
                out.push_str(&if (*min, max.as_str()) == (0, "") {
                    ANY.to_owned()
                } else {
                    format!(r"[\s\S]{{{min},{max}}}")
                });
            }
        }
        out + "$"
    }

    /// Text up to and with `end`. `lines`: a line's end at the beginning is not of the string, and then one at its end
    /// is not, either. `avoided`: what it does not begin with, as it would be read otherwise.
    pub fn written(all: &[Self], writer: &Writer<'_>, end: &str, lines: bool, avoided: Option<&str>) -> Value {
        if all.contains(&Self::Any) && avoided.is_none() {
            return writer.until(end);
        }
        let held = writer.is_text(end).then_some(end);
        let exactly = |all: &Self, avoided: Option<&str>| match all {
            Self::One(text)
                if !avoided.is_some_and(|avoided| text.starts_with(avoided))
                    && !held.is_some_and(|end| text.contains(end)) =>
            {
                Some(json!({ "literal": text }))
            }
            Self::One(_) => None,
            like => Some(json!({ "regex": like.expression(held, avoided) })),
        };
        let mut ways: Vec<Value> =
            all.iter().filter_map(|one| exactly(one, avoided.or(lines.then_some("\n")))).collect();
        if lines {
            let line = || json!({ "literal": "\n" });
            ways.extend(all.iter().filter_map(|one| exactly(one, None)).map(|text| sequence([line(), text, line()])));
        }
        sequence([union(ways), writer.text(end)])
    }
}

fn collect(tool: &Tool, schema: &Value, pointer: &str, all: &mut Vec<Plain>, levels: usize) -> Result<()> {
    let schema = resolve(schema, &tool.parameters);
    if *schema == Value::Bool(false) {
        return Ok(());
    }
    if is_free(schema) {
        all.push(Plain::Any);
        return Ok(());
    }
    let strings = |value: &Value| value.as_str().map(|text| Plain::One(text.to_owned()));
    let typed = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "string"),
        Value::String(kind) => kind == "string",
        _ => true,
    };
    if !typed {
        return Ok(());
    }
    // What else is asked of strings beside this.
    let beside = |except: &[&'static str]| -> Result<()> {
        const OF_STRINGS: &[&str] = &[
            "enum",
            "const",
            "pattern",
            "minLength",
            "maxLength",
            "format",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "if",
            "$ref",
            "$dynamicRef",
            "$recursiveRef",
        ];
        match OF_STRINGS.iter().find(|keyword| schema.get(**keyword).is_some() && !except.contains(*keyword)) {
            Some(keyword) => {
                Err(refuse(tool, pointer, keyword, "it cannot be kept to in a text that stands without quotes"))
            }
            None => Ok(()),
        }
    };
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        beside(&["enum"])?;
        all.extend(values.iter().filter_map(strings));
        return Ok(());
    }
    if let Some(value) = schema.get("const") {
        beside(&["const"])?;
        all.extend(strings(value));
        return Ok(());
    }
    for name in ["anyOf", "oneOf"] {
        if let Some(branches) = schema.get(name).and_then(Value::as_array) {
            beside(&[name])?;
            let before = all.len();
            let mut with_strings = 0;
            for (i, branch) in branches.iter().enumerate() {
                let from = all.len();
                let levels = levels
                    .checked_sub(1)
                    .ok_or_else(|| refuse(tool, pointer, name, "too many alternatives inside each other"))?;
                collect(tool, branch, &step(&step(pointer, name), &i.to_string()), all, levels)?;
                with_strings += usize::from(all.len() > from);
            }
            let all_differ = all[before..].iter().all(|one| {
                matches!(one, Plain::One(_)) && all[before..].iter().filter(|other| *other == one).count() == 1
            });
            if name == "oneOf" && with_strings > 1 && !all_differ {
                return Err(refuse(tool, pointer, name, "more than one of its branches may hold for a string"));
            }
            return Ok(());
        }
    }
    const OF_TEXTS: &[&str] = &["pattern", "minLength", "maxLength", "format"];
    beside(OF_TEXTS)?;
    if !OF_TEXTS.iter().any(|keyword| schema.get(*keyword).is_some()) {
        all.push(Plain::Any);
        return Ok(());
    }
    let mut patterns: Vec<String> = schema["pattern"].as_str().map(str::to_owned).into_iter().collect();
    if let Some(name) = schema["format"].as_str() {
        match format(name) {
            Some("") => (),
            Some(pattern) => patterns.push(format!("^(?:{pattern})$")),
            None => {
                return Err(refuse(
                    tool,
                    pointer,
                    "format",
                    &format!("{name:?} cannot be kept to in a text that stands without quotes"),
                ));
            }
        }
    }
    let length = |name: &str| schema.get(name).and_then(Value::as_f64).filter(|n| *n >= 0.0).map(|n| n as u64);
    all.push(Plain::Like { patterns, min: length("minLength").unwrap_or(0), max: length("maxLength") });
    Ok(())
}

/// An expression for a format; empty where it says nothing of a text.
fn format(name: &str) -> Option<&'static str> {
    Some(match name {
        "date" => DATE,
        "time" => TIME,
        "date-time" => concat_date_time(),
        "uuid" => "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
        "ipv4" => r"(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)",
        "email" => r"[A-Za-z0-9_+-]{1,30}(?:\.[A-Za-z0-9_+-]{1,30})?@[A-Za-z0-9]{1,60}(?:\.[A-Za-z0-9]{1,60})+",
        "int32" | "int64" | "uint32" | "uint64" | "float" | "double" | "decimal" | "password" | "textarea"
        | "multiline" | "markdown" | "unknown" => "",
        _ => return None,
    })
}

macro_rules! date {
    () => {
        r"\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
    };
}

macro_rules! time {
    () => {
        r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
    };
}

/// Leap days, which take the year into account, are left out; so are leap seconds.
const DATE: &str = date!();
const TIME: &str = time!();

const fn concat_date_time() -> &'static str {
    concat!(date!(), "T", time!())
}
