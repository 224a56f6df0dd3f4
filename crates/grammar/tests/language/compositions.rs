//! Grammars put together as a family's call format is.

use millrace_grammar::{ErrorKind, Grammar};
use serde_json::json;

use crate::support::{accepts, made};

fn call(name: &str, arguments: serde_json::Value) -> Grammar {
    Grammar::sequence([
        Grammar::literal(format!("{{\"name\": \"{name}\", \"arguments\": ")),
        Grammar::json_schema_value(arguments),
        Grammar::literal("}\n</tool_call>"),
    ])
}

fn tools() -> Grammar {
    let weather = call(
        "weather",
        json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"], "additionalProperties": false }),
    );
    let add = call(
        "add",
        json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"], "additionalProperties": false }),
    );
    Grammar::union([weather, add])
}

#[test]
fn required_calls_behind_a_thought() {
    let one = Grammar::sequence([Grammar::literal("<tool_call>\n"), tools()]);
    let grammar = Grammar::sequence([Grammar::free_until("</think>\n"), Grammar::repeated(one, "\n", 1, Some(2))]);
    let automaton = made(&grammar).unwrap().0;
    let weather = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"x\"}}\n</tool_call>";
    let add = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 3}}\n</tool_call>";
    for text in [format!("I </thi</think>\n{weather}"), format!("</think>\n{weather}\n{add}")] {
        assert!(accepts(&automaton, text.as_bytes()), "{text}");
    }
    for text in [
        weather.to_owned(),
        format!("</think>\n{}", weather.replace("city", "town")),
        format!("</think>\n{add}\n{add}\n{add}"),
        "</think>\n".to_owned(),
    ] {
        assert!(!accepts(&automaton, text.as_bytes()), "{text}");
    }
}

#[test]
fn free_text_with_calls_of_its_own_accord() {
    let automaton = made(&Grammar::free_text([("<tool_call>\n", tools())])).unwrap().0;
    let add = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 3}}\n</tool_call>";
    for text in [String::new(), "just { text <tool_call".to_owned(), format!("so: {add} and <tool_<{add}")] {
        assert!(accepts(&automaton, text.as_bytes()), "{text}");
    }
    for text in [
        "<tool_call>\n".to_owned(),
        "<tool_call>\nx".to_owned(),
        add.replace("add", "sub"),
        format!("{add}<tool_call>\n{{"),
    ] {
        assert!(!accepts(&automaton, text.as_bytes()), "{text}");
    }
}

#[test]
fn regex_and_choices() {
    let automaton = made(&Grammar::regex(r"(\d{3}-)?[^\d\s]+|é{2}")).unwrap().0;
    for (text, yes) in [("123-abc", true), ("éé", true), ("ü😀", true), ("12-a", false), ("a b", false), ("", false)]
    {
        assert_eq!(accepts(&automaton, text.as_bytes()), yes, "{text}");
    }
    let automaton = made(&Grammar::choices(["yes", "yes, please", "no"])).unwrap().0;
    for (text, yes) in [("yes", true), ("yes, please", true), ("no", true), ("yes,", false), ("", false)] {
        assert_eq!(accepts(&automaton, text.as_bytes()), yes, "{text}");
    }
}

#[test]
fn what_cannot_be_told_apart_is_an_error() {
    let both = Grammar::union([Grammar::literal("\"a"), Grammar::json_schema("{\"type\": \"string\"}").unwrap()]);
    assert_eq!(made(&both).unwrap_err().kind(), ErrorKind::Ambiguous);
    assert_eq!(made(&Grammar::regex("a(?<=a)c")).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(made(&Grammar::regex("a(?=b)c")).unwrap_err().kind(), ErrorKind::Unsatisfiable);
    assert_eq!(made(&Grammar::regex("[b-a]")).unwrap_err().kind(), ErrorKind::InvalidRegex);
    assert_eq!(made(&Grammar::free_until("")).unwrap_err().kind(), ErrorKind::InvalidSchema);
}
