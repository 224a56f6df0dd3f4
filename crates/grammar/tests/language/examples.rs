//! Texts that a schema has and has not, and errors.

use millrace_grammar::{ErrorKind, Grammar, Options, compile};
use serde_json::{Value, json};

use crate::support::{accepts, made, of};

#[test]
fn texts_of_schemas() {
    let cases: Vec<(Value, &[&str], &[&str])> = vec![
        (json!({ "type": "integer" }), &["0", "-0", "12", "-7"], &["", "01", "1.0", "1e3", "+1", " 1", "1 "]),
        (json!({ "type": "number" }), &["0.5", "1e9", "-1.5E-3"], &[".5", "1.", "1e", "NaN"]),
        (
            json!({ "type": "string" }),
            &[r#""""#, r#""\u00e9\ud83d\ude00\/""#, "\"é😀\""],
            &[r#""\ud83d""#, r#""\ude00""#, r#""\ud83d\ud83d""#, "\"\n\"", r#""\x""#, "\"\u{0}\""],
        ),
        (
            json!({ "type": "string", "maxLength": 2 }),
            &["\"é😀\"", r#""\u00e9\ud83d\ude00""#, r#""""#],
            &["\"abc\"", r#""ab\n""#],
        ),
        (
            json!({ "type": "object", "properties": { "a": {}, "b": {} }, "required": ["b"] }),
            &[r#"{"b":1}"#, r#"{ "a" : [ ] , "b":{} }"#, r#"{"b":1,"a":2,"z":3}"#],
            &["{}", r#"{"a":1}"#, r#"{"a":1,}"#, r#"{"z":1,"b":1}"#],
        ),
        (json!({ "enum": [1, "x\u{1}"] }), &["1", r#""x\u0001""#], &["2", "\"x\"", "1.0"]),
        (
            json!({ "exclusiveMinimum": 0.1, "maximum": 3, "type": "number" }),
            &["0.11", "3", "3.0", "1"],
            &["0.1", "0.10", "3.01", "-1", "0"],
        ),
        (json!({ "type": "array", "items": false }), &["[]", "[ ]"], &["[1]", "[,]"]),
        (
            json!({ "minimum": 1, "exclusiveMaximum": 2.5, "type": "number" }),
            &["1", "1.0", "2.49"],
            &["0.99", "2.5", "2.50", "3"],
        ),
    ];
    for (schema, yes, no) in cases {
        let automaton = of(&schema);
        for text in yes {
            assert!(accepts(&automaton, text.as_bytes()), "{schema} has {text}");
        }
        for text in no {
            assert!(!accepts(&automaton, text.as_bytes()), "{schema} has not {text}");
        }
    }
}

/// Every array of up to five items that are `"a"`, `"b"` or 1.
fn arrays() -> Vec<Vec<Value>> {
    let mut all = vec![Vec::new()];
    let mut last = 0;
    while all[last].len() < 5 {
        for item in [json!("a"), json!("b"), json!(1)] {
            all.push([all[last].clone(), vec![item]].concat());
        }
        last += 1;
    }
    all
}

#[test]
fn matches_of_contains_are_counted() {
    type Holds = fn(&[Value]) -> bool;
    let strings = |list: &[Value]| list.iter().filter(|v| v.is_string()).count();
    for (min, max) in [(None, None), (None, Some(1)), (None, Some(2)), (Some(2), None), (Some(0), Some(0))]
        .into_iter()
        .chain([(Some(0), Some(2)), (Some(1), Some(1)), (Some(2), Some(3)), (Some(3), Some(2)), (Some(0), None)])
    {
        let conditions: [(Value, Holds); 4] = [
            (json!({}), |_| true),
            (json!({ "minItems": 2, "maxItems": 4 }), |list| (2..=4).contains(&list.len())),
            (json!({ "prefixItems": [{ "type": "string" }, { "const": 1 }] }), |list| {
                list.first().is_none_or(Value::is_string) && list.get(1).is_none_or(Value::is_number)
            }),
            (json!({ "allOf": [{ "contains": { "const": "a" }, "minContains": 2, "maxContains": 3 }] }), |list| {
                (2..=3).contains(&list.iter().filter(|v| **v == "a").count())
            }),
        ];
        for (condition, holds) in conditions {
            for opposite in [false, true] {
                let mut schema = json!({ "contains": { "type": "string" } });
                let bounds = [("minContains", min), ("maxContains", max)];
                for (key, bound) in bounds.into_iter().filter_map(|(key, bound)| Some((key, bound?))) {
                    schema[key] = json!(bound);
                }
                if opposite {
                    schema = json!({ "not": schema });
                }
                let schema =
                    json!({ "type": "array", "items": { "enum": ["a", "b", 1] }, "allOf": [schema, condition] });
                let automaton = match made(&Grammar::json_schema_value(schema.clone())) {
                    Ok(made) => Some(made.0),
                    Err(e) if e.kind() == ErrorKind::Unsatisfiable => None,
                    Err(e) => panic!("{schema}: {e}"),
                };
                for list in arrays() {
                    let n = strings(&list);
                    let counted = min.unwrap_or(1) <= n && max.is_none_or(|max| n <= max);
                    let text = json!(list).to_string();
                    let accepted = automaton.as_ref().is_some_and(|a| accepts(a, text.as_bytes()));
                    assert_eq!(accepted, holds(&list) && counted != opposite, "{schema} and {text}");
                }
            }
        }
    }
}

#[test]
fn counts_of_contains_of_objects_and_of_any_values() {
    let schema =
        json!({ "contains": { "required": ["id"], "properties": { "id": { "minLength": 2 } } }, "maxContains": 1 });
    let automaton = of(&schema);
    // A value that is no object satisfies `required`.
    for (text, yes) in [
        (r#"[{"id":"ab"}]"#, true),
        (r#"[{"id":"a"},{},{"id":"ab","x":1}]"#, true),
        (r#"[{"id":"ab"},{"id":"abc"}]"#, false),
        (r#"[{"id":1},{"id":"a"}]"#, true),
        (r#"[{"id":"ab"},3]"#, false),
        (r#"[{"id":"a"}]"#, false),
        ("[]", false),
    ] {
        assert_eq!(accepts(&automaton, text.as_bytes()), yes, "{text}");
    }
    let most = of(&json!({ "contains": { "const": 0 }, "minContains": 64, "maxContains": 64 }));
    for (zeros, yes) in [(63, false), (64, true), (65, false)] {
        let text = format!("[1{}]", ",0".repeat(zeros));
        assert_eq!(accepts(&most, text.as_bytes()), yes, "{zeros}");
    }
    // Drafts before 2019-09 have no such counts.
    let schema =
        json!({ "$schema": "http://json-schema.org/draft-07/schema#", "contains": { "const": 0 }, "minContains": 2 });
    let (automaton, report) = made(&Grammar::json_schema_value(schema)).unwrap();
    assert!(accepts(&automaton, b"[0]") && !accepts(&automaton, b"[1]"));
    assert_eq!(report.warnings.iter().map(|w| w.keyword.as_str()).collect::<Vec<_>>(), ["minContains"]);
}

#[test]
fn too_many_counts_of_contains_are_an_error() {
    let part = |value: u32| json!({ "contains": { "const": value }, "minContains": 10 });
    let error = made(&Grammar::json_schema_value(json!({ "allOf": [part(1), part(2), part(3)] }))).unwrap_err();
    assert_eq!((error.kind(), error.keyword()), (ErrorKind::TooLarge, "contains"));
}

#[test]
fn white_space_ends() {
    let automaton = of(&json!({ "type": "array", "items": { "type": "null" } }));
    assert!(accepts(&automaton, format!("[{}]", " ".repeat(64)).as_bytes()));
    assert!(!accepts(&automaton, format!("[{}]", " ".repeat(65)).as_bytes()));
    let compact = compile(&Grammar::json_object(), &Options { whitespace: false, ..Options::default() }).unwrap().0;
    assert!(accepts(&compact, br#"{"a":[1,2]}"#) && !accepts(&compact, br#"{"a": 1}"#));
}

#[test]
fn one_order_or_two() {
    let schema =
        Grammar::json_schema(r#"{ "properties": { "a": {}, "b": {} }, "required": ["b"], "type": "object" }"#).unwrap();
    for (required_first, expected) in [(true, true), (false, false)] {
        let automaton = compile(&schema, &Options { required_first, ..Options::default() }).unwrap().0;
        assert_eq!(accepts(&automaton, br#"{"b":1,"a":2}"#), expected);
        assert!(accepts(&automaton, br#"{"a":1,"b":2}"#));
    }
}

#[test]
fn errors_say_where_and_why() {
    let cases = [
        (
            json!({ "properties": { "a/b": { "uniqueItems": true } } }),
            ErrorKind::Unsupported,
            "/properties/a~1b",
            "uniqueItems",
        ),
        (json!({ "items": { "contains": true, "minContains": 65 } }), ErrorKind::Unsupported, "/items", "minContains"),
        (json!({ "contains": true, "maxContains": 10000 }), ErrorKind::Unsupported, "", "maxContains"),
        (
            json!({ "items": { "contains": { "uniqueItems": true, "maxItems": 3, "items": { "type": "null" } }, "maxContains": 2 } }),
            ErrorKind::Unsupported,
            "/items",
            "maxContains",
        ),
        (json!({ "contains": true, "minContains": "2" }), ErrorKind::InvalidSchema, "", "minContains"),
        (
            json!({ "type": "array", "contains": { "type": "null" }, "minContains": 3, "maxContains": 2 }),
            ErrorKind::Unsatisfiable,
            "",
            "",
        ),
        (json!({ "allOf": [{ "pattern": "(a)\\1" }] }), ErrorKind::Unsupported, "/allOf/0", "pattern"),
        (json!({ "pattern": "(" }), ErrorKind::InvalidSchema, "", "pattern"),
        (json!({ "$ref": "#/nowhere" }), ErrorKind::InvalidSchema, "", "$ref"),
        (json!({ "$ref": "http://else.where/x" }), ErrorKind::Unsupported, "", "$ref"),
        (json!({ "$ref": "#" }), ErrorKind::InvalidSchema, "", "$ref"),
        (json!({ "type": "strnig" }), ErrorKind::InvalidSchema, "", "type"),
        (json!({ "minLength": -1 }), ErrorKind::InvalidSchema, "", "minLength"),
        (json!({ "properties": { "a": 3 } }), ErrorKind::InvalidSchema, "/properties/a", ""),
        (json!(3), ErrorKind::InvalidSchema, "", ""),
        (json!(false), ErrorKind::Unsatisfiable, "", ""),
        (
            json!({ "required": ["a"], "properties": { "a": false }, "type": "object" }),
            ErrorKind::Unsatisfiable,
            "",
            "",
        ),
        (
            json!({ "$defs": { "n": { "type": "object", "properties": { "n": { "$ref": "#/$defs/n" } }, "required": ["n"] } }, "$ref": "#/$defs/n" }),
            ErrorKind::Unsatisfiable,
            "",
            "",
        ),
        (json!({ "type": "string", "pattern": "^a+$", "not": { "pattern": "a" } }), ErrorKind::Unsatisfiable, "", ""),
    ];
    for (schema, kind, pointer, keyword) in cases {
        let error = made(&Grammar::json_schema_value(schema.clone())).expect_err(&schema.to_string());
        assert_eq!((error.kind(), error.pointer(), error.keyword()), (kind, pointer, keyword), "{schema}: {error}");
    }
    assert_eq!(Grammar::json_schema("{").unwrap_err().kind(), ErrorKind::InvalidSchema);
}

#[test]
fn a_format_that_patterns_spell_need_not_be_known() {
    for spelt in [
        json!({ "type": "string", "format": "nanoid", "pattern": "^[a-c]{2}$" }),
        json!({ "type": "string", "format": "includes", "allOf": [{ "pattern": "^[a-c]" }, { "pattern": "^.[a-c]$" }] }),
    ] {
        let (automaton, report) = compile(&Grammar::json_schema_value(spelt), &Options::default()).unwrap();
        let warnings: Vec<_> = report.warnings.iter().map(|w| (w.pointer.as_str(), w.keyword.as_str())).collect();
        assert_eq!(warnings, [("", "format")]);
        assert!(
            accepts(&automaton, br#""ab""#) && !accepts(&automaton, br#""abc""#) && !accepts(&automaton, br#""ad""#)
        );
    }
}

#[test]
fn lenient_drops_and_says_so() {
    let schema =
        json!({ "type": "array", "items": { "format": "moon", "type": "string" }, "uniqueItems": true, "x-note": 1 });
    let options = Options { lenient: true, ..Options::default() };
    let (automaton, report) = compile(&Grammar::json_schema_value(schema), &options).unwrap();
    let mut dropped: Vec<_> = report.warnings.iter().map(|w| (w.pointer.as_str(), w.keyword.as_str())).collect();
    dropped.sort_unstable();
    assert_eq!(dropped, [("", "uniqueItems"), ("", "x-note"), ("/items", "format")]);
    assert!(accepts(&automaton, br#"["a", "a"]"#));
}
