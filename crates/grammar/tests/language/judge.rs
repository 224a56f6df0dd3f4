//! Finished texts that are judged: keys in any order, numbers in any form; the same verdicts as another validator's.

use millrace_grammar::{Grammar, Judge, Options};
use serde_json::{Value, json};

use crate::hostile::fuzzed_schema;
use crate::support::Random;

fn judge_of(schema: &Value) -> Judge {
    Judge::new(Grammar::json_schema_value(schema.clone()), &Options::default())
        .unwrap_or_else(|e| panic!("{schema}: {e}"))
}

#[test]
fn keys_come_in_any_order() {
    let inner = json!({ "type": "object", "properties": { "x": { "type": "integer" }, "y": { "type": "string" } },
        "required": ["y"], "additionalProperties": false });
    let list = json!({ "type": "array", "items": inner });
    let schema = json!({ "type": "object", "properties": { "a": inner, "b": list, "c": {} }, "required": ["a", "b"] });
    let judge = judge_of(&schema);
    for (text, yes) in [
        (r#"{"a":{"x":1,"y":"s"},"b":[],"c":null}"#, true),
        (r#"{"c":null,"b":[{"y":"s","x":1}],"a":{"y":"s","x":1}}"#, true),
        (r#"{"z":1,"b":[],"a":{"y":"s"}}"#, true),
        (r#"{"b":[]}"#, false),
        (r#"{"b":[],"a":{"y":"s","x":"1"}}"#, false),
        (r#"{"b":[{"x":1}],"a":{"y":"s"}}"#, false),
        (r#"{"b":[],"a":{"y":"s","z":1}}"#, false),
        // A key that comes twice.
        (r#"{"b":[],"a":{"x":1},"a":{"y":"s"}}"#, false),
        (r#"{"b":[],"a":{"y":"s"},"a":{"y":"t"}}"#, false),
    ] {
        assert_eq!(judge.accepts(text.as_bytes()).unwrap(), yes, "{text}");
    }
    // An answer is forced to the schema's order.
    let forced = Options { required_first: false, ..Options::default() };
    let forced = Judge::new(Grammar::json_schema_value(schema), &forced).unwrap();
    let text = br#"{"b":[],"a":{"y":"s"}}"#;
    assert!(forced.accepts(text).unwrap() && !crate::support::accepts(forced.automaton(), text));
}

#[test]
fn values_are_judged_in_every_form_that_json_has() {
    let integer = judge_of(&json!({ "type": "integer", "maximum": 2000 }));
    for (text, yes) in [
        ("1.0", true),
        ("2e3", true),
        ("20.00e2", true),
        ("2000.5", false),
        ("1.5", false),
        ("2001.0", false),
        ("2e4", false),
        ("1e401", false),
        ("01", false),
        ("+1", false),
        ("1.", false),
        ("1e", false),
        ("-", false),
        (" 1", false),
        ("1 ", false),
        ("\"1\"", false),
        ("", false),
    ] {
        assert_eq!(integer.accepts(text.as_bytes()).unwrap(), yes, "{text}");
    }
    let old = judge_of(&json!({ "$schema": "http://json-schema.org/draft-04/schema#", "type": "integer" }));
    assert!(old.accepts(b"1").unwrap() && !old.accepts(b"1.0").unwrap());
    let word = judge_of(&json!({ "enum": ["ab\n", { "k": [1, true] }] }));
    for (text, yes) in [
        (r#""\u0061b\u000a""#, true),
        (r#""ab\n""#, true),
        (r#""ab""#, false),
        ("\"ab\n\"", false),
        (r#""\ud800""#, false),
        (r#"{"\u006b":[1.0,true]}"#, true),
        (r#"{"k":[true,1]}"#, false),
        (r#"{"k":[1,true],"l":0}"#, false),
        (r#"{"k":[1,true]"#, false),
        (r#"{"k":[1,true,]}"#, false),
        (r#"{"k":[1 true]}"#, false),
        (r#"{"k" [1,true]}"#, false),
    ] {
        assert_eq!(word.accepts(text.as_bytes()).unwrap(), yes, "{text}");
    }
    assert!(!word.accepts(b"\"\xff\"").unwrap());
}

#[test]
fn texts_that_nest_deeply_are_left_to_the_automaton() {
    let judge = judge_of(&json!({ "type": "array" }));
    let nested = |n: usize, inner: &str| "[".repeat(n) + inner + &"]".repeat(n);
    assert!(judge.accepts(nested(900, "").as_bytes()).unwrap());
    assert!(judge.accepts(nested(100, "1e200").as_bytes()).unwrap());
    assert!(!judge.accepts(nested(300, "1e200").as_bytes()).unwrap());
    assert!(!judge.accepts("[".repeat(1_000_000).as_bytes()).unwrap());
}

#[test]
fn grammars_that_are_no_schema_are_judged_by_their_automaton() {
    let judge = Judge::new(Grammar::regex("a+"), &Options::default()).unwrap();
    assert!(judge.accepts(b"aa").unwrap() && !judge.accepts(b"ab").unwrap());
}

/// A value that may or may not satisfy a schema, made of the words that schemas of these tests have.
fn value(random: &mut Random, depth: usize) -> Value {
    let kinds = if depth == 0 { 5 } else { 8 };
    match random.below(kinds) {
        0 => Value::Null,
        1 => json!(random.chance(50)),
        2 => json!([0, 1, -2, 3, 7, 12, 40][random.below(7)]),
        3 => json!([0.5, 2.5, -0.25, 3.75][random.below(4)]),
        4 => json!(["", "a", "b", "xy", "ab", "12", "2024-02-29", "x-y"][random.below(8)]),
        5 => (0..random.below(5)).map(|_| value(random, depth - 1)).collect(),
        _ => {
            let mut map = serde_json::Map::new();
            for _ in 0..random.below(5) {
                let name = ["a", "b", "c", "x-y", "", "t", "v", "x", "kind", "name"][random.below(10)];
                map.insert(name.to_owned(), value(random, depth - 1));
            }
            Value::Object(map)
        }
    }
}

#[test]
fn verdicts_are_those_of_another_validator() {
    let mut random = Random::new(43);
    let (mut all, mut valid) = (0, 0);
    let listed = crate::schemas::all();
    for round in 0..250 {
        let schema = match listed.get(round) {
            Some(listed) => listed.clone(),
            None => fuzzed_schema(&mut random, 2),
        };
        // What is refused here, the other validator may not come to an end with.
        let judge = Judge::new(Grammar::json_schema_value(schema.clone()), &Options::default());
        let Ok(judge) = judge else { continue };
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .should_validate_formats(true)
            .build(&schema);
        let Ok(validator) = validator else { continue };
        for _ in 0..40 {
            let value = value(&mut random, 3);
            let (text, theirs) = (value.to_string(), validator.is_valid(&value));
            // The other validator divides doubles (see walks.rs).
            if text.contains(['-', '.']) && schema.to_string().contains("multipleOf") {
                continue;
            }
            let ours = judge.accepts(text.as_bytes()).unwrap();
            assert_eq!(ours, theirs, "{schema} and {text}");
            (all, valid) = (all + 1, valid + usize::from(theirs));
        }
    }
    println!("{all} values, {valid} valid");
    assert!(all > 4000 && valid > 1000 && all - valid > 1000);
}
