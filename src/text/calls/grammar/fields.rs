//! The arguments of a tool one by one, for formats that write each in a tag or behind its name.

use serde_json::Value;

use super::super::reader::Tool;
use super::schema::{arguments, asserted, refuse, resolve, step};
use super::writer::{literal, optional, sequence, union};
use crate::error::Result;

/// An argument.
pub struct Field<'s> {
    pub name: &'s str,
    pub schema: &'s Value,
    /// Where its schema stands in the tool's.
    pub pointer: String,
    pub required: bool,
}

/// The arguments of a tool.
pub struct Fields<'s> {
    /// In the order in which the schema names them.
    pub all: Vec<Field<'s>>,
    /// Whether there may be any others: where none are named.
    pub open: bool,
}

const FREE: &Value = &Value::Bool(true);

impl<'s> Fields<'s> {
    /// `UNSUPPORTED_SCHEMA` for what is asked of the arguments together, except for which must be there.
    pub fn of(tool: &'s Tool) -> Result<Self> {
        arguments(tool)?;
        Self::members(tool, resolve(&tool.parameters, &tool.parameters), "")
    }

    /// The fields of an object within the tool's schema.
    pub fn members(tool: &'s Tool, schema: &'s Value, pointer: &str) -> Result<Self> {
        const KNOWN: &[&str] = &["type", "properties", "required", "additionalProperties"];
        if let Some(keyword) = asserted(schema, KNOWN) {
            return Err(refuse(tool, pointer, keyword, "it cannot be kept to where arguments are not written as JSON"));
        }
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let place = step(pointer, "properties");
        let mut all: Vec<Field<'s>> = Vec::new();
        for (name, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if *schema == Value::Bool(false) && !required.contains(&name.as_str()) {
                continue;
            }
            all.push(Field { name, schema, pointer: step(&place, name), required: required.contains(&name.as_str()) });
        }
        let others = schema.get("additionalProperties").unwrap_or(FREE);
        for name in required {
            if !all.iter().any(|field| field.name == name) {
                all.push(Field {
                    name,
                    schema: others,
                    pointer: step(pointer, "additionalProperties"),
                    required: true,
                });
            }
        }
        if let Some(field) = all.iter().find(|field| *field.schema == Value::Bool(false)) {
            return Err(refuse(tool, &field.pointer, "required", "what has to be there may not be there"));
        }
        let open = all.is_empty() && *others != Value::Bool(false);
        if open && !matches!(others, Value::Bool(true)) && !super::schema::is_free(others) {
            return Err(refuse(
                tool,
                pointer,
                "additionalProperties",
                "names that the schema does not give are only told apart in JSON",
            ));
        }
        Ok(Self { all, open })
    }

    /// The fields in the schema's order, and with the required ones before the others.
    fn orders(&self) -> Vec<Vec<&Field<'s>>> {
        let given: Vec<&Field<'s>> = self.all.iter().collect();
        let (mut first, rest): (Vec<&Field<'s>>, Vec<&Field<'s>>) =
            given.iter().copied().partition(|field| field.required);
        first.extend(rest);
        let same = given.iter().zip(&first).all(|(a, b)| std::ptr::eq(*a, *b));
        if same { vec![given] } else { vec![given, first] }
    }

    /// One behind the other, where nothing stands between them.
    pub fn in_order(&self, write: impl Fn(&Field<'s>) -> Result<Value>) -> Result<Value> {
        let order = |fields: Vec<&Field<'s>>| {
            let one = |field: &Field<'s>| {
                write(field).map(|written| if field.required { written } else { optional(written) })
            };
            Ok(sequence(fields.into_iter().map(one).collect::<Result<Vec<_>>>()?))
        };
        Ok(union(self.orders().into_iter().map(order).collect::<Result<Vec<_>>>()?))
    }

    /// One behind the other with `separator` between them.
    pub fn separated(&self, separator: &str, write: impl Fn(&Field<'s>) -> Result<Value>) -> Result<Value> {
        let order = |fields: Vec<&Field<'s>>| {
            let written: Vec<(Value, bool)> =
                fields.into_iter().map(|field| Ok((write(field)?, field.required))).collect::<Result<Vec<_>>>()?;
            // The fields from `from` on, each with its separator.
            let rest = |from: usize| {
                sequence(written[from..].iter().map(|(field, required)| {
                    let behind = sequence([literal(separator), field.clone()]);
                    if *required { behind } else { optional(behind) }
                }))
            };
            // Any of the next fields: up to the first required one.
            let mut ways = Vec::new();
            for (i, (field, required)) in written.iter().enumerate() {
                ways.push(sequence([field.clone(), rest(i + 1)]));
                if *required {
                    return Ok(union(ways));
                }
            }
            ways.push(literal(""));
            Ok(union(ways))
        };
        Ok(union(self.orders().into_iter().map(order).collect::<Result<Vec<_>>>()?))
    }
}
