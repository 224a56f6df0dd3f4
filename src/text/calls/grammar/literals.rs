//! Values written otherwise than in JSON: as Python does, or with marks for quotes.

use serde_json::{Value, json};

use super::super::reader::Tool;
use super::schema::{asserted, described, is_free, resolve};
use super::writer::{Writer, literal, repeat, sequence, union};
use super::{Field, Fields, Plain};
use crate::error::Result;

/// Values inside each other, where a schema does not say what they are; and where it does.
const FREE_LEVELS: usize = 2;
const MOST_LEVELS: usize = 6;
/// Bounds of a list up to which its items are counted one by one.
const MOST_ITEMS: u64 = 64;

/// A way of writing values.
pub struct Notation {
    /// `true`, `false` and `null`.
    pub words: [&'static str; 3],
    /// Between a key and its value, and between members.
    pub colon: &'static str,
    pub comma: &'static str,
    /// A string of these; none where it cannot say so much of a string.
    pub string: fn(&Writer<'_>, &[Plain]) -> Option<Value>,
    /// A key within an object, and any key.
    pub key: fn(&Writer<'_>, &str) -> Option<Value>,
    pub any_key: fn(&Writer<'_>) -> Value,
}

impl Notation {
    /// A value of `schema`, which is a part of the tool's. What the notation cannot express is written in JSON, which
    /// is read as well.
    pub fn value(&self, writer: &Writer<'_>, tool: &Tool, schema: &Value, pointer: &str) -> Value {
        self.written(writer, tool, schema, pointer, MOST_LEVELS).unwrap_or_else(|| described(schema, &tool.parameters))
    }

    /// Any members at all.
    pub fn any_members(&self, writer: &Writer<'_>, levels: usize) -> Value {
        let member = sequence([(self.any_key)(writer), literal(self.colon), self.any(writer, levels)]);
        repeat(member, self.comma, 0, None)
    }

    /// Any value, with `levels` levels of lists and objects.
    pub fn any(&self, writer: &Writer<'_>, levels: usize) -> Value {
        let string = (self.string)(writer, &[Plain::Any]);
        let mut ways: Vec<Value> = string
            .into_iter()
            .chain([json!({ "schema": { "type": "number" } }), json!({ "choice": self.words })])
            .collect();
        if levels > 0 {
            ways.push(sequence([
                literal("["),
                repeat(self.any(writer, levels - 1), self.comma, 0, None),
                literal("]"),
            ]));
            ways.push(sequence([literal("{"), self.any_members(writer, levels - 1), literal("}")]));
        }
        union(ways)
    }

    fn written(&self, writer: &Writer<'_>, tool: &Tool, schema: &Value, pointer: &str, levels: usize) -> Option<Value> {
        let schema = resolve(schema, &tool.parameters);
        if is_free(schema) {
            return Some(self.any(writer, FREE_LEVELS));
        }
        let levels = levels.checked_sub(1)?;
        for name in ["anyOf", "oneOf"] {
            if let Some(branches) = schema.get(name).and_then(Value::as_array) {
                // Where more than one may hold, what one of them says is not enough.
                let differ = name == "anyOf" || differ(branches, tool);
                if asserted(schema, &[name]).is_some() || !differ {
                    return None;
                }
                let ways: Option<Vec<Value>> =
                    branches.iter().map(|branch| self.written(writer, tool, branch, pointer, levels)).collect();
                return ways.map(union);
            }
        }
        if let Some(values) =
            schema.get("enum").and_then(Value::as_array).cloned().or_else(|| Some(vec![schema.get("const")?.clone()]))
        {
            if asserted(schema, &["enum", "const", "type"]).is_some()
                || schema.get("type").is_some_and(|kind| !kind.is_string())
            {
                return None;
            }
            let of_type = |value: &&Value| match schema["type"].as_str() {
                Some("string") => value.is_string(),
                Some("integer" | "number") => value.is_number(),
                Some("boolean") => value.is_boolean(),
                Some("null") => value.is_null(),
                Some(_) => false,
                None => true,
            };
            let ways: Option<Vec<Value>> =
                values.iter().filter(of_type).map(|value| self.constant(writer, value)).collect();
            return ways.filter(|ways| !ways.is_empty()).map(union);
        }
        match &schema["type"] {
            Value::String(kind) => self.of_type(writer, tool, schema, kind, pointer, levels),
            Value::Array(kinds) => {
                let ways: Option<Vec<Value>> = kinds
                    .iter()
                    .map(|kind| self.of_type(writer, tool, schema, kind.as_str()?, pointer, levels))
                    .collect();
                ways.filter(|ways| !ways.is_empty()).map(union)
            }
            _ => None,
        }
    }

    fn constant(&self, writer: &Writer<'_>, value: &Value) -> Option<Value> {
        let [yes, no, null] = self.words;
        Some(match value {
            Value::String(text) => (self.string)(writer, &[Plain::One(text.clone())])?,
            Value::Bool(value) => literal(if *value { yes } else { no }),
            Value::Null => literal(null),
            Value::Number(number) => literal(&number.to_string()),
            _ => return None,
        })
    }

    fn of_type(
        &self,
        writer: &Writer<'_>,
        tool: &Tool,
        schema: &Value,
        kind: &str,
        pointer: &str,
        levels: usize,
    ) -> Option<Value> {
        let [yes, no, null] = self.words;
        let asks = |name: &str| schema.get(name).is_some();
        if ["enum", "const", "allOf", "anyOf", "oneOf", "not", "if", "$ref", "$dynamicRef"]
            .iter()
            .any(|name| asks(name))
        {
            return None;
        }
        match kind {
            "string" => {
                let only: Vec<(String, Value)> = schema
                    .as_object()?
                    .iter()
                    .filter(|(key, _)| *key != "type")
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                let schema = Value::Object(only.into_iter().chain([("type".to_owned(), json!("string"))]).collect());
                (self.string)(writer, &Plain::of(tool, &schema, pointer).ok()?)
            }
            "integer" | "number" => {
                const OF_NUMBERS: &[&str] =
                    &["multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "format"];
                let bounds =
                    OF_NUMBERS.iter().filter_map(|name| Some(((*name).to_owned(), schema.get(*name)?.clone())));
                Some(
                    json!({ "schema": Value::Object([("type".to_owned(), json!(kind))].into_iter().chain(bounds).collect()) }),
                )
            }
            "boolean" => Some(json!({ "choice": [yes, no] })),
            "null" => Some(literal(null)),
            "array" => {
                const NOT: &[&str] = &[
                    "prefixItems",
                    "additionalItems",
                    "contains",
                    "minContains",
                    "maxContains",
                    "uniqueItems",
                    "unevaluatedItems",
                    "$recursiveRef",
                ];
                let items = schema.get("items").unwrap_or(&Value::Bool(true));
                if NOT.iter().any(|name| asks(name)) || items.is_array() || *items == Value::Bool(false) {
                    return None;
                }
                let bound = |name: &str| schema.get(name).map(|n| n.as_u64().filter(|n| *n <= MOST_ITEMS));
                let min = bound("minItems").unwrap_or(Some(0))? as u32;
                let max = match bound("maxItems") {
                    Some(max) => Some(max? as u32),
                    None => None,
                };
                let item = match is_free(items) {
                    true => self.any(writer, FREE_LEVELS - 1),
                    false => self.written(writer, tool, items, pointer, levels)?,
                };
                Some(sequence([literal("["), repeat(item, self.comma, min, max), literal("]")]))
            }
            "object" => {
                let fields = Fields::members(tool, schema_of_object(schema)?, pointer).ok()?;
                if fields.open {
                    return Some(sequence([literal("{"), self.any_members(writer, FREE_LEVELS - 1), literal("}")]));
                }
                let keys: Option<Vec<Value>> = fields.all.iter().map(|field| (self.key)(writer, field.name)).collect();
                let values: Option<Vec<Value>> = fields
                    .all
                    .iter()
                    .map(|field| self.written(writer, tool, field.schema, &field.pointer, levels))
                    .collect();
                let (keys, values) = (keys?, values?);
                let member = |field: &Field<'_>| {
                    let i = fields.all.iter().position(|other| std::ptr::eq(other, field)).unwrap_or(0);
                    Ok(sequence([keys[i].clone(), literal(self.colon), values[i].clone()]))
                };
                Some(sequence([literal("{"), fields.separated(self.comma, member).ok()?, literal("}")]))
            }
            _ => None,
        }
    }

    /// The arguments of a tool, each as `name`, `equals` and its value.
    pub fn named(
        &self,
        writer: &Writer<'_>,
        tool: &Tool,
        name: impl Fn(&Field<'_>) -> Result<Value>,
        equals: &str,
    ) -> Result<Value> {
        let fields = Fields::of(tool)?;
        fields.separated(self.comma, |field| {
            Ok(sequence([name(field)?, literal(equals), self.value(writer, tool, field.schema, &field.pointer)]))
        })
    }
}

/// A schema that asks of other types, too, cannot be judged as that of an object alone.
fn schema_of_object(schema: &Value) -> Option<&Value> {
    match &schema["type"] {
        Value::String(_) => Some(schema),
        _ if asserted(schema, &["type"]).is_none() => Some(schema),
        _ => None,
    }
}

/// Whether no value satisfies two of these: their types differ.
fn differ(branches: &[Value], tool: &Tool) -> bool {
    let mut seen: Vec<&str> = Vec::new();
    branches.iter().all(|branch| {
        let kind = match resolve(branch, &tool.parameters)["type"].as_str() {
            Some("integer") => "number",
            Some(kind) => kind,
            None => return false,
        };
        let fresh = !seen.contains(&kind);
        seen.push(kind);
        fresh
    })
}
