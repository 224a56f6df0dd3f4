//! Chat templates against what transformers makes of them.

use millrace::text::{ChatTemplate, DateTime, SpecialTokens, TemplateSource};
use serde_json::{Map, Value, json};

use crate::common::json_lines;

fn template(text: &str) -> millrace::Result<ChatTemplate> {
    ChatTemplate::new(&TemplateSource::single(text), SpecialTokens::new())
}

fn render(text: &str) -> millrace::Result<String> {
    template(text)?.render(&json!([{"role": "user", "content": "Hi"}]), None, &Map::new(), true)
}

/// `2026-07-04T09:05:03` as a time.
fn time(text: &str) -> DateTime {
    assert_eq!(text, "2026-07-04T09:05:03", "the cases share one time");
    DateTime::from_unix(1_783_155_903)
}

#[test]
fn every_case_renders_as_in_transformers() {
    let mut failures = Vec::new();
    for case in json_lines("tokenizer/templates.jsonl") {
        let name = case["name"].as_str().unwrap();
        let mut special = SpecialTokens::new();
        for key in ["bos_token", "eos_token"] {
            if let Some(text) = case[key].as_str() {
                special.insert(key.to_owned(), text.to_owned());
            }
        }
        let result = ChatTemplate::new(&TemplateSource::single(case["template"].as_str().unwrap()), special).and_then(|t| {
            t.with_now(time(case["now"].as_str().unwrap())).render(
                &case["messages"],
                Some(&case["tools"]),
                case["extra"].as_object().unwrap(),
                case["add_generation_prompt"].as_bool().unwrap(),
            )
        });
        let outcome = match (&result, case.get("rendered").and_then(Value::as_str), case.get("error").and_then(Value::as_str)) {
            (Ok(text), Some(expected), _) => text == expected,
            (Err(e), _, Some(expected)) => e.code() == "TEMPLATE" && e.message().ends_with(expected),
            _ => false,
        };
        if !outcome {
            failures.push(format!("{name}\n  got {result:?}\n  not {:?}{:?}", case.get("rendered"), case.get("error")));
        }
    }
    assert!(failures.is_empty(), "{} cases differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_template_that_does_not_end_is_stopped() {
    let error = render("{% macro f() %}{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}{% endmacro %}{{ f() }}").unwrap_err();
    assert_eq!(error.code(), "TEMPLATE");
    assert!(error.message().contains("does not end"), "{error}");
    let error = render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").unwrap_err();
    assert_eq!(error.code(), "TEMPLATE");
}

#[test]
fn a_template_that_writes_too_much_is_stopped() {
    let error = render("{% for i in range(1000) %}{{ 'x' * 100000 }}{% endfor %}").unwrap_err();
    assert_eq!(error.code(), "TEMPLATE");
    assert!(error.message().contains("16 MiB"), "{error}");
}

#[test]
fn errors_name_the_line_and_say_what() {
    let error = template("a\n{% if %}").err().unwrap();
    assert_eq!(error.code(), "TEMPLATE");
    assert!(error.message().contains("line 2"), "{error}");
    let error = render("\n\n{{ messages[7].content }}").unwrap_err();
    assert!(error.message().contains("line 3"), "{error}");
    let error = render("{{ raise_exception('roles must alternate') }}").unwrap_err();
    assert_eq!(error.message(), "the chat template refuses the conversation: roles must alternate");
    assert_eq!(render("{% include 'secret' %}").unwrap_err().code(), "TEMPLATE");
}

#[test]
fn options_that_the_engine_sets_are_refused() {
    let template = template("{{ messages }}").unwrap();
    let extra = json!({"messages": []});
    let error = template.render(&json!([]), None, extra.as_object().unwrap(), false).unwrap_err();
    assert_eq!(error.code(), "BAD_OPTION");
    assert_eq!(template.render(&json!("hello"), None, &Map::new(), false).unwrap_err().code(), "BAD_OPTION");
    assert_eq!(template.render(&json!([]), Some(&json!({})), &Map::new(), false).unwrap_err().code(), "BAD_OPTION");
}

#[test]
fn an_empty_conversation_is_the_templates_business() {
    assert_eq!(template("{{ messages|length }}").unwrap().render(&json!([]), None, &Map::new(), false).unwrap(), "0");
}
