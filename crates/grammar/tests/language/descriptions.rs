//! Grammars described as JSON, and the special tokens that only they name.

use millrace_grammar::{
    ErrorKind, Grammar, Options, SPECIAL_BEGIN, SPECIAL_END, Vocabulary, Walk, compile, special_token,
};
use serde_json::{Value, json};

use crate::support::{accepts, made};

fn automaton(description: &Value) -> millrace_grammar::Automaton {
    let grammar = Grammar::from_json(&description.to_string()).unwrap_or_else(|e| panic!("{description}: {e}"));
    made(&grammar).unwrap_or_else(|e| panic!("{description}: {e}")).0
}

/// Text in which `«name»` is a special token; each of the two signs is the byte that it stands for.
fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for c in text.chars() {
        match c {
            '«' => out.push(SPECIAL_BEGIN),
            '»' => out.push(SPECIAL_END),
            c => out.extend(c.to_string().as_bytes()),
        }
    }
    out
}

/// Every form, with texts that it has and has not.
fn forms() -> Vec<(Value, &'static [&'static str], &'static [&'static str])> {
    vec![
        (json!({ "schema": { "type": "integer" } }), &["12"], &["a", "«12»", ""]),
        (json!({ "schema": true }), &["[\"é\"]"], &["\"«a»\"", "«a»"]),
        (json!({ "regex": "a+." }), &["aab", "a😀"], &["b", "a«b»", "a«»"]),
        (json!({ "choice": ["a", "b"] }), &["a", "b"], &["ab", "«a»"]),
        (json!({ "literal": "text" }), &["text"], &["tex", "«text»"]),
        (json!({ "token": "<tool_call>" }), &["«<tool_call>»"], &["<tool_call>", "«<tool_call>", "«<tool>»"]),
        (json!({ "sequence": [{ "literal": "a" }, { "token": "b" }] }), &["a«b»"], &["ab", "a", "«b»"]),
        (
            json!({ "union": [{ "literal": "a" }, { "token": "b" }, { "token": "bc" }] }),
            &["a", "«b»", "«bc»"],
            &["", "«c»", "«b»«b»"],
        ),
        (json!({ "repeat": { "item": { "literal": "a" } } }), &["", "a", "aaa"], &["b"]),
        (
            json!({ "repeat": { "item": { "literal": "a" }, "separator": ", ", "min": 1, "max": 2 } }),
            &["a", "a, a"],
            &["", "aa", "a, a, a"],
        ),
        (
            json!({ "repeat": { "item": { "schema": { "type": "null" } }, "separator": { "token": "|" }, "max": null } }),
            &["", "null«|»null"],
            &["null|null", "null«|»"],
        ),
        (
            json!({ "free_until": "</think>" }),
            &["</think>", "</thin é😀</th</think>"],
            &["", "a", "a</think>b", "«a»</think>"],
        ),
        (
            json!({ "free_until": { "token": "end" } }),
            &["«end»", "end 😀 «end»"],
            &["end", "«end", "«other»«end»", "«end»«end»"],
        ),
        (
            json!({ "free_text": [
                { "trigger": "<tool>", "then": { "literal": "x</tool>" } },
                { "trigger": { "token": "<tool>" }, "then": { "sequence": [{ "schema": { "type": "boolean" } }, { "token": "</tool>" }] } },
            ] }),
            &["", "é", "<tool", "<tool>x</tool>", "a «<tool>»true«</tool>» <«<tool>»false«</tool>»<tool>x</tool>"],
            &["<tool>", "<tool>y", "«</tool>»", "«<tool>»", "«<tool>»x</tool>", "«<tool>»true</tool>"],
        ),
        // The text of a special token is nothing to a trigger, and a trigger that ends in another one is found first.
        (
            json!({ "free_text": [{ "trigger": "tool", "then": { "literal": "!" } }, { "trigger": { "token": "a tool" }, "then": { "literal": "?" } }] }),
            &["«a tool»?", "a tool!"],
            &["«a tool»!", "«tool»!"],
        ),
        (json!({ "free_text": [] }), &["", "anything 😀"], &["«a»"]),
    ]
}

#[test]
fn every_form() {
    for (description, yes, no) in forms() {
        let automaton = automaton(&description);
        for text in yes {
            assert!(accepts(&automaton, &bytes(text)), "{description} has {text}");
        }
        for text in no {
            assert!(!accepts(&automaton, &bytes(text)), "{description} has not {text}");
        }
    }
}

#[test]
fn free_text_is_well_formed() {
    for description in
        [json!({ "free_text": [{ "trigger": "é😀", "then": { "literal": "!" } }] }), json!({ "free_text": [] })]
    {
        let automaton = automaton(&description);
        for (text, yes) in [
            (&b"\xc3"[..], false),
            (b"\xc3\xa8", true),
            (b"\xc3\xc3", false),
            (b"\xed\xa0\x80", false),
            (b"\xf4\x90\x80\x80", false),
            (b"\xf0\x9f\x98\x80", true),
            (b"\x80", false),
        ] {
            assert_eq!(accepts(&automaton, text), yes, "{text:x?}");
        }
        // Half a character may stand at the end of a token, but not at the end of a text.
        let mut walk = Walk::new(&automaton);
        assert!(walk.advance_token(&automaton, b"a\xf0\x9f") && !walk.accepting(&automaton));
        assert!(
            !walk.allowed(&automaton, b"a")
                && walk.advance_token(&automaton, b"\x98\x80")
                && walk.accepting(&automaton)
        );
    }
}

/// Whether any state reads bytes that no text has, which special tokens begin and end with.
fn names_special_tokens(automaton: &millrace_grammar::Automaton) -> bool {
    (1..automaton.states).any(|state| (0xf5..=0xff).any(|byte| automaton.entry(state, byte) != 0))
}

#[test]
fn special_tokens_are_allowed_where_they_are_named() {
    for (description, ..) in forms() {
        assert_eq!(
            names_special_tokens(&automaton(&description)),
            description.to_string().contains("\"token\""),
            "{description}"
        );
    }
    for schema in crate::schemas::all() {
        assert!(!names_special_tokens(&crate::support::of(&schema)), "{schema}");
    }
    let tokens: Vec<Vec<u8>> = ["«end»", "end", "«other»", "<", "a«end»", "é"].iter().map(|t| bytes(t)).collect();
    let vocabulary = Vocabulary::new(tokens.iter().map(Vec::as_slice), |_| false);
    let free =
        automaton(&json!({ "sequence": [{ "free_until": { "token": "end" } }, { "schema": { "type": "string" } }] }));
    assert_eq!(Walk::new(&free).mask(&free, &vocabulary), [0b11_1011]);
    let string = automaton(&json!({ "schema": {} }));
    let mut walk = Walk::new(&string);
    assert!(walk.advance(&string, b'"'));
    assert_eq!(walk.mask(&string, &vocabulary), [0b10_1010]);
}

#[test]
fn errors_of_descriptions_say_where() {
    for (description, pointer) in [
        (json!(3), ""),
        (json!({}), ""),
        (json!({ "regex": "a", "literal": "b" }), ""),
        (json!({ "regexp": "a" }), "/regexp"),
        (json!({ "regex": 3 }), "/regex"),
        (json!({ "sequence": [{ "literal": "a" }, { "union": [{ "literal": 1 }] }] }), "/sequence/1/union/0/literal"),
        (json!({ "repeat": { "item": { "literal": "a" }, "min": -1 } }), "/repeat/min"),
        (json!({ "repeat": { "item": { "literal": "a" }, "most": 1 } }), "/repeat"),
        (json!({ "repeat": {} }), "/repeat/item"),
        (json!({ "free_until": { "token": null } }), "/free_until/token"),
        (json!({ "free_text": [{ "trigger": "a" }] }), "/free_text/0/then"),
    ] {
        let error = Grammar::from_json(&description.to_string()).expect_err(&description.to_string());
        assert_eq!((error.kind(), error.pointer()), (ErrorKind::InvalidSchema, pointer), "{description}: {error}");
    }
    assert_eq!(Grammar::from_json("{").unwrap_err().kind(), ErrorKind::InvalidSchema);
    let two = json!({ "union": [{ "schema": { "type": "null" } }, { "schema": { "items": { "pattern": "(a)\\1" }, "x": 1 } }] });
    let error = made(&Grammar::from_json(&two.to_string()).unwrap()).unwrap_err();
    assert_eq!((error.schema(), error.pointer(), error.keyword()), (1, "/items", "pattern"));
    let options = Options { lenient: true, ..Options::default() };
    let report = compile(&Grammar::from_json(&two.to_string()).unwrap(), &options).unwrap().1;
    assert!(report.warnings.len() == 2 && report.warnings.iter().all(|w| w.schema == 1));
}

#[test]
fn bytes_that_are_no_text_are_errors() {
    for grammar in [
        Grammar::literal(b"a\xff".to_vec()),
        Grammar::literal(b"\xc3".to_vec()),
        Grammar::free_until(b"\xc3".to_vec()),
        Grammar::free_until([special_token("a"), b"b".to_vec()].concat()),
        Grammar::repeated(Grammar::literal("a"), b"\xfe".to_vec(), 2, None),
    ] {
        assert_eq!(made(&grammar).unwrap_err().kind(), ErrorKind::InvalidSchema, "{grammar:?}");
    }
    let nothing =
        Grammar::repeated(Grammar::repeated(Grammar::literal(""), "", 0, Some(u32::MAX)), "", 0, Some(u32::MAX));
    assert_eq!(made(&nothing).unwrap_err().kind(), ErrorKind::TooLarge);
}
