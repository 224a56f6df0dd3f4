//! Keywords of other dialects and drafts, and the order of a schema's keys.

use millrace_grammar::{ErrorKind, Grammar, Options, compile};
use serde_json::{Map, Value, json};

use crate::hostile::fuzzed_schema;
use crate::support::{Random, accepts, made};

/// A schema, texts that it has, texts that it has not, and the keywords of its warnings.
type Case = (Value, &'static [&'static str], &'static [&'static str], &'static [&'static str]);

/// The schema with the keys of each object reversed, except in objects that name members.
fn reversed(value: &Value, names: bool) -> Value {
    match value {
        Value::Object(map) => {
            const NAMED: [&str; 8] = [
                "properties",
                "patternProperties",
                "dependencies",
                "dependentSchemas",
                "dependentRequired",
                "mapping",
                "const",
                "enum",
            ];
            let inner = |key: &str| !names && NAMED.contains(&key);
            let keys: Vec<&String> = if names { map.keys().collect() } else { map.keys().rev().collect() };
            Value::Object(
                keys.into_iter().map(|key| (key.clone(), reversed(&map[key], inner(key)))).collect::<Map<_, _>>(),
            )
        }
        Value::Array(list) => list.iter().map(|v| reversed(v, false)).collect(),
        other => other.clone(),
    }
}

fn judge(cases: Vec<Case>) {
    for (schema, yes, no, warned) in cases {
        for schema in [reversed(&schema, false), schema] {
            let (automaton, report) = compile(&Grammar::json_schema_value(schema.clone()), &Options::default())
                .unwrap_or_else(|e| panic!("{schema}: {e}"));
            for (texts, expected) in [(yes, true), (no, false)] {
                for text in texts {
                    assert_eq!(accepts(&automaton, text.as_bytes()), expected, "{schema} and {text}");
                }
            }
            let mut keywords: Vec<&str> = report.warnings.iter().map(|w| w.keyword.as_str()).collect();
            keywords.sort_unstable();
            assert_eq!(keywords, warned, "{schema}");
        }
    }
}

const DRAFT_3: &str = "http://json-schema.org/draft-03/schema#";
const DRAFT_4: &str = "http://json-schema.org/draft-04/schema#";
const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";
const DRAFT_2019: &str = "https://json-schema.org/draft/2019-09/schema";

#[test]
fn openapi() {
    judge(vec![
        (json!({ "type": "string", "nullable": true }), &["null", "\"a\""], &["1"], &[]),
        (json!({ "type": "string", "nullable": false }), &["\"a\""], &["null"], &[]),
        (json!({ "type": "string", "nullable": true, "enum": ["a"] }), &["\"a\""], &["null", "\"b\""], &[]),
        (json!({ "type": "string", "nullable": true, "enum": ["a", null] }), &["\"a\"", "null"], &["\"b\""], &[]),
        (
            json!({ "type": "object", "nullable": true, "properties": { "a": { "type": "integer" } }, "required": ["a"] }),
            &["null", "{\"a\":1}"],
            &["{}"],
            &[],
        ),
        (json!({ "allOf": [{ "type": "string" }], "nullable": true }), &["\"a\""], &["null"], &["nullable"]),
        (json!({ "$schema": DRAFT_7, "type": "string", "nullable": true }), &["\"a\""], &["null"], &["nullable"]),
        (
            json!({
                "oneOf": [{ "$ref": "#/definitions/Cat" }, { "$ref": "#/definitions/Dog" }],
                "discriminator": { "propertyName": "kind", "mapping": { "dog": "#/definitions/Dog" } },
                "definitions": {
                    "Cat": { "type": "object", "properties": { "kind": { "const": "Cat" }, "lives": { "type": "integer" } }, "required": ["kind"] },
                    "Dog": { "type": "object", "properties": { "kind": { "const": "dog" }, "name": { "type": "string" } }, "required": ["kind"] },
                },
            }),
            &["{\"kind\":\"Cat\",\"lives\":7}", "{\"kind\":\"dog\",\"name\":\"x\"}"],
            &["{}", "{\"kind\":\"Cow\"}", "{\"kind\":\"Cat\",\"lives\":\"x\"}", "{\"kind\":\"dog\",\"name\":1}"],
            &["discriminator"],
        ),
        (json!({ "type": "number", "minimum": 1, "exclusiveMinimum": true }), &["2"], &["1"], &[]),
        (json!({ "type": "number", "exclusiveMinimum": true }), &["1"], &["null"], &["exclusiveMinimum"]),
    ]);
}

#[test]
fn mongodb_and_kubernetes() {
    judge(vec![
        (
            json!({ "bsonType": "object", "required": ["n"], "properties": { "n": { "bsonType": "int" }, "s": { "bsonType": ["string", "null"] } } }),
            &["{\"n\":1}", "{\"n\":1,\"s\":null}"],
            &["{\"n\":1.5}", "{\"n\":3000000000}", "{\"n\":\"1\"}", "{\"n\":1,\"s\":2}", "[]"],
            &[],
        ),
        (json!({ "bsonType": ["double", "int"] }), &["1", "1.5"], &["\"1\""], &[]),
        (json!({ "bsonType": "bool" }), &["true"], &["1"], &[]),
        (json!({ "bsonType": ["objectId", "long"] }), &["3000000000"], &["1.5", "{}", "\"x\""], &[]),
        (json!({ "x-kubernetes-int-or-string": true }), &["1", "\"50%\""], &["1.5", "null", "{}"], &[]),
        (
            json!({ "type": "object", "x-kubernetes-validations": [{ "rule": "self.a > 0" }] }),
            &["{}"],
            &["1"],
            &["x-kubernetes-validations"],
        ),
    ]);
    let error =
        made(&Grammar::json_schema_value(json!({ "properties": { "a": { "bsonType": "objectId" } } }))).unwrap_err();
    assert_eq!((error.kind(), error.pointer(), error.keyword()), (ErrorKind::Unsupported, "/properties/a", "bsonType"));
}

#[test]
fn draft_3() {
    judge(vec![
        (
            json!({ "$schema": DRAFT_3, "type": "object", "properties": { "a": { "type": "integer", "required": true }, "b": {} } }),
            &["{\"a\":1}", "{\"a\":1,\"b\":2}"],
            &["{}", "{\"b\":2}", "{\"a\":\"x\"}"],
            &[],
        ),
        (json!({ "$schema": DRAFT_3, "divisibleBy": 3, "type": "integer" }), &["6"], &["7"], &[]),
        (json!({ "$schema": DRAFT_3, "type": "any" }), &["6", "null"], &[], &[]),
        (
            json!({ "$schema": DRAFT_3, "type": ["integer", { "type": "string", "maxLength": 1 }] }),
            &["6", "\"a\""],
            &["\"ab\"", "null", "1.5"],
            &[],
        ),
        (
            json!({ "$schema": DRAFT_3, "disallow": ["string", { "type": "number", "minimum": 3 }] }),
            &["null", "2"],
            &["\"a\"", "4"],
            &[],
        ),
        (json!({ "$schema": DRAFT_3, "disallow": "string" }), &["null", "2"], &["\"a\""], &[]),
        (json!({ "$schema": DRAFT_3, "extends": { "minimum": 3 }, "type": "integer" }), &["3"], &["2", "\"a\""], &[]),
        (
            json!({ "$schema": DRAFT_3, "extends": [{ "minimum": 3 }, { "maximum": 4 }], "type": "integer" }),
            &["3"],
            &["2", "5"],
            &[],
        ),
        (
            json!({ "$schema": DRAFT_3, "type": "object", "dependencies": { "a": "b" } }),
            &["{}", "{\"a\":1,\"b\":1}"],
            &["{\"a\":1}"],
            &[],
        ),
        (json!({ "divisibleBy": 3, "type": "integer" }), &["6"], &["7"], &[]),
        (
            json!({ "$schema": DRAFT_4, "divisibleBy": 3, "extends": {}, "disallow": "string", "required": true }),
            &["7", "\"a\""],
            &[],
            &["disallow", "divisibleBy", "extends", "required"],
        ),
    ]);
}

#[test]
fn what_has_no_effect_is_a_warning() {
    judge(vec![
        (json!({ "then": { "type": "string" }, "else": false }), &["1"], &[], &["else", "then"]),
        (json!({ "if": { "type": "string" } }), &["1"], &[], &["if"]),
        (json!({ "additionalItems": false, "items": { "type": "null" } }), &["[null]"], &["[1]"], &["additionalItems"]),
        (json!({ "minContains": 2, "maxContains": 3 }), &["[]"], &[], &["maxContains", "minContains"]),
        (
            json!({ "type": "string", "contentEncoding": "base64", "contentMediaType": "image/png" }),
            &["\"?\""],
            &["1"],
            &["contentEncoding", "contentMediaType"],
        ),
        (json!({ "type": "string", "contentEncoding": "base64", "format": "base64" }), &["\"aGk=\""], &["\"?\""], &[]),
        (
            json!({
                "$schema": DRAFT_7,
                "definitions": { "a": { "type": "string" } },
                "properties": { "x": { "$ref": "#/definitions/a", "maxLength": 1, "title": "t" } },
            }),
            &["{\"x\":\"ab\"}"],
            &["{\"x\":1}"],
            &["maxLength"],
        ),
        (json!({ "type": "boolean", "uniqueItems": true }), &["true"], &["[]"], &["uniqueItems"]),
    ]);
}

#[test]
fn references_that_are_dynamic_in_name_alone() {
    let tree = |reference: &str, anchor: Value| {
        let mut schema = json!({ "type": "object", "properties": { "kids": { "type": "array", "items": { reference: "#" } } }, "additionalProperties": false });
        schema.as_object_mut().unwrap().extend(anchor.as_object().unwrap().clone());
        schema
    };
    let (yes, no): (&[&str], &[&str]) =
        (&["{\"kids\":[{},{\"kids\":[]}]}"], &["{\"kids\":[1]}", "{\"kids\":[{\"x\":1}]}"]);
    let mut named = tree("$dynamicRef", json!({ "$dynamicAnchor": "node" }));
    named["properties"]["kids"]["items"] = json!({ "$dynamicRef": "#node" });
    judge(vec![
        (tree("$recursiveRef", json!({ "$schema": DRAFT_2019 })), yes, no, &[]),
        (tree("$dynamicRef", json!({})), yes, no, &[]),
        (named, yes, no, &[]),
    ]);
    let error =
        made(&Grammar::json_schema_value(tree("$recursiveRef", json!({ "$recursiveAnchor": true })))).unwrap_err();
    assert_eq!((error.kind(), error.keyword()), (ErrorKind::Unsupported, "$recursiveRef"));
}

/// Reversing keywords gives an automaton of as many states, symbols and classes, or the same error.
#[test]
fn the_order_of_keywords_changes_nothing() {
    let mut random = Random::new(3);
    let fuzzed = (0..400).map(|_| fuzzed_schema(&mut random, 2));
    for schema in crate::schemas::all().into_iter().chain(fuzzed) {
        let judged = |schema: &Value| {
            made(&Grammar::json_schema_value(schema.clone()))
                .map(|(_, r)| (r.states, r.symbols, r.classes))
                .map_err(|e| e.kind())
        };
        let turned = reversed(&schema, false);
        assert_eq!(judged(&schema), judged(&turned), "{schema} and {turned}");
    }
}

#[test]
fn members_come_in_one_order_wherever_keywords_stand() {
    let part = json!({ "properties": { "c": {}, "d": {} } });
    judge(vec![(
        json!({ "type": "object", "allOf": [part], "properties": { "a": {}, "b": {} }, "required": ["b"] }),
        &["{\"a\":1,\"b\":1,\"c\":1,\"d\":1}", "{\"c\":1,\"d\":1,\"a\":1,\"b\":1}", "{\"b\":1,\"a\":1,\"c\":1}"],
        &["{\"b\":1,\"d\":1,\"c\":1}", "{\"a\":1,\"c\":1,\"b\":1}", "{\"a\":1,\"b\":1,\"x\":1,\"c\":1}"],
        &[],
    )]);
}

#[test]
fn one_of_is_judged_beside_what_stands_behind_it() {
    judge(vec![
        (
            json!({ "oneOf": [{ "uniqueItems": true, "maxItems": 1 }, { "type": "null" }], "type": ["array", "null"] }),
            &["[1]", "[]"],
            &["[1,1]", "3"],
            &[],
        ),
        (
            json!({
                "oneOf": [{ "patternProperties": { "^x": { "type": "string" } } }, { "properties": { "k": { "const": 2 } } }],
                "properties": { "k": { "enum": [1, 2] } },
                "required": ["k"],
                "type": "object",
            }),
            &["{\"k\":1}", "{\"k\":1,\"x\":\"a\"}", "{\"k\":2,\"x\":1}"],
            &["{\"k\":2}", "{\"k\":1,\"x\":1}", "{}"],
            &[],
        ),
    ]);
}
