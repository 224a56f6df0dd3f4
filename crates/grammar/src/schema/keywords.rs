//! Reads the keywords of one schema that say something of the value itself; those that combine schemas are in `normal.rs`.

use std::rc::Rc;

use serde_json::{Map as Object, Value};

use super::flat::{ANY, Flat, Layer, NONE, SchemaId, Types};
use super::{Schemas, formats};
use crate::decimal::{Decimal, Rule};
use crate::error::{Error, ErrorKind, Result};

/// Keywords that only describe.
const ANNOTATIONS: [&str; 24] = [
    "$schema",
    "$id",
    "id",
    "$comment",
    "$anchor",
    "$dynamicAnchor",
    "$defs",
    "definitions",
    "$vocabulary",
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentMediaType",
    "contentEncoding",
    "contentSchema",
    "nullable",
    "discriminator",
    "externalDocs",
    "xml",
];
/// Keywords of `normal.rs`.
const APPLICATORS: [&str; 14] = [
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "enum",
    "unevaluatedProperties",
    "unevaluatedItems",
];
/// Keywords that ask for what the automaton cannot do.
const UNSUPPORTED: [(&str, &str); 6] = [
    ("$dynamicRef", "dynamic references are not followed"),
    ("$recursiveRef", "recursive references of 2019 are not followed"),
    ("minContains", "matches are not counted"),
    ("maxContains", "matches are not counted"),
    ("extends", "a keyword of draft 3"),
    ("disallow", "a keyword of draft 3"),
];

impl<'a> Schemas<'a> {
    /// What the schema says of itself, `const` and `enum` left out.
    pub(super) fn base(&mut self, id: SchemaId, object: &'a Object<String, Value>) -> Result<Flat> {
        let mut flat = Flat::of(Types::ALL);
        let mut layer = Layer::default();
        let mut has_layer = false;
        for (key, value) in object {
            self.budget.spend(1)?;
            let done = match key.as_str() {
                "type" => type_of(value).map(|(types, rule)| {
                    flat.types = types;
                    flat.rules.extend(rule);
                }),
                "minimum" => self.bound(object, value, "exclusiveMinimum", [false, true, true]).map(|r| flat.rules.push(r)),
                "maximum" => self.bound(object, value, "exclusiveMaximum", [true, true, false]).map(|r| flat.rules.push(r)),
                "exclusiveMinimum" if value.is_boolean() => Ok(()),
                "exclusiveMaximum" if value.is_boolean() => Ok(()),
                "exclusiveMinimum" => number(value).map(|d| flat.rules.push(Rule::Compare(d, [false, false, true]))),
                "exclusiveMaximum" => number(value).map(|d| flat.rules.push(Rule::Compare(d, [true, false, false]))),
                "multipleOf" => number(value).and_then(|d| {
                    if d.negative || (d.int == [0] && d.frac.is_empty()) {
                        return Err(invalid("it has to be greater than 0"));
                    }
                    flat.rules.push(Rule::Multiple(d, true));
                    Ok(())
                }),
                "minLength" => count(value).map(|n| flat.min_length = n),
                "maxLength" => count(value).map(|n| flat.max_length = limit(n)),
                "pattern" => text(value).and_then(|p| self.pattern(p)).map(|lang| flat.langs.extend(lang)),
                "format" => self.format(id, value, spelt(object), &mut flat),
                "items" if value.is_array() => list(value).map(|all| {
                    flat.prefix = all.iter().map(|v| self.schema(v, id)).collect();
                    flat.items = object.get("additionalItems").map_or(ANY, |v| self.schema(v, id));
                    flat.seen_items = if object.contains_key("additionalItems") { u32::MAX } else { all.len() as u32 };
                }),
                "items" => {
                    flat.items = self.schema(value, id);
                    flat.seen_items = u32::MAX;
                    Ok(())
                }
                "additionalItems" => Ok(()),
                "prefixItems" => list(value).map(|all| {
                    flat.prefix = all.iter().map(|v| self.schema(v, id)).collect();
                    flat.seen_items = flat.seen_items.max(all.len() as u32);
                }),
                "contains" => match object.get("minContains").and_then(Value::as_f64) {
                    Some(0.0) => Ok(()),
                    _ => {
                        flat.contains.push(self.schema(value, id));
                        Ok(())
                    }
                },
                "minContains" if matches!(value.as_f64(), Some(0.0 | 1.0)) || !object.contains_key("contains") => count(value).map(|_| ()),
                "maxContains" if !object.contains_key("contains") => count(value).map(|_| ()),
                "minItems" => count(value).map(|n| flat.min_items = n),
                "maxItems" => count(value).map(|n| flat.max_items = limit(n)),
                "uniqueItems" => match value {
                    Value::Bool(false) => Ok(()),
                    Value::Bool(true) if object.get("maxItems").and_then(Value::as_f64).is_some_and(|n| n <= 1.0) => Ok(()),
                    Value::Bool(true) => self.unsupported(id, key, "an automaton cannot compare items"),
                    _ => Err(invalid("it has to be true or false")),
                },
                "properties" => members(value).map(|map| {
                    has_layer = true;
                    layer.properties = map.iter().map(|(name, v)| (Rc::from(name.as_str()), self.schema(v, id))).collect();
                }),
                "patternProperties" => members(value).and_then(|map| {
                    has_layer = true;
                    for (pattern, v) in map {
                        let schema = self.schema(v, id);
                        let lang = self.pattern(pattern)?.unwrap_or_else(|| self.any_string());
                        layer.patterns.push((lang, schema));
                    }
                    Ok(())
                }),
                "additionalProperties" => {
                    has_layer = true;
                    layer.closed = true;
                    layer.additional = self.schema(value, id);
                    Ok(())
                }
                "propertyNames" => {
                    let schema = self.schema(value, id);
                    self.names(schema).map(|names| {
                        has_layer |= names.is_some();
                        layer.names = names;
                    })
                }
                // Drafts 3 and older say it of the member itself.
                "required" if value.is_boolean() => self.ignored(id, key, "true or false is a form of draft 3"),
                "required" => strings(value).map(|names| flat.required = names),
                "minProperties" => count(value).map(|n| flat.min_properties = n),
                "maxProperties" => count(value).map(|n| flat.max_properties = limit(n)),
                "const" => Ok(()),
                key if ANNOTATIONS.contains(&key) || APPLICATORS.contains(&key) => Ok(()),
                key => match UNSUPPORTED.iter().find(|u| u.0 == key) {
                    Some((_, why)) => self.unsupported(id, key, why),
                    // JSON Schema has unknown keywords be annotations.
                    None => self.ignored(id, key, "not a keyword of JSON Schema 2020-12"),
                },
            };
            done.map_err(|e| self.place(e, id, key))?;
        }
        // A prefix without `items` of its own kind leaves the rest open; `items` beside `prefixItems` is the rest.
        flat.required.dedup();
        flat.rules.sort();
        flat.rules.dedup();
        if has_layer {
            flat.layers.push(self.layer(id, layer));
        }
        Ok(flat)
    }

    /// A bound, exclusive where draft 4 says so in another keyword.
    fn bound(&self, object: &Object<String, Value>, value: &Value, exclusive: &str, mut ok: [bool; 3]) -> Result<Rule> {
        if object.get(exclusive) == Some(&Value::Bool(true)) {
            ok[1] = false;
        }
        number(value).map(|d| Rule::Compare(d, ok))
    }

    /// `spelt`: a `pattern` says the same.
    fn format(&mut self, id: SchemaId, value: &Value, spelt: bool, flat: &mut Flat) -> Result<()> {
        let name = text(value)?;
        if !flat.types.has(Types::STRING) || formats::is_annotation(name) {
            return Ok(());
        }
        match formats::pattern(name) {
            Some(pattern) => {
                let lang = self.whole(&pattern)?;
                flat.langs.push(lang);
                Ok(())
            }
            None if spelt => self.ignored(id, "format", &format!("`{name}` is not known: `pattern` beside it is what is enforced")),
            None => self.unsupported(id, "format", &format!("`{name}` is not known")),
        }
    }

    /// The language of names that a schema of `propertyNames` allows.
    fn names(&mut self, schema: SchemaId) -> Result<Option<u32>> {
        let flats = self.normal(schema)?;
        let mut parts = Vec::new();
        for flat in flats.iter().filter(|f| f.types.has(Types::STRING)) {
            parts.push(self.string(flat)?);
        }
        let budget = self.budget.clone();
        let all = crate::dfa::Dfa::union(&parts.iter().map(|d| &**d).collect::<Vec<_>>(), &budget)?;
        Ok((!all.is_any()).then(|| self.lang(all)))
    }

    /// Alternatives for `const` and `enum`: one for all null, booleans, numbers and strings, one for each array and object.
    pub(super) fn constants(&mut self, id: SchemaId, values: &'a [Value]) -> Result<Vec<Flat>> {
        let mut scalar = Flat::of(Types(0));
        scalar.bools = 0;
        let (mut numbers, mut texts, mut out) = (Vec::new(), Vec::new(), Vec::new());
        for value in values {
            self.budget.spend(4)?;
            match value {
                Value::Null => scalar.types.0 |= Types::NULL.0,
                Value::Bool(b) => {
                    scalar.types.0 |= Types::BOOLEAN.0;
                    scalar.bools |= 1 << u8::from(*b);
                }
                Value::Number(n) => numbers.push(Decimal::of(n)),
                Value::String(s) => texts.push(s.as_str()),
                Value::Array(list) => {
                    let mut flat = Flat::of(Types::ARRAY);
                    flat.prefix = list.iter().map(|v| self.constant(v, id)).collect();
                    flat.items = NONE;
                    flat.min_items = list.len() as u32;
                    flat.max_items = Some(list.len() as u32);
                    out.push(flat);
                }
                Value::Object(map) => {
                    let mut flat = Flat::of(Types::OBJECT);
                    let properties = map.iter().map(|(k, v)| (Rc::from(k.as_str()), self.constant(v, id))).collect();
                    flat.required = map.keys().map(|k| Rc::from(k.as_str())).collect();
                    flat.layers = vec![self.fresh_layer(Layer { properties, additional: NONE, silent: true, ..Layer::default() })];
                    out.push(flat);
                }
            }
        }
        if !numbers.is_empty() {
            scalar.types.0 |= Types::NUMBER.0;
            numbers.sort();
            numbers.dedup();
            scalar.numbers = Some(Rc::new(numbers));
        }
        if !texts.is_empty() {
            scalar.types.0 |= Types::STRING.0;
            let budget = self.budget.clone();
            let dfa = crate::dfa::Dfa::strings(texts.into_iter(), &budget)?;
            scalar.langs = vec![self.lang(dfa)];
        }
        if scalar.types.0 != 0 {
            out.push(scalar);
        }
        Ok(out)
    }
}

pub(super) fn invalid(reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidSchema, reason)
}

fn type_of(value: &Value) -> Result<(Types, Option<Rule>)> {
    let names: Vec<&str> = match value {
        Value::String(name) => vec![name],
        Value::Array(list) => list.iter().map(text).collect::<Result<_>>()?,
        _ => return Err(invalid("it has to be a type's name or a list of these")),
    };
    let mut types = Types(0);
    let mut integer = true;
    for name in names {
        types.0 |= match name {
            "null" => Types::NULL,
            "boolean" => Types::BOOLEAN,
            "string" => Types::STRING,
            "array" => Types::ARRAY,
            "object" => Types::OBJECT,
            "integer" => Types::NUMBER,
            "number" => {
                integer = false;
                Types::NUMBER
            }
            other => return Err(invalid(format!("there is no type `{other}`"))),
        }
        .0;
    }
    Ok((types, (integer && types.has(Types::NUMBER)).then_some(Rule::Integer(true))))
}

fn number(value: &Value) -> Result<Decimal> {
    value.as_number().map(Decimal::of).ok_or_else(|| invalid("it has to be a number"))
}

/// A count: a number without a fraction that is not negative; 2.0 is one.
fn count(value: &Value) -> Result<u32> {
    let n = value.as_f64().filter(|n| *n >= 0.0 && n.fract() == 0.0).ok_or_else(|| invalid("it has to be an integer that is not negative"))?;
    Ok(if n >= f64::from(u32::MAX) { u32::MAX } else { n as u32 })
}

/// An upper bound that nobody reaches is none.
fn limit(n: u32) -> Option<u32> {
    (n < u32::MAX).then_some(n)
}

pub(super) fn text(value: &Value) -> Result<&str> {
    value.as_str().ok_or_else(|| invalid("it has to be a string"))
}

pub(super) fn list(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().ok_or_else(|| invalid("it has to be a list"))
}

pub(super) fn members(value: &Value) -> Result<&Object<String, Value>> {
    value.as_object().ok_or_else(|| invalid("it has to be an object"))
}

pub(super) fn strings(value: &Value) -> Result<Vec<Rc<str>>> {
    let mut out: Vec<Rc<str>> = Vec::new();
    for name in list(value)? {
        let name = text(name)?;
        if !out.iter().any(|o| **o == *name) {
            out.push(Rc::from(name));
        }
    }
    Ok(out)
}

/// Whether patterns stand beside a `format`: libraries that make schemas have formats of their own, and write them so.
fn spelt(object: &Object<String, Value>) -> bool {
    let all_of = object.get("allOf").and_then(Value::as_array);
    object.contains_key("pattern") || all_of.is_some_and(|parts| parts.iter().any(|part| part.get("pattern").is_some()))
}
