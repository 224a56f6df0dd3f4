//! Arrays without repetition, and objects whose members are told apart by what they are not.

use millrace_grammar::{ErrorKind, Grammar};
use serde_json::{Value, json};

use crate::support::{accepts, made, of};

fn judge(schema: &Value, yes: &[&str], no: &[&str]) {
    let automaton = of(schema);
    for (texts, expected) in [(yes, true), (no, false)] {
        for text in texts {
            assert_eq!(accepts(&automaton, text.as_bytes()), expected, "{schema} and {text}");
        }
    }
}

#[test]
fn unique_items_of_few_values() {
    judge(
        &json!({ "type": "array", "items": { "enum": ["a", "b", 1, null] }, "uniqueItems": true }),
        &["[]", "[\"b\",\"a\",null,1]", "[ 1 , \"a\" ]"],
        &["[\"a\",\"a\"]", "[1,\"b\",1]", "[null,null]", "[2]"],
    );
    judge(
        &json!({ "items": { "type": "boolean" }, "uniqueItems": true, "minItems": 2 }),
        &["[true,false]", "1"],
        &["[true]", "[true,true]", "[]"],
    );
    judge(
        &json!({ "items": { "type": "integer", "minimum": -1, "maximum": 2 }, "uniqueItems": true, "maxItems": 2 }),
        &["[0,-1]", "[2]"],
        &["[1,1]", "[0,1,2]", "[3]"],
    );
    judge(
        &json!({ "prefixItems": [{ "enum": ["a", "b"] }], "items": { "enum": ["b", "c"] }, "uniqueItems": true }),
        &["[\"a\",\"c\",\"b\"]", "[\"b\",\"c\"]"],
        &["[\"b\",\"b\"]", "[\"c\"]"],
    );
    judge(
        &json!({ "prefixItems": [{ "type": "string" }, { "type": "integer" }], "items": false, "uniqueItems": true }),
        &["[\"a\",1]"],
        &["[1]"],
    );
    judge(
        &json!({ "items": { "enum": ["a", "b"] }, "uniqueItems": true, "anyOf": [{ "maxItems": 1 }, { "minItems": 2 }] }),
        &["[\"b\",\"a\"]"],
        &["[\"a\",\"a\"]"],
    );
}

#[test]
fn unique_items_of_many_values_come_in_order_behind_the_first() {
    let names: Vec<String> = (0..40).map(|i| format!("v{i:02}")).collect();
    let automaton = of(&json!({ "items": { "enum": names }, "uniqueItems": true }));
    for (list, yes) in [
        (vec![30], true),
        (vec![30, 5], true),
        (vec![30, 5, 6], false),
        (vec![30, 5, 31], true),
        (vec![5, 30, 39], true),
        (vec![5, 5], false),
        (vec![0, 1, 2, 1], false),
    ] {
        let text = json!(list.iter().map(|i| &names[*i]).collect::<Vec<_>>()).to_string();
        assert_eq!(accepts(&automaton, text.as_bytes()), yes, "{text}");
    }
}

#[test]
fn unique_items_of_endless_values_are_refused() {
    for schema in
        [json!({ "uniqueItems": true }), json!({ "type": "array", "items": { "type": "string" }, "uniqueItems": true })]
    {
        let error = made(&Grammar::json_schema_value(schema.clone())).expect_err(&schema.to_string());
        assert_eq!((error.kind(), error.keyword()), (ErrorKind::Unsupported, "uniqueItems"));
    }
    let error = made(&Grammar::json_schema_value(
        json!({ "not": { "type": "array", "items": { "enum": [1, 2] }, "uniqueItems": true } }),
    ))
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn one_of_objects_whose_properties_differ() {
    let closed = |names: &[&str]| {
        let properties: Value = names
            .iter()
            .map(|name| ((*name).to_owned(), json!({ "type": "integer" })))
            .collect::<serde_json::Map<_, _>>()
            .into();
        json!({ "type": "object", "properties": properties, "additionalProperties": false })
    };
    judge(
        &json!({ "oneOf": [closed(&["a", "b"]), closed(&["a", "c"])] }),
        &["{\"b\":1}", "{\"a\":1,\"b\":1}", "{\"c\":2}", "{\"a\":1,\"c\":1}"],
        &["{}", "{\"a\":1}", "{\"b\":1,\"c\":1}", "{\"d\":1}", "{\"b\":\"x\"}"],
    );
    judge(
        &json!({ "oneOf": [closed(&["a"]), { "type": "object", "additionalProperties": { "type": "string" } }] }),
        &["{\"a\":1}", "{\"x\":\"s\"}", "{\"a\":\"s\"}", "{\"x\":\"s\",\"y\":\"t\"}"],
        &["{}", "{\"x\":1}", "{\"a\":1,\"x\":\"s\"}"],
    );
}

#[test]
fn the_opposite_of_members_that_are_not_listed() {
    judge(
        &json!({ "type": "object", "not": { "properties": { "a": {} }, "additionalProperties": false } }),
        &["{\"b\":1}", "{\"a\":1,\"b\":1}", "{\"b\":1,\"c\":1}"],
        &["{}", "{\"a\":1}"],
    );
    judge(
        &json!({ "type": "object", "not": { "additionalProperties": { "type": "integer" } } }),
        &["{\"b\":\"x\"}", "{\"a\":1,\"b\":null}", "{\"b\":null,\"a\":1}"],
        &["{}", "{\"a\":1}", "{\"a\":1,\"b\":2}"],
    );
    judge(
        &json!({ "type": "object", "not": { "patternProperties": { "^x": { "type": "integer" } } } }),
        &["{\"x\":\"s\"}", "{\"a\":1,\"x1\":null}"],
        &["{}", "{\"x\":1}", "{\"a\":\"s\"}"],
    );
    judge(
        &json!({ "type": "object", "not": { "propertyNames": { "maxLength": 2 } } }),
        &["{\"abc\":1}", "{\"a\":1,\"abc\":1}"],
        &["{}", "{\"a\":1}", "{\"ab\":1,\"a\":2}"],
    );
    judge(
        &json!({ "type": "object", "properties": { "a": { "type": "integer" }, "b": true }, "not": { "additionalProperties": { "type": "integer" } }, "maxProperties": 2 }),
        &["{\"b\":\"x\"}", "{\"a\":1,\"b\":\"x\"}", "{\"c\":\"x\"}"],
        &["{\"a\":1}", "{\"a\":1,\"b\":1}", "{\"a\":1,\"b\":\"x\",\"c\":1}"],
    );
    // The opposite of the opposite.
    judge(
        &json!({ "type": "object", "not": { "not": { "additionalProperties": { "type": "integer" } } } }),
        &["{}", "{\"a\":1}"],
        &["{\"a\":\"s\"}"],
    );
}
