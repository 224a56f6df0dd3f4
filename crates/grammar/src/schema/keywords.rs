//! Reads the keywords of one schema that say something of the value itself; those that combine schemas are in
//! `normal.rs`.

use std::rc::Rc;

use serde_json::{Map as Object, Value};

use super::Schemas;
use super::flat::{ANY, Contains, Flat, Layer, NONE, SchemaId, Types, merged};
use super::formats::{self, Format};
use crate::decimal::{Decimal, Rule};
use crate::error::{Error, ErrorKind, Result};

/// Keywords that only describe.
const ANNOTATIONS: [&str; 20] = [
    "$schema",
    "$id",
    "id",
    "$comment",
    "$anchor",
    "$dynamicAnchor",
    "$recursiveAnchor",
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
    "externalDocs",
    "xml",
];
/// Keywords of `normal.rs`, and what [`Schemas::base`] reads last.
const APPLICATORS: [&str; 22] = [
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "extends",
    "disallow",
    "format",
    "nullable",
    "bsonType",
    "x-kubernetes-int-or-string",
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
/// Keywords that mean nothing without another one, and those others.
const COMPANIONS: [(&str, &[&str]); 8] = [
    ("if", &["then", "else"]),
    ("then", &["if"]),
    ("else", &["if"]),
    ("minContains", &["contains"]),
    ("maxContains", &["contains"]),
    ("additionalItems", &["items"]),
    ("exclusiveMinimum", &["minimum"]),
    ("exclusiveMaximum", &["maximum"]),
];

/// The largest `minContains` and `maxContains`: each match that is counted takes states of its own.
const MAX_MATCHES: u32 = 64;

impl<'a> Schemas<'a> {
    /// What the schema says of itself, `const` and `enum` left out.
    pub(super) fn base(&mut self, id: SchemaId, object: &'a Object<String, Value>) -> Result<Flat> {
        let mut flat = Flat::of(Types::ALL);
        let mut layer = Layer::default();
        let mut has_layer = false;
        // Members that say of themselves that they have to be there.
        let mut needed: Vec<Rc<str>> = Vec::new();
        for (key, value) in object {
            self.budget.spend(1)?;
            let done = match key.as_str() {
                key if lacks(object, key, value) => {
                    let companion = COMPANIONS.iter().find(|c| c.0 == key).map_or("", |c| c.1[0]);
                    self.ignored(id, key, &format!("it has no effect without `{companion}`"))
                }
                "type" if self.draft(id, 3) && is_union(value) => Ok(()),
                "type" => type_of(value, self.draft(id, 3)).map(|(types, rule)| {
                    flat.types = types;
                    flat.rules.extend(rule);
                }),
                "minimum" => {
                    self.bound(object, value, "exclusiveMinimum", [false, true, true]).map(|r| flat.rules.push(r))
                }
                "maximum" => {
                    self.bound(object, value, "exclusiveMaximum", [true, true, false]).map(|r| flat.rules.push(r))
                }
                "exclusiveMinimum" if value.is_boolean() => Ok(()),
                "exclusiveMaximum" if value.is_boolean() => Ok(()),
                "exclusiveMinimum" => number(value).map(|d| flat.rules.push(Rule::Compare(d, [false, false, true]))),
                "exclusiveMaximum" => number(value).map(|d| flat.rules.push(Rule::Compare(d, [true, false, false]))),
                "divisibleBy" if !self.draft(id, 3) => self.ignored(id, key, "a keyword of draft 3"),
                "multipleOf" | "divisibleBy" => number(value).and_then(|d| {
                    if d.negative || (d.int == [0] && d.frac.is_empty()) {
                        return Err(invalid("it has to be greater than 0"));
                    }
                    flat.rules.push(Rule::Multiple(d, true));
                    Ok(())
                }),
                "minLength" => count(value).map(|n| flat.min_length = n),
                "maxLength" => count(value).map(|n| flat.max_length = limit(n)),
                "pattern" => text(value).and_then(|p| self.pattern(id, key, p)).map(|lang| flat.langs.extend(lang)),
                "items" if value.is_array() && object.contains_key("prefixItems") => {
                    Err(invalid("a list beside `prefixItems`"))
                }
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
                "contains" => self.contains(id, object, value, &mut flat),
                "minContains" | "maxContains" if !self.counts_contains(id) => {
                    self.ignored(id, key, "not a keyword of this draft")
                }
                "minContains" | "maxContains" => Ok(()),
                "minItems" => count(value).map(|n| flat.min_items = n),
                "maxItems" => count(value).map(|n| flat.max_items = limit(n)),
                "uniqueItems" => value
                    .as_bool()
                    .map(|unique| flat.unique = unique)
                    .ok_or_else(|| invalid("it has to be true or false")),
                "properties" => members(value).map(|map| {
                    has_layer = true;
                    layer.properties =
                        map.iter().map(|(name, v)| (Rc::from(name.as_str()), self.schema(v, id))).collect();
                    if self.draft(id, 3) {
                        for (name, v) in map {
                            if v.get("required") == Some(&Value::Bool(true)) {
                                needed.push(Rc::from(name.as_str()));
                            }
                        }
                    }
                }),
                "patternProperties" => members(value).and_then(|map| {
                    has_layer = true;
                    for (pattern, v) in map {
                        let schema = self.schema(v, id);
                        let lang = self.pattern(id, key, pattern)?.unwrap_or_else(|| self.any_string());
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
                "required" if value.is_boolean() && self.draft(id, 3) => Ok(()),
                "required" if value.is_boolean() => self.ignored(id, key, "true or false is a form of draft 3"),
                "required" => strings(value).map(|names| flat.required = names),
                "minProperties" => count(value).map(|n| flat.min_properties = n),
                "maxProperties" => count(value).map(|n| flat.max_properties = limit(n)),
                "contentEncoding" if object.contains_key("pattern") || object.get("format") == Some(value) => Ok(()),
                "contentEncoding" | "contentMediaType" | "contentSchema" => {
                    self.ignored(id, key, "what a text holds is not looked into")
                }
                "const" => Ok(()),
                key if ANNOTATIONS.contains(&key) || APPLICATORS.contains(&key) => Ok(()),
                "discriminator" => self.ignored(id, key, "a hint: what branches say themselves is enforced"),
                // JSON Schema has unknown keywords be annotations.
                key => self.ignored(id, key, "not a keyword of JSON Schema 2020-12"),
            };
            done.map_err(|e| self.place(e, id, key))?;
        }
        self.dialects(id, object, &mut flat)?;
        if let Some(value) = object.get("format") {
            self.format(id, value, spelt(object), &mut flat).map_err(|e| self.place(e, id, "format"))?;
        }
        flat.required = merged(&flat.required, &needed);
        flat.rules.sort();
        flat.rules.dedup();
        if has_layer {
            let layer = self.layer(id, layer);
            flat.layers.push(layer);
            flat.turned.push(layer);
        }
        Ok(flat)
    }

    /// Whether keywords of a draft count: those of the one that `$schema` names do, and all of them where it names
    /// none.
    pub(super) fn draft(&self, id: SchemaId, draft: u32) -> bool {
        self.documents[self.document_of(id) as usize].draft.is_none_or(|named| named == draft)
    }

    /// Whether `minContains` and `maxContains` are keywords: drafts before 2019-09 do not have them.
    fn counts_contains(&self, id: SchemaId) -> bool {
        !self.documents[self.document_of(id) as usize].ref_alone()
    }

    /// `contains` with the counts beside it. What `minContains: 0` asks for alone, every array has.
    fn contains(
        &mut self,
        id: SchemaId,
        object: &'a Object<String, Value>,
        value: &'a Value,
        flat: &mut Flat,
    ) -> Result<()> {
        let schema = self.schema(value, id);
        let mut bounds = [None; 2];
        for (key, bound) in ["minContains", "maxContains"].into_iter().zip(&mut bounds) {
            let Some(value) = object.get(key).filter(|_| self.counts_contains(id)) else { continue };
            let n = count(value).map_err(|e| self.place(e, id, key))?;
            if n <= MAX_MATCHES {
                *bound = Some(n);
            } else {
                self.unsupported(id, key, &format!("more than {MAX_MATCHES} matches are not counted"))?;
            }
        }
        let [min, mut max] = bounds;
        if max.is_some() {
            // Items beyond the most have to be anything else.
            let not = self.not(schema);
            match self.looked(not) {
                Err(e) if e.kind() == ErrorKind::Unsupported => {
                    self.unsupported(id, "maxContains", e.reason())?;
                    max = None;
                }
                looked => drop(looked?),
            }
        }
        let min = min.unwrap_or(1);
        if min > 0 || max.is_some() {
            flat.contains.push(Contains { schema, min, max });
        }
        Ok(())
    }

    /// Keywords that other dialects have for types. They count where `$schema` names no draft.
    fn dialects(&mut self, id: SchemaId, object: &'a Object<String, Value>, flat: &mut Flat) -> Result<()> {
        const NULLABLE: &str = "nullable";
        for (key, value) in object {
            let done = match (key.as_str(), value) {
                (NULLABLE | "bsonType" | "x-kubernetes-int-or-string", _) if !self.draft(id, 0) => {
                    self.ignored(id, key, "not a keyword of this draft")
                }
                ("bsonType", _) => match bson_type(value) {
                    Err(e) if e.kind() == ErrorKind::Unsupported => self.unsupported(id, key, e.reason()),
                    read => read.map(|(types, bound)| {
                        flat.types = Types(flat.types.0 & types.0);
                        if let Some(Format::Integers(least, most)) = bound.map(formats::format) {
                            flat.rules.extend(integers(least, most));
                        }
                    }),
                },
                ("x-kubernetes-int-or-string", Value::Bool(true)) => {
                    flat.types = Types(flat.types.0 & (Types::NUMBER.0 | Types::STRING.0));
                    flat.rules.push(Rule::Integer(true));
                    Ok(())
                }
                (NULLABLE, Value::Bool(true)) if !object.contains_key("type") => {
                    self.ignored(id, key, "it has no effect without `type`")
                }
                (NULLABLE, Value::Bool(_)) => Ok(()),
                (NULLABLE, _) => Err(invalid("it has to be true or false")),
                _ => Ok(()),
            };
            done.map_err(|e| self.place(e, id, key))?;
        }
        // A null beside the type, whatever else the keywords say of the type.
        if object.get(NULLABLE) == Some(&Value::Bool(true)) && object.contains_key("type") && self.draft(id, 0) {
            flat.types.0 |= Types::NULL.0;
        }
        Ok(())
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
        let (strings, numbers) = (flat.types.has(Types::STRING), flat.types.has(Types::NUMBER));
        let why = match formats::format(name) {
            Format::Text(pattern) if strings => {
                flat.langs.push(self.whole(&pattern)?);
                return Ok(());
            }
            Format::Partly(pattern, why) if strings => {
                flat.langs.push(self.whole(&pattern)?);
                format!("`{name}`: {why}")
            }
            Format::Text(_) | Format::Partly(..) => format!("`{name}` is a format of strings"),
            Format::Integers(least, most) if numbers => {
                flat.rules.extend(integers(least, most));
                return Ok(());
            }
            Format::Number if numbers => return Ok(()),
            Format::Integers(..) | Format::Number => format!("`{name}` is a format of numbers"),
            Format::Unknown if spelt => format!("`{name}` is not known: `pattern` beside it is what is enforced"),
            Format::Unknown => format!("`{name}` is no form that is known: any text is allowed"),
        };
        self.ignored(id, "format", &why)
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

    /// Alternatives for `const` and `enum`: one for all null, booleans, numbers and strings, one for each array and
    /// object.
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
                    flat.layers = vec![self.fresh_layer(Layer {
                        properties,
                        additional: NONE,
                        silent: true,
                        ..Layer::default()
                    })];
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

/// Whether a key is a keyword that says something of the value.
pub(super) fn is_condition(key: &str) -> bool {
    !ANNOTATIONS.contains(&key) && key != "$ref"
}

/// Whether another keyword that a keyword belongs to is missing.
fn lacks(object: &Object<String, Value>, key: &str, value: &Value) -> bool {
    let companions = COMPANIONS.iter().find(|c| c.0 == key).map_or(&[][..], |c| c.1);
    match key {
        "exclusiveMinimum" | "exclusiveMaximum" if *value != Value::Bool(true) => false,
        "additionalItems" => !object.get("items").is_some_and(Value::is_array),
        _ => !companions.is_empty() && !companions.iter().any(|c| object.contains_key(*c)),
    }
}

/// A list of types some of which are schemas: a form of draft 3.
pub(super) fn is_union(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().any(Value::is_object))
}

/// BSON's names (MongoDB's `$jsonSchema`), and the format that bounds its integers. Those that no JSON text has are
/// left out of a list.
fn bson_type(value: &Value) -> Result<(Types, Option<&'static str>)> {
    let one = std::slice::from_ref(value);
    let (mut types, mut any, mut bound) = (Types(0), false, None);
    for name in value.as_array().map_or(one, Vec::as_slice) {
        let name = text(name)?;
        let own = match name {
            "double" | "decimal" => "number",
            "int" | "long" => "integer",
            "bool" => "boolean",
            name => name,
        };
        let Ok((own, rule)) = type_of(&Value::from(own), false) else { continue };
        types.0 |= own.0;
        match name {
            "int" => bound = bound.or(Some("int32")),
            "long" => bound = Some("int64"),
            _ => any |= rule.is_none() && own == Types::NUMBER,
        }
    }
    if types.0 == 0 {
        return Err(Error::new(ErrorKind::Unsupported, "JSON has no text for this type of BSON"));
    }
    Ok((types, bound.filter(|_| !any)))
}

/// Integers within these bounds.
fn integers(least: &str, most: &str) -> [Rule; 3] {
    let bound = |n, ok| Rule::Compare(Decimal::integer(n), ok);
    [Rule::Integer(true), bound(least, [false, true, true]), bound(most, [true, true, false])]
}

/// `any`: a type's name in draft 3.
pub(super) fn type_of(value: &Value, any: bool) -> Result<(Types, Option<Rule>)> {
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
            "any" if any => {
                integer = false;
                Types::ALL
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
    let n = value
        .as_f64()
        .filter(|n| *n >= 0.0 && n.fract() == 0.0)
        .ok_or_else(|| invalid("it has to be an integer that is not negative"))?;
    Ok(if n >= f64::from(u32::MAX) { u32::MAX } else { n as u32 })
}

/// An upper bound; `u32::MAX` is none.
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
