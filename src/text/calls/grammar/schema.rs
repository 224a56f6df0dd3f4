//! What a schema says, as far as formats that are not JSON have to know it.

use serde_json::{Map, Value, json};

use super::super::reader::Tool;
use crate::error::{Error, ErrorKind, Result, SchemaFault};

/// References one behind the other.
const MOST_REFERENCES: usize = 16;

/// Keywords by which a schema asks something of a value. All others are annotations, or places for schemas to be
/// referred to.
const ASSERTIONS: &[&str] = &[
    "type",
    "enum",
    "const",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "format",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxContains",
    "minContains",
    "contains",
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "maxProperties",
    "minProperties",
    "required",
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
];

/// A schema that cannot be kept to.
pub fn refuse(tool: &Tool, pointer: &str, keyword: &str, reason: &str) -> Error {
    let place = if pointer.is_empty() { String::new() } else { format!(" at {pointer}") };
    let fault = SchemaFault { pointer: pointer.to_owned(), keyword: keyword.to_owned(), reason: reason.to_owned() };
    Error::new(ErrorKind::UnsupportedSchema, format!("the tool {:?}: {keyword}{place}: {reason}", tool.name))
        .with_source(fault)
}

/// The first keyword of these that asks something.
pub fn asserted<'s>(schema: &'s Value, except: &[&str]) -> Option<&'s str> {
    schema.as_object()?.keys().map(String::as_str).find(|key| ASSERTIONS.contains(key) && !except.contains(key))
}

/// Whether any value will do.
pub fn is_free(schema: &Value) -> bool {
    match schema {
        Value::Bool(any) => *any,
        Value::Object(_) => asserted(schema, &[]).is_none(),
        _ => true,
    }
}

/// What a schema that is only a reference, or a list of one condition, stands for. `root`: the document that it is of.
pub fn resolve<'s>(mut schema: &'s Value, root: &'s Value) -> &'s Value {
    for _ in 0..MOST_REFERENCES {
        let next = match (schema.get("$ref"), schema.get("allOf")) {
            (Some(Value::String(to)), None) if asserted(schema, &["$ref"]).is_none() => {
                to.strip_prefix('#').and_then(|pointer| root.pointer(pointer))
            }
            (None, Some(Value::Array(all))) if all.len() == 1 && asserted(schema, &["allOf"]).is_none() => all.first(),
            _ => None,
        };
        match next {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}

/// A step of a JSON pointer.
pub fn step(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.contains_key("$ref") || map.values().any(refers),
        Value::Array(list) => list.iter().any(refers),
        _ => false,
    }
}

/// References into a document, of which `prefix` has become the place.
fn moved(schema: &Value, prefix: &str) -> Value {
    match schema {
        Value::Object(map) => {
            let member = |(key, value): (&String, &Value)| {
                let value = match (key.as_str(), value) {
                    ("$ref", Value::String(to)) => {
                        to.strip_prefix('#').map_or_else(|| value.clone(), |rest| json!(format!("#{prefix}{rest}")))
                    }
                    ("const" | "enum" | "default" | "examples", value) => value.clone(),
                    (_, value) => moved(value, prefix),
                };
                (key.clone(), value)
            };
            Value::Object(map.iter().map(member).collect())
        }
        Value::Array(list) => list.iter().map(|value| moved(value, prefix)).collect(),
        value => value.clone(),
    }
}

/// A value of JSON that satisfies `schema`, which is a part of `root`.
pub fn described(schema: &Value, root: &Value) -> Value {
    if !refers(schema) {
        return json!({ "schema": schema });
    }
    let mut whole = match moved(schema, "/$defs/tool") {
        Value::Object(map) => map,
        other => return json!({ "schema": other }),
    };
    let mut definitions = Map::new();
    definitions.insert("tool".to_owned(), moved(root, "/$defs/tool"));
    whole.insert("$defs".to_owned(), Value::Object(definitions));
    json!({ "schema": whole })
}

/// The arguments of a tool as JSON: an object, whatever else its schema says.
pub fn arguments(tool: &Tool) -> Result<Value> {
    let mut schema = match &tool.parameters {
        Value::Null | Value::Bool(true) => Map::new(),
        Value::Object(map) => map.clone(),
        _ => return Err(refuse(tool, "", "parameters", "the schema of arguments should be an object")),
    };
    let object = match schema.get("type") {
        None => true,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(kind) => kind == "object",
    };
    if !object {
        return Err(refuse(tool, "", "type", "arguments are an object"));
    }
    schema.insert("type".to_owned(), json!("object"));
    Ok(json!({ "schema": schema }))
}

/// What an argument may be, by its schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kinds {
    pub string: bool,
    pub null: bool,
    pub boolean: bool,
    pub number: bool,
    pub list: bool,
    pub object: bool,
}

impl Kinds {
    /// These, where the schema says anything of kinds.
    pub fn known(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }

    /// Whether it may be anything but text or nothing.
    pub fn other(self) -> bool {
        self.boolean || self.number || self.list || self.object
    }

    /// Whether a value is of one of them.
    pub fn fit(self, value: &Value) -> bool {
        match value {
            Value::Null => self.null,
            Value::Bool(_) => self.boolean,
            Value::Number(_) => self.number,
            Value::String(_) => self.string,
            Value::Array(_) => self.list,
            Value::Object(_) => self.object,
        }
    }
}

/// What `schema`, a part of `root`, allows. Where it does not say, nothing is known of it.
pub fn kinds(schema: &Value, root: &Value) -> Kinds {
    let mut kinds = Kinds::default();
    collect(schema, root, &mut kinds, 4);
    kinds
}

fn collect(schema: &Value, root: &Value, kinds: &mut Kinds, levels: usize) {
    let schema = resolve(schema, root);
    let mut add = |kind: &str| match kind {
        "string" => kinds.string = true,
        "null" => kinds.null = true,
        "boolean" => kinds.boolean = true,
        "integer" | "number" => kinds.number = true,
        "array" => kinds.list = true,
        "object" => kinds.object = true,
        _ => (),
    };
    let of = |value: &Value| match value {
        Value::String(_) => "string",
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    match &schema["type"] {
        Value::Array(all) => all.iter().filter_map(Value::as_str).for_each(add),
        Value::String(kind) => add(kind),
        _ if schema.get("enum").is_some() || schema.get("const").is_some() => {
            schema["enum"].as_array().into_iter().flatten().chain(schema.get("const")).for_each(|value| add(of(value)));
        }
        _ if levels > 0 => {
            for branch in ["anyOf", "oneOf"].iter().filter_map(|name| schema[*name].as_array()).flatten() {
                collect(branch, root, kinds, levels - 1);
            }
        }
        _ => (),
    }
}
